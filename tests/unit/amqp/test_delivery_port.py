"""When deliveries may go out on a channel, and who is called when they may again."""

from __future__ import annotations

import pytest

from hareline.amqp.delivery_port import DeliveryPort
from hareline.wire.methods import commands

from .peer import Peer


@pytest.fixture
def port(peer: Peer) -> DeliveryPort:
    return peer.connection.channels.by_number[1].port


def test_a_port_with_room_waits_for_nothing(port: DeliveryPort) -> None:
    calls: list[str] = []
    assert port.is_writable
    assert not port.waits(lambda: calls.append("called"))
    port.update_flow()
    assert calls == []


def test_a_full_socket_makes_it_wait_until_it_has_drained(peer: Peer, port: DeliveryPort) -> None:
    calls: list[str] = []
    peer.connection.on_socket_full()
    assert not port.is_writable
    assert port.waits(lambda: calls.append("called"))
    for _ in range(3):
        peer.connection.on_socket_drained()
    assert calls == ["called"]
    assert port.is_writable


def test_a_client_that_stops_deliveries_makes_it_wait_until_it_lets_them_go_on(
    peer: Peer, port: DeliveryPort
) -> None:
    calls: list[str] = []
    peer.call(1, commands.Channel.Flow, active=False)
    assert port.is_stopped
    assert port.waits(lambda: calls.append("called"))
    assert calls == []
    peer.call(1, commands.Channel.Flow, active=True)
    assert calls == ["called"]


def test_nothing_that_waits_is_called_after_the_end_of_the_channel(
    peer: Peer, port: DeliveryPort
) -> None:
    calls: list[str] = []
    peer.call(1, commands.Channel.Flow, active=False)
    port.waits(lambda: calls.append("called"))
    peer.call(1, commands.Channel.Close)
    port.is_stopped = False
    port.update_flow()
    assert port.is_closing
    assert calls == []


def test_without_a_large_content_nothing_is_waited_for(port: DeliveryPort) -> None:
    assert not port.when_free(lambda: None)


def test_tags_grow_by_one(port: DeliveryPort) -> None:
    assert [port.take_tag() for _ in range(3)] == [1, 2, 3]
    assert port.next_tag == 4
