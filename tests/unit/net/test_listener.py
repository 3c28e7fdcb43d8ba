"""Ports that are opened together, and closed together when one of them cannot be."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from hareline.errors import ListenError
from hareline.net.binding import Address
from hareline.net.listener import Endpoint, Listeners
from hareline.wire.constants import PROTOCOL_HEADER
from tests.support.waiting import until
from tests.unit.amqp.peer import SteppedBroker


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    """Two that are bound to free ports of loopback."""
    made = [socket.socket() for _ in range(2)]
    for each in made:
        each.setblocking(False)
        each.bind(("127.0.0.1", 0))
    yield made
    for each in made:
        each.close()


def endpoints(sockets: list[socket.socket]) -> list[Endpoint]:
    return [
        Endpoint(
            Address(f"listeners[{index}]", "127.0.0.1", 0, product=f"product {index}"), [each], 10
        )
        for index, each in enumerate(sockets)
    ]


def port_of(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])


async def test_each_port_makes_connections_with_its_product(sockets: list[socket.socket]) -> None:
    broker = SteppedBroker()
    listeners = Listeners(broker.context)
    listening = await listeners.start(endpoints(sockets), write_high_bytes=1000)
    assert [each.port for each in listening] == [port_of(each) for each in sockets]
    connections, products = broker.context.connections, list[str]()
    for address in listening:
        with socket.create_connection((address.host, address.port)) as client:
            client.sendall(PROTOCOL_HEADER)
            await until(lambda: connections, "the connection")
            products.append(next(reversed(connections)).transport.product)
        await until(lambda: not connections, "its end")
    assert products == ["product 0", "product 1"]
    await listeners.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((listening[0].host, listening[0].port))


async def test_the_turn_lets_paused_connections_go_on(sockets: list[socket.socket]) -> None:
    broker = SteppedBroker()
    listeners = Listeners(broker.context)
    await listeners.start(endpoints(sockets), write_high_bytes=1000)
    assert broker.turn.on_finished is not None
    await listeners.stop()


async def test_no_port_is_left_open_after_an_error(sockets: list[socket.socket]) -> None:
    listeners = Listeners(SteppedBroker().context)
    good, _ = endpoints(sockets)
    closed = socket.socket()
    closed.close()
    unusable = Endpoint(Address("listeners[1]", "127.0.0.1", 0), [closed], 10)
    with pytest.raises(ListenError, match=r"cannot listen on 127\.0\.0\.1:0: "):
        await listeners.start([good, unusable], write_high_bytes=1000)
    assert sockets[0].fileno() == -1
