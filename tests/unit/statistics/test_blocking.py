"""Why publishers wait: alarms, full queues, transactions, a broker that is behind; since when."""

from __future__ import annotations

from hareline.amqp.channel import Channel
from hareline.amqp.input_gate import BACKLOG, OUTPUT
from hareline.statistics.blocking import Blocked, why_channel_waits, why_connection_waits
from hareline.statistics.readings import connection_state
from hareline.wire.methods import commands
from tests.unit.amqp.peer import Peer, SteppedBroker

FULL = {"x-max-length": 2, "x-overflow": "flow-control"}


def channel_of(peer: Peer, number: int = 1) -> Channel:
    return peer.connection.channels.by_number[number]


def reasons(peer: Peer) -> list[str]:
    return [each.reason for each in why_connection_waits(peer.connection)]


def test_nothing_keeps_a_connection_that_runs_or_that_has_not_opened(
    broker: SteppedBroker, peer: Peer
) -> None:
    assert reasons(peer) == []
    assert why_channel_waits(channel_of(peer)) == []
    broker.context.alarms.set("disk")
    assert why_connection_waits(broker.accept().connection) == []


def test_an_alarm_blocks_at_the_next_publish(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    broker.context.alarms.set("memory")
    short_ms = broker.clock.now_ms
    [before] = why_connection_waits(peer.connection)
    assert (before.reason, before.since_ms) == ("memory", short_ms)
    assert before.text == "the broker is low on memory: the next publish blocks it"
    broker.advance(3)
    peer.fill("q", b"m")
    [blocked] = why_connection_waits(peer.connection)
    assert blocked == Blocked("memory", "the broker is low on memory", broker.clock.now_ms)
    assert broker.clock.now_ms > short_ms
    assert why_channel_waits(channel_of(peer)) == [blocked]
    broker.advance(3)
    broker.context.alarms.set("disk")
    found = why_connection_waits(peer.connection)
    assert [(each.reason, each.since_ms) for each in found] == [
        ("disk", broker.clock.now_ms),
        ("memory", blocked.since_ms),
    ]
    for resource in ("memory", "disk"):
        broker.context.alarms.clear(resource)
    broker.run_turns()
    assert reasons(peer) == []


def test_a_full_queue_is_named_with_its_limit(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("small", arguments=FULL)
    peer.fill("small", b"1", b"2")
    assert reasons(peer) == []
    since_ms = broker.clock.now_ms
    peer.fill("small", b"3")
    [blocked] = why_connection_waits(peer.connection)
    text = (
        "queue 'small' in vhost '/' is full, and its overflow is flow-control: "
        "3 of 2 messages (x-max-length)"
    )
    assert blocked == Blocked(
        "queue", text, since_ms, "/", "small", "x-max-length", limit_value=2, value=3, channel=1
    )
    assert why_channel_waits(channel_of(peer)) == [blocked]
    assert connection_state(peer.connection) == "flow"
    broker.connect().drain("small")
    broker.run_turns()
    assert (reasons(peer), connection_state(peer.connection)) == ([], "running")


def test_of_two_limits_the_one_that_is_nearer_is_named(peer: Peer) -> None:
    arguments = {**FULL, "x-max-length": 100, "x-max-length-bytes": 4}
    peer.declare("heavy", arguments=arguments)
    peer.fill("heavy", b"12345")
    [blocked] = why_connection_waits(peer.connection)
    assert (blocked.limit, blocked.limit_value, blocked.value) == ("x-max-length-bytes", 4, 5)


def test_a_limit_of_nothing_has_no_part(peer: Peer) -> None:
    peer.declare("none", arguments={**FULL, "x-max-length": 0})
    peer.fill("none", b"1")
    [blocked] = why_connection_waits(peer.connection)
    assert (blocked.limit, blocked.limit_value, blocked.value) == ("x-max-length", 0, 1)


def test_each_channel_says_what_it_waits_for_itself(peer: Peer) -> None:
    peer.open(2)
    for name in ("a", "b"):
        peer.declare(name, arguments={**FULL, "x-max-length": 0})
    peer.consume("a", "c")  # so that the connection is read on, and told alone
    peer.publish(1, "a", b"1")
    peer.publish(1, "b", b"1")
    assert [each.queue for each in why_channel_waits(channel_of(peer))] == ["b"]
    peer.publish(2, "b", b"1")
    assert [each.channel for each in why_connection_waits(peer.connection)] == [1, 2]
    assert [each.channel for each in why_channel_waits(channel_of(peer, 2))] == [2]
    assert connection_state(peer.connection) == "flow"


def test_a_client_that_stops_deliveries(peer: Peer) -> None:
    peer.call(1, commands.Channel.Flow, active=False)
    [blocked] = why_channel_waits(channel_of(peer))
    assert (blocked.reason, blocked.channel, blocked.since_ms) == ("client", 1, None)
    assert reasons(peer) == []


def test_short_reasons_have_no_time(peer: Peer) -> None:
    gate = peer.connection._gate
    gate.hold(BACKLOG)
    assert reasons(peer) == ["commit"]
    gate.hold(OUTPUT)
    assert reasons(peer) == ["commit", "output"]
    gate.end(BACKLOG | OUTPUT)
    peer.transport.pause_reading()
    assert reasons(peer) == ["behind"]
    peer.connection.on_socket_full()
    [blocked] = why_connection_waits(peer.connection)
    assert (blocked.reason, blocked.since_ms) == ("output", None)
