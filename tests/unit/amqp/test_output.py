"""The output of a connection: one write a turn, bounded, and what waits for a full socket."""

from __future__ import annotations

from hareline.amqp.output import OUTPUT_TURN_MAX_BYTES
from hareline.wire.methods import commands, encode_method

from .peer import (
    Peer,
    SteppedBroker,
    publish_octets,
)

DECLARE, CONSUME = commands.Queue.Declare, commands.Basic.Consume


def test_all_that_is_said_in_a_turn_is_one_write(peer: Peer) -> None:
    writes = peer.transport.writes
    peer.send_octets(
        encode_method(1, DECLARE, queue="q")
        + publish_octets(1, "q", b"1")
        + publish_octets(1, "nowhere", b"2", mandatory=True)
        + encode_method(1, CONSUME, queue="q", consumer_tag="t")
    )
    names = [one.name for one in peer.receive()]
    assert names == ["queue.declare-ok", "basic.return", "basic.consume-ok", "basic.deliver"]
    assert peer.transport.writes == writes + 1


def test_a_turn_writes_a_bounded_number_of_octets_to_one_connection(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    body = b"x" * 100_000
    count = 3 * OUTPUT_TURN_MAX_BYTES // len(body)
    peer.fill("q", *[body] * count)
    consumer = broker.connect()
    consumer.send(1, CONSUME, queue="q", consumer_tag="t", no_ack=True)
    sizes = []
    while broker.scheduled:
        before = len(consumer.transport.written)
        broker.scheduled.pop(0)()
        sizes.append(len(consumer.transport.written) - before)
    assert max(sizes) < OUTPUT_TURN_MAX_BYTES + 2 * len(body)
    assert len([size for size in sizes if size]) >= 3
    assert [one.body for one in consumer.receive() if one.name == "basic.deliver"] == [body] * count


def test_a_full_socket_suspends_its_consumers_and_the_queue_grows_instead(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    slow = broker.connect()
    slow.subscribe("q", "t", no_ack=True)
    slow.connection.on_socket_full()
    peer.fill("q", *[b"x" * 100] * 50)
    slow.expect_nothing()
    assert broker.queue("q").ready_count == 50
    slow.connection.on_socket_drained()
    assert len(slow.bodies()) == 50
    assert broker.queue("q").ready_count == 0


def test_another_consumer_gets_what_a_full_one_cannot_take(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    slow, quick = broker.connect(), broker.connect()
    slow.subscribe("q", "slow")
    quick.subscribe("q", "quick")
    slow.connection.on_socket_full()
    peer.fill("q", *[b"%d" % number for number in range(10)])
    assert len(quick.bodies()) == 10
    slow.expect_nothing()
    slow.connection.on_socket_drained()
    peer.fill("q", b"a", b"b")
    assert len(quick.bodies()) == 1
    assert len(slow.bodies()) == 1


def test_replies_go_out_even_when_the_socket_is_full(peer: Peer) -> None:
    peer.connection.on_socket_full()
    peer.declare("q")


def test_a_consumer_cancelled_while_its_socket_is_full_gets_nothing(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    slow = broker.connect()
    slow.subscribe("q", "t")
    slow.connection.on_socket_full()
    peer.fill("q", b"1")
    broker.run_turns()
    slow.call(1, commands.Basic.Cancel, consumer_tag="t")
    slow.connection.on_socket_drained()
    slow.expect_nothing()
    assert broker.queue("q").ready_count == 1
