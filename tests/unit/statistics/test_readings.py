"""What is told of live connections, channels, consumers and queues."""

from __future__ import annotations

import pytest

from hareline.amqp.channel import Channel
from hareline.statistics import unacked
from hareline.statistics.facts import ConsumerFacts
from hareline.statistics.readings import (
    channel_facts,
    channel_state,
    channels_of,
    connection_facts,
    connection_state,
    consumer_facts,
    queue_facts,
)
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table, Timestamp
from tests.unit.amqp.peer import Peer, SteppedBroker

BASIC = commands.Basic


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    return broker.connect(heartbeat_s=30, channel_max=100)


def channel_of(peer: Peer, number: int = 1) -> Channel:
    return peer.connection.channels.by_number[number]


def facts_of(peer: Peer, tag: str) -> ConsumerFacts:
    return consumer_facts(channel_of(peer).consumers.by_tag[tag], "/")


def test_a_connection(peer: Peer) -> None:
    peer.connection.client.properties["connection_name"] = "worker"
    facts = connection_facts(peer.connection)
    assert facts.name == "127.0.0.1:40000 -> 127.0.0.1:5672"
    assert facts.user_provided_name == "worker"
    assert (facts.peer_host, facts.peer_port, facts.host, facts.port) == (
        "127.0.0.1",
        40000,
        "127.0.0.1",
        5672,
    )
    assert (facts.user, facts.vhost, facts.state) == ("guest", "/", "running")
    assert (facts.auth_mechanism, facts.client_properties["product"]) == ("PLAIN", "test")
    assert (facts.frame_max, facts.channel_max, facts.heartbeat_s) == (131_072, 100, 30)
    assert (facts.channel_count, facts.is_slow) == (1, False)
    assert facts.connected_ms == peer.broker.clock.now_ms
    assert facts.counts.send_oct == peer.transport.sent_bytes
    assert facts.counts.send_cnt == peer.transport.writes


def test_a_connection_on_its_way(broker: SteppedBroker) -> None:
    peer = broker.accept()
    states = [connection_state(peer.connection)]
    peer.start("guest", "guest")
    states.append(connection_state(peer.connection))
    peer.expect(commands.Connection.Tune)
    peer.send(0, commands.Connection.TuneOk, frame_max=131_072, channel_max=2047, heartbeat=0)
    states.append(connection_state(peer.connection))
    facts = connection_facts(peer.connection)
    assert (facts.vhost, facts.user, facts.channel_count) == ("", "guest", 0)
    peer.call(0, commands.Connection.Open, virtual_host="/")
    states.append(connection_state(peer.connection))
    peer.connection.force_close("enough")
    states.append(connection_state(peer.connection))
    peer.lose()
    states.append(connection_state(peer.connection))
    assert states == ["starting", "tuning", "opening", "running", "closing", "closed"]


def test_a_connection_during_an_alarm(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    broker.context.alarms.set("memory")
    assert connection_state(peer.connection) == "blocking"
    peer.fill("q", b"m")
    assert connection_state(peer.connection) == "blocked"
    broker.context.alarms.clear("memory")
    broker.run_turns()
    assert connection_state(peer.connection) == "running"


def test_a_connection_that_is_not_read_is_in_flow(peer: Peer) -> None:
    peer.transport.pause_reading()
    assert connection_state(peer.connection) == "flow"
    peer.connection.on_socket_full()
    assert connection_facts(peer.connection).is_slow


def test_a_channel(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3")
    peer.call(1, commands.Confirm.Select)
    peer.call(1, BASIC.Qos, prefetch_count=7)
    peer.subscribe("amq.rabbitmq.reply-to", "replies", no_ack=True)
    peer.consume("q", "c")
    peer.receive()
    peer.ack(1)
    peer.publish(1, "q", b"4")
    facts = channel_facts(channel_of(peer))
    assert facts.name == "127.0.0.1:40000 -> 127.0.0.1:5672 (1)"
    assert (facts.number, facts.connection_name) == (1, "127.0.0.1:40000 -> 127.0.0.1:5672")
    assert (facts.user, facts.vhost, facts.state) == ("guest", "/", "running")
    assert (facts.is_confirming, facts.is_transactional, facts.is_stopped) == (True, False, False)
    assert (facts.consumer_count, facts.prefetch_count, facts.global_prefetch_count) == (2, 7, 0)
    assert (facts.unacked, facts.unconfirmed) == (2, 1)
    assert (facts.counts.publish, facts.counts.deliver, facts.counts.ack) == (4, 3, 1)


def test_a_channel_with_an_open_transaction(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3")
    for _ in range(3):
        assert peer.get("q") is not None
    peer.call(1, commands.Tx.Select)
    peer.publish(1, "q", b"4")
    peer.ack(2, multiple=True)
    facts = channel_facts(channel_of(peer))
    assert (facts.is_transactional, facts.uncommitted, facts.acks_uncommitted) == (True, 1, 2)
    assert facts.unacked == 1
    peer.call(1, commands.Tx.Commit)
    facts = channel_facts(channel_of(peer))
    assert (facts.uncommitted, facts.acks_uncommitted) == (0, 0)


def test_what_a_channel_does(broker: SteppedBroker, peer: Peer) -> None:
    peer.open(2)
    peer.call(1, commands.Channel.Flow, active=False)
    assert channel_state(channel_of(peer)) == "flow"
    peer.call(1, commands.Channel.Flow, active=True)
    assert channel_state(channel_of(peer)) == "running"
    arguments = {"x-max-length": 1, "x-overflow": "flow-control"}
    peer.declare("small", arguments=arguments)
    peer.fill("small", b"1", b"2")
    assert channel_state(channel_of(peer)) == "flow"
    channel = channel_of(peer, 2)
    channel.terminate()
    assert channel_state(channel) == "closing"


def test_channels_of_open_connections(broker: SteppedBroker, peer: Peer) -> None:
    peer.open(3)
    broker.accept()
    other = broker.connect(channels=(2,))
    found = [(channel.port.channel_name, channel.number) for channel in channels_of(broker.context)]
    names = [peer.transport.connection_name, other.transport.connection_name]
    assert found == [(f"{names[0]} (1)", 1), (f"{names[0]} (3)", 3), (f"{names[1]} (2)", 2)]


def test_a_consumer(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=3)
    peer.subscribe("q", "c", arguments={"x-priority": 5})
    peer.fill("q", *[b"m"] * 5)
    peer.receive()
    peer.ack(1)
    peer.receive()
    facts = facts_of(peer, "c")
    assert facts == ConsumerFacts(
        tag="c",
        vhost="/",
        queue="q",
        channel_name="127.0.0.1:40000 -> 127.0.0.1:5672 (1)",
        ack_required=True,
        exclusive=False,
        active=True,
        status="up",
        priority=5,
        prefetch_count=3,
        credit=0,
        unacked=3,
        oldest_tag=2,
        slow_reason="prefetch",
        arguments={"x-priority": 5},
    )


def test_a_consumer_without_a_limit_and_one_that_does_not_acknowledge(peer: Peer) -> None:
    for name in ("q", "r"):
        peer.declare(name)
    peer.subscribe("q", "all")
    peer.subscribe("r", "automatic", no_ack=True)
    peer.fill("q", b"1", b"2")
    peer.fill("r", b"3")
    peer.receive()
    facts = facts_of(peer, "all")
    assert (facts.prefetch_count, facts.credit, facts.unacked, facts.oldest_tag) == (0, None, 2, 1)
    facts = facts_of(peer, "automatic")
    assert (facts.ack_required, facts.unacked, facts.oldest_tag) == (False, 0, 0)


def test_one_of_many_is_active(peer: Peer) -> None:
    peer.declare("q", arguments={"x-single-active-consumer": True})
    peer.subscribe("q", "first")
    peer.subscribe("q", "second")
    assert (facts_of(peer, "first").status, facts_of(peer, "first").active) == (
        "single_active",
        True,
    )
    assert (facts_of(peer, "second").status, facts_of(peer, "second").active) == ("waiting", False)


def test_of_very_many_deliveries_some_are_looked_at(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unacked, "LOOKS_MAX", 4)
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=10)
    peer.subscribe("q", "c")
    peer.fill("q", *[b"1234"] * 8)
    peer.receive()
    facts = facts_of(peer, "c")
    assert (facts.credit, facts.unacked, facts.oldest_tag) == (2, 8, 1)
    assert queue_facts(peer.broker.queue("q")).unacked_bytes == 32


def test_a_queue(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.publish(1, "q", b"12345", properties=Properties(timestamp=Timestamp(1_600_000_000)))
    peer.publish(1, "q", b"123")
    assert peer.get("q") is not None
    peer.publish(1, "q", b"1234567")
    facts = queue_facts(broker.queue("q"))
    assert (facts.messages, facts.ready, facts.unacked, facts.held) == (3, 2, 1, 0)
    assert (facts.ready_bytes, facts.unacked_bytes) == (10, 5)  # got ones as the ready ones are
    assert (facts.persistent, facts.paged_out, facts.in_memory) == (0, 0, 3)
    assert (facts.in_memory_bytes, facts.memory > 15) == (15, True)
    assert (facts.consumers, facts.capacity, facts.head_timestamp) == (0, 0.0, None)
    assert facts.declared_ms == broker.clock.now_ms
    assert (facts.counts.publish, facts.counts.get) == (3, 1)
    peer.nack(1)
    broker.run_turns()
    assert queue_facts(broker.queue("q")).head_timestamp == 1_600_000_000


def test_consumers_that_can_take_more_or_not(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "c")
    assert queue_facts(broker.queue("q")).capacity == 1.0
    peer.fill("q", b"1", b"2")
    peer.receive()
    assert queue_facts(broker.queue("q")).capacity == 0.0
    assert queue_facts(broker.queue("q"), 0.3).capacity == 0.3  # as the samples have it
    peer.ack(1)
    peer.receive()
    assert queue_facts(broker.queue("q")).capacity == 1.0


def test_held_messages_are_no_messages_yet(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", arguments={"x-hold-on-publish": True})
    valid_from = broker.clock.now_ms + 60_000
    headers = Table({"x-qpid-not-valid-before": valid_from})
    peer.publish(1, "q", b"later", properties=Properties(headers=headers))
    facts = queue_facts(broker.queue("q"))
    assert (facts.messages, facts.held) == (0, 1)


def test_a_stream_has_no_head_to_look_at(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("s", durable=True, arguments={"x-queue-type": "stream"})
    peer.publish(1, "s", properties=Properties(timestamp=Timestamp(1)))
    assert queue_facts(broker.queue("s")).head_timestamp is None
    broker.queue("s").set_paused(True)
    assert queue_facts(broker.queue("s")).head_timestamp is None
