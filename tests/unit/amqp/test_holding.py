"""basic.get has no credit: what a read asks for beyond the room for output waits in the decoder."""

from __future__ import annotations

import pytest

from hareline.amqp.output import OUTPUT_TURN_MAX_BYTES
from hareline.wire.methods import commands, encode_method

from .peer import Peer, SteppedBroker

BODY = bytes(100_000)
GET = encode_method(1, commands.Basic.Get, queue="q", no_ack=True)


@pytest.fixture
def filled(peer: Peer) -> Peer:
    """A client with 50 messages of 100 kB in its queue."""
    peer.declare("q")
    peer.fill("q", *[b"%02d" % number + BODY for number in range(50)])
    return peer


def step(broker: SteppedBroker) -> None:
    """One end of turn, though more of them may have been asked for."""
    broker.scheduled.pop(0)()


def test_gets_of_one_read_are_answered_over_many_turns(filled: Peer, broker: SteppedBroker) -> None:
    broker.run_turns()
    filled.transport.written = b""
    filled.send_octets(GET * 50)
    sizes: list[int] = []
    while broker.scheduled:
        before = len(filled.transport.written)
        step(broker)
        sizes.append(len(filled.transport.written) - before)
    assert max(sizes) <= OUTPUT_TURN_MAX_BYTES + 2 * len(BODY)
    assert [body[:2] for body in filled.bodies()] == [b"%02d" % number for number in range(50)]
    assert filled.transport.is_reading


def test_the_client_is_not_read_from_until_there_is_room_again(
    filled: Peer, broker: SteppedBroker
) -> None:
    was_reading: list[bool] = []
    filled.connection.on_socket_full()
    filled.send_octets(GET * 49)
    assert len(filled.bodies()) == 1
    was_reading.append(filled.transport.is_reading)
    filled.send_octets(GET)  # came before reading was paused
    assert filled.bodies() == []
    filled.connection.on_socket_drained()
    assert len(filled.bodies()) == 49
    was_reading.append(filled.transport.is_reading)
    assert was_reading == [False, True]


def test_what_was_sent_behind_a_get_is_handled_behind_it(
    filled: Peer, broker: SteppedBroker
) -> None:
    filled.send_octets(GET * 20)
    filled.publish(1, "q", b"last")
    filled.send(1, commands.Queue.Purge, queue="q")
    received = filled.receive()
    assert [one.name for one in received] == ["basic.get-ok"] * 20 + ["queue.purge-ok"]
    assert received[-1].method.message_count == 31


def test_a_client_that_vanishes_meanwhile_leaves_nothing_to_go_on_with(
    filled: Peer, broker: SteppedBroker
) -> None:
    filled.send_octets(GET * 50)
    assert broker.queue("q").ready_count > 30
    filled.lose()
    assert not broker.scheduled
    assert broker.queue("q").ready_count > 30


def test_a_client_that_closes_behind_its_gets_is_answered(
    filled: Peer, broker: SteppedBroker
) -> None:
    filled.send_octets(GET * 50)
    filled.send(0, commands.Connection.Close, reply_code=200, reply_text="")
    names = [one.name for one in filled.receive()]
    assert names == ["basic.get-ok"] * 50 + ["connection.close-ok"]


def test_an_alarm_that_ends_meanwhile_does_not_read_on(filled: Peer, broker: SteppedBroker) -> None:
    broker.context.alarms.set("memory")
    filled.publish(1, "nowhere", b"x")
    filled.connection.on_socket_full()
    filled.send_octets(GET * 3)
    broker.context.alarms.clear("memory")
    broker.run_turns()
    was_reading = [filled.transport.is_reading]
    filled.connection.on_socket_drained()
    was_reading.append(filled.transport.is_reading)
    assert was_reading == [False, True]


def test_an_alarm_that_goes_on_keeps_the_client_from_being_read(
    filled: Peer, broker: SteppedBroker
) -> None:
    broker.context.alarms.set("memory")
    filled.publish(1, "nowhere", b"x")
    filled.connection.on_socket_full()
    filled.send_octets(GET * 3)
    filled.connection.on_socket_drained()
    was_reading = [filled.transport.is_reading]
    broker.context.alarms.clear("memory")
    broker.run_turns()
    was_reading.append(filled.transport.is_reading)
    assert was_reading == [False, True]
