"""Whose unacknowledged deliveries are the oldest, and which consumers keep messages waiting."""

from __future__ import annotations

import pytest

from hareline.amqp.consumer_watch import slow_reason
from hareline.amqp.consuming import ChannelConsumer
from hareline.counts import EndedObjects
from hareline.statistics import unacked
from hareline.statistics.readings import channels_of
from hareline.statistics.sampler import Sampler
from hareline.statistics.sources import ChannelSource
from hareline.statistics.unacked import (
    Deliveries,
    Oldest,
    delivered_ms,
    oldest_ms,
    oldest_of_queue,
    oldest_on_ports,
)
from hareline.wire.methods import commands
from tests.unit.amqp.peer import Peer, SteppedBroker

BASIC = commands.Basic


class Stand:
    """A broker whose channels are sampled by ``tick``, five seconds after each other."""

    def __init__(self) -> None:
        self.broker = SteppedBroker()
        context = self.broker.context
        ended = context.counts.ended = EndedObjects()
        self.sampler = Sampler(self.broker.clock, [ChannelSource(context, ended)])

    def tick(self) -> int:
        """Sample; returns the time of it."""
        self.broker.run_turns()
        self.broker.advance(5)
        for _ in self.sampler.sample():
            continue
        return self.broker.clock.now_ms

    def oldest(self, name: str = "q") -> Oldest | None:
        return oldest_of_queue(self.sampler, self.broker.queue(name), Deliveries())

    def oldest_of_all(self, name: str = "q") -> Oldest | None:
        ports = [channel.port for channel in channels_of(self.broker.context)]
        return list(oldest_on_ports(self.sampler, self.broker.queue(name), ports))[-1]


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.fixture
def peer(stand: Stand) -> Peer:
    peer = stand.broker.connect()
    peer.declare("q")
    return peer


def consumer_of(peer: Peer, tag: str, number: int = 1) -> ChannelConsumer:
    return peer.connection.channels.by_number[number].consumers.by_tag[tag]


def test_when_a_delivery_went_out(stand: Stand, peer: Peer) -> None:
    peer.consume("q", "c")
    times = []
    for _ in range(3):
        peer.fill("q", b"m", b"m")
        peer.receive()
        times.append(stand.tick())
    name = f"{peer.transport.connection_name} (1)"
    found = [delivered_ms(stand.sampler, name, tag) for tag in (1, 2, 3, 6, 7)]
    assert found == [times[0], times[0], times[1], times[2], None]


def test_the_oldest_delivery_of_a_consumer(stand: Stand, peer: Peer) -> None:
    peer.declare("other")
    peer.subscribe("other", "before")
    peer.subscribe("q", "c")
    consumer = consumer_of(peer, "c")
    assert Deliveries().of_consumer(consumer) == (0, 0)
    peer.fill("other", b"1")
    peer.fill("q", b"2")
    peer.receive()
    first_ms = stand.tick()
    peer.fill("q", b"3")
    peer.receive()
    second_ms = stand.tick()
    assert Deliveries().of_consumer(consumer) == (2, 2)
    assert oldest_ms(stand.sampler, consumer, Deliveries()) == first_ms
    peer.ack(2)
    assert oldest_ms(stand.sampler, consumer, Deliveries()) == second_ms
    peer.ack(3)
    assert oldest_ms(stand.sampler, consumer, Deliveries()) is None


def test_what_a_rollback_puts_back_is_the_oldest_again(stand: Stand, peer: Peer) -> None:
    peer.subscribe("q", "c")
    peer.fill("q", b"1", b"2", b"3")
    peer.receive()
    peer.call(1, commands.Tx.Select)
    peer.ack(1)
    consumer = consumer_of(peer, "c")
    assert Deliveries().of_consumer(consumer)[0] == 2
    peer.call(1, commands.Tx.Rollback)
    assert Deliveries().of_consumer(consumer) == (1, 3)


def test_a_consumer_that_does_not_acknowledge_has_no_oldest(peer: Peer) -> None:
    peer.subscribe("q", "automatic", no_ack=True)
    peer.fill("q", b"1")
    peer.receive()
    assert Deliveries().of_consumer(consumer_of(peer, "automatic"))[0] == 0


def test_the_oldest_of_a_queue_is_that_of_its_consumers(stand: Stand, peer: Peer) -> None:
    other = stand.broker.connect()
    for each in (peer, other):
        each.call(1, BASIC.Qos, prefetch_count=1)
        each.subscribe("q", "c")
    assert stand.oldest() is None
    peer.fill("q", b"1")
    stand.broker.run_turns()
    assert stand.oldest() is None  # no sample has seen it
    first_ms = stand.tick()
    peer.fill("q", b"2")
    stand.tick()
    found = stand.oldest()
    assert found is not None
    assert (found.since_ms, found.consumer) == (first_ms, consumer_of(peer, "c"))
    assert found == stand.oldest_of_all()
    peer.ack(1)
    found = stand.oldest()
    assert found is not None
    assert found.consumer is consumer_of(other, "c")


def test_what_was_got_and_what_a_cancelled_consumer_has_is_found_on_the_channels(
    stand: Stand, peer: Peer
) -> None:
    peer.fill("q", b"1", b"2")
    assert peer.get("q") is not None
    got_ms = stand.tick()
    assert stand.oldest() is None
    found = stand.oldest_of_all()
    assert found is not None
    assert (found.since_ms, found.consumer) == (got_ms, None)
    assert found.port.channel_name == f"{peer.transport.connection_name} (1)"
    peer.ack(1)
    peer.consume("q", "c")
    peer.receive()
    cancelled_ms = stand.tick()
    peer.call(1, BASIC.Cancel, consumer_tag="c")
    found = stand.oldest_of_all()
    assert found is not None
    assert found.since_ms == cancelled_ms


def test_a_stream_has_an_oldest_delivery_too(stand: Stand, peer: Peer) -> None:
    peer.declare("s", durable=True, arguments={"x-queue-type": "stream"})
    peer.call(1, BASIC.Qos, prefetch_count=2)
    peer.subscribe("s", "r", arguments={"x-stream-offset": "first"})
    peer.fill("s", b"1")
    peer.receive()
    read_ms = stand.tick()
    found = stand.oldest("s")
    assert found is not None
    assert (found.since_ms, found.consumer) == (read_ms, consumer_of(peer, "r"))
    assert found == stand.oldest_of_all("s")


def test_no_more_deliveries_are_looked_at_than_allowed(
    stand: Stand, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unacked, "LOOKS_MAX", 3)
    peer.declare("other")
    peer.subscribe("other", "many")
    peer.subscribe("q", "c")
    peer.fill("other", *[b"m"] * 3)
    peer.fill("q", b"m")
    peer.receive()
    stand.tick()
    assert stand.oldest("other") is not None
    assert stand.oldest() is None
    assert Deliveries().of_consumer(consumer_of(peer, "c"))[0] == 0


# ------------------------------------------------------------------------- slow consumers


def test_a_consumer_is_slow_while_its_prefetch_is_used_up_and_messages_wait(peer: Peer) -> None:
    peer.call(1, BASIC.Qos, prefetch_count=2)
    peer.subscribe("q", "c")
    consumer = consumer_of(peer, "c")
    found = []
    for bodies in ((), (b"1", b"2"), (b"3",)):
        peer.fill("q", *bodies)
        peer.receive()
        found.append(slow_reason(consumer))
    peer.ack(1)
    peer.receive()
    found.append(slow_reason(consumer))
    assert found == ["", "", "prefetch", ""]


def test_the_window_of_a_channel_makes_its_consumers_slow(peer: Peer) -> None:
    peer.call(1, BASIC.Qos, prefetch_count=1, global_=True)
    peer.subscribe("q", "c")
    peer.fill("q", b"1", b"2")
    peer.receive()
    assert slow_reason(consumer_of(peer, "c")) == "prefetch"
    peer.ack(1)
    peer.receive()
    assert slow_reason(consumer_of(peer, "c")) == ""


def test_one_that_waits_for_enough_credit_to_come_back_is_slow(peer: Peer) -> None:
    peer.call(1, BASIC.Qos, prefetch_count=4)
    peer.subscribe("q", "c", arguments={"x-prefetch-refill": 50})
    peer.fill("q", *[b"m"] * 5)
    peer.receive()
    peer.ack(1)
    peer.receive()
    consumer = consumer_of(peer, "c")
    assert (consumer.open_credit, slow_reason(consumer)) == (1, "prefetch")


def test_a_consumer_whose_socket_is_full_is_slow(peer: Peer) -> None:
    peer.subscribe("q", "c", no_ack=True)
    peer.connection.on_socket_full()
    assert slow_reason(consumer_of(peer, "c")) == ""
    peer.fill("q", b"1")
    peer.broker.run_turns()
    assert slow_reason(consumer_of(peer, "c")) == "socket"
    peer.connection.on_socket_drained()
    peer.receive()
    assert slow_reason(consumer_of(peer, "c")) == ""


def test_one_that_waits_for_another_or_for_a_paused_queue_is_not_slow(peer: Peer) -> None:
    peer.declare("single", arguments={"x-single-active-consumer": True})
    peer.call(1, BASIC.Qos, prefetch_count=1)
    for tag in ("first", "second"):
        peer.subscribe("single", tag)
    peer.fill("single", b"1", b"2")
    peer.receive()
    assert slow_reason(consumer_of(peer, "first")) == "prefetch"
    assert slow_reason(consumer_of(peer, "second")) == ""
    peer.broker.queue("single").set_paused(True)
    assert slow_reason(consumer_of(peer, "first")) == ""


def test_a_reader_is_slow_while_it_is_not_at_the_end(peer: Peer) -> None:
    peer.declare("s", durable=True, arguments={"x-queue-type": "stream"})
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("s", "r", arguments={"x-stream-offset": "first"})
    peer.fill("s", b"1")
    peer.receive()
    assert slow_reason(consumer_of(peer, "r")) == ""
    peer.fill("s", b"2")
    assert slow_reason(consumer_of(peer, "r")) == "prefetch"
    peer.ack(1)
    peer.receive()
    assert slow_reason(consumer_of(peer, "r")) == ""


def test_a_reader_of_a_sorted_queue_is_slow_while_it_has_not_seen_all(peer: Peer) -> None:
    peer.declare("sorted", arguments={"x-max-priority": 3, "x-non-destructive": True})
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("sorted", "r")
    peer.fill("sorted", b"1")
    peer.receive()
    assert slow_reason(consumer_of(peer, "r")) == ""
    peer.fill("sorted", b"2")
    assert slow_reason(consumer_of(peer, "r")) == "prefetch"
