"""Packets that are lost, and peers that are gone without a word: docs/fuzzing-and-faults.md.

The clients reach the broker through a proxy. Heartbeats are a second, the shortest that there is.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pika
import pytest
from pamqp import commands

from hareline.net.shell import ConnectionShell
from hareline.server.broker import Broker
from tests.support.broker_thread import BrokerThread
from tests.support.faulty_proxy import FaultyProxy, faulty_proxy
from tests.support.raw_client import RawClient

HEARTBEAT_S = 1
BODIES = [b"%d" % number for number in range(50)]


@pytest.fixture
def proxy(broker: BrokerThread) -> Iterator[FaultyProxy]:
    with faulty_proxy(broker.address) as made:
        yield made


def clients_of(broker: BrokerThread) -> int:
    return broker.ask(lambda inside: len(inside.context.connections))


def wait_until_alone(broker: BrokerThread, count: int) -> None:
    broker.wait_until(lambda inside: len(inside.context.connections) == count, "a lost client")


@pytest.mark.parametrize("piece_bytes", [1, 7, 1460])
def test_over_a_path_that_loses_packets_every_message_comes_once_and_in_order(
    broker: BrokerThread, proxy: FaultyProxy, piece_bytes: int
) -> None:
    proxy.piece_bytes = piece_bytes
    host, port = proxy.address
    with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        bodies = [b"%d " % number * 40 for number in range(20)]
        for body in bodies:
            channel.basic_publish("", queue, body)
        taken = []
        for method, _, body in channel.consume(queue, inactivity_timeout=60):
            assert method is not None, "a message is missing"
            assert not method.redelivered
            taken.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(taken) == len(bodies):
                break
        assert taken == bodies
        channel.cancel()
        assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_messages_of_a_half_open_consumer_go_to_another_one(
    broker: BrokerThread, proxy: FaultyProxy
) -> None:
    other = broker.client().open()
    other.declare("q")
    alone = clients_of(broker)
    consumer = RawClient(proxy.address).open(heartbeat_s=HEARTBEAT_S)
    consumer.consume("q", no_ack=False)
    other.publish("q", *BODIES)
    assert consumer.read_bodies(len(BODIES)) == BODIES
    exclusive = consumer.declare("", exclusive=True)
    proxy.stall()
    wait_until_alone(broker, alone)
    other.consume("q")
    assert other.read_bodies(len(BODIES)) == BODIES
    assert broker.ask(lambda inside: exclusive not in inside.context.vhosts["/"].queues)
    consumer.drop()


def test_what_a_half_open_publisher_has_not_finished_is_not_there(
    broker: BrokerThread, proxy: FaultyProxy
) -> None:
    """Half a message, and a transaction without its commit."""
    other = broker.client().open()
    other.declare("half")
    alone = clients_of(broker)
    publisher = RawClient(proxy.address).open(heartbeat_s=HEARTBEAT_S)
    transaction = RawClient(proxy.address).open(heartbeat_s=HEARTBEAT_S)
    transaction.call(commands.Tx.Select(), commands.Tx.SelectOk)
    before = proxy.passed_bytes
    transaction.publish("half", b"never committed")
    publisher.publish("half", b"whole")
    publisher.send_octets(publisher.publish_octets("half", bytes(50_000))[:30_000])
    proxy.wait_for_bytes(before + 30_000)
    proxy.stall()
    wait_until_alone(broker, alone)
    other.consume("half")
    assert other.read_bodies(1) == [b"whole"]
    assert other.ready_count("half") == 0
    publisher.drop()
    transaction.drop()


def test_a_peer_that_is_reset_in_the_middle_of_anything_leaves_nothing(
    broker: BrokerThread, proxy: FaultyProxy
) -> None:
    other = broker.client().open()
    other.declare("reset")
    alone = clients_of(broker)
    peers = [RawClient(proxy.address).open() for _ in range(3)]
    peers[0].consume("reset", no_ack=False)
    other.publish("reset", *BODIES)
    peers[0].read_bodies(len(BODIES) // 2)
    peers[1].send_octets(peers[1].publish_octets("reset", bytes(5_000))[:4_000])
    proxy.reset()
    wait_until_alone(broker, alone)
    other.consume("reset")
    assert other.read_bodies(len(BODIES)) == BODIES
    for peer in peers:
        peer.drop()


def test_a_path_that_comes_back_in_time_loses_nothing(
    broker: BrokerThread, proxy: FaultyProxy
) -> None:
    client = RawClient(proxy.address).open(heartbeat_s=60)
    queue = client.declare("", exclusive=True)
    client.select_confirms()
    proxy.stall()
    client.publish(queue, *BODIES)
    other = broker.client().open()
    for _ in range(10):  # nobody else waits for it
        other.declare("", exclusive=True)
    proxy.go_on()
    client.read_confirms(len(BODIES))
    client.consume(queue)
    assert client.read_bodies(len(BODIES)) == BODIES
    client.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of Linux")
def test_the_system_looks_after_peers_that_send_no_heartbeats(broker: BrokerThread) -> None:
    """A host that is gone answers no probe; a proxy, whose host is there, cannot show it."""
    broker.client().open(heartbeat_s=0)

    def options(inside: Broker) -> tuple[int, ...]:
        connection = list(inside.context.connections)[-1]
        shell = connection.transport
        assert isinstance(shell, ConnectionShell)
        assert shell._transport is not None
        opened = shell._transport.get_extra_info("socket")
        return (
            opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
        )

    assert broker.ask(options) == (1, 60, 15, 4)
