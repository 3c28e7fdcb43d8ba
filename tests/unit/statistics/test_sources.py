"""The sampler over a real broker: what it sees, what it sums up, and what it leaves alone."""

from __future__ import annotations

import pytest

from hareline.counts import EndedObjects
from hareline.queues.queue import Queue
from hareline.statistics.facts import NodeFacts
from hareline.statistics.sampler import Key, Sampler
from hareline.statistics.sources import (
    ChannelSource,
    ConnectionSource,
    ExchangeSource,
    NodeSource,
    OverviewSource,
    QueueSource,
    VhostSource,
    consumer_capacity,
)
from hareline.wire.methods import commands
from tests.support.messages import make_message
from tests.unit.amqp.peer import Peer, SteppedBroker

NODE = NodeFacts(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


class Stand:
    def __init__(self) -> None:
        self.broker = SteppedBroker()
        context = self.broker.context
        ended = context.counts.ended = EndedObjects()
        self.queues = QueueSource(context, ended)
        self.sampler = Sampler(
            self.broker.clock,
            (
                ChannelSource(context, ended),
                ExchangeSource(context, ended),
                ConnectionSource(context, ended),
                self.queues,
            ),
            (OverviewSource(context), VhostSource(context), NodeSource(lambda: NODE)),
        )

    def tick(self) -> None:
        self.broker.advance(5)
        for _ in self.sampler.sample():
            continue

    def latest(self, kind: str, *key: str) -> dict[str, int]:
        """The newest numbers, without those that are 0."""
        found = self.sampler.latest(kind, key)
        return {name: number for name, number in found.items() if number}


@pytest.fixture
def stand() -> Stand:
    return Stand()


@pytest.fixture
def peer(stand: Stand) -> Peer:
    peer = stand.broker.connect()
    peer.declare("q")
    return peer


def test_one_message_on_its_way_is_seen_everywhere(stand: Stand, peer: Peer) -> None:
    peer.fill("q", b"m", b"m")
    assert peer.get("q") is not None
    stand.tick()
    depths = {"messages": 2, "messages_ready": 1, "messages_unacknowledged": 1}
    assert stand.latest("queue", "/", "q") == {**depths, "publish": 2, "get": 1, "deliver_get": 1}
    assert stand.latest("exchange", "/", "") == {"publish_in": 2, "publish_out": 2}
    name = peer.transport.connection_name
    of_channel = {"publish": 2, "get": 1, "deliver_get": 1}
    assert stand.latest("channel", f"{name} (1)") == of_channel
    assert stand.latest("connection", name)["send_oct"] == peer.transport.sent_bytes
    assert stand.latest("vhost", "/") == {
        **depths,
        **of_channel,
        "send_oct": peer.transport.sent_bytes,
    }
    assert stand.latest("overview") == {
        **depths,
        **of_channel,
        "connection_created": 1,
        "channel_created": 1,
        "queue_declared": 1,
        "queue_created": 1,
    }
    assert stand.latest("node") == NODE._asdict()


def test_rates_of_what_happens(stand: Stand, peer: Peer) -> None:
    stand.tick()
    peer.fill("q", *[b"m"] * 10)
    stand.tick()
    assert stand.sampler.rate("queue", ("/", "q"), "publish") == 2.0
    assert stand.sampler.rate("queue", ("/", "q"), "messages") == 2.0
    assert stand.sampler.rate("exchange", ("/", ""), "publish_out") == 2.0
    assert stand.sampler.rate("overview", (), "publish") == 2.0
    assert stand.sampler.rate("vhost", ("/",), "messages_ready") == 2.0


def test_totals_do_not_fall_when_objects_end(stand: Stand, peer: Peer) -> None:
    peer.fill("q", *[b"m"] * 10)
    stand.tick()
    peer.fill("q", b"m")  # not sampled before the end
    peer.lose()
    stand.tick()
    totals = stand.latest("overview")
    assert (totals["publish"], totals["connection_closed"], totals["channel_closed"]) == (11, 1, 1)
    assert stand.latest("vhost", "/")["send_oct"] == peer.transport.sent_bytes
    assert totals["messages"] == 11
    stand.broker.vhost.delete_queue("q", None)
    stand.tick()
    totals = stand.latest("overview")
    assert (totals["publish"], totals["queue_deleted"]) == (11, 1)
    assert "messages" not in totals
    assert stand.latest("queue", "/", "q") == {}


def test_a_queue_that_is_declared_again_begins_anew(stand: Stand, peer: Peer) -> None:
    peer.fill("q", *[b"m"] * 10)
    stand.tick()
    peer.call(1, commands.Queue.Delete, queue="q")
    peer.declare("q")
    peer.fill("q", b"m")
    stand.tick()
    stand.tick()
    assert stand.latest("queue", "/", "q")["publish"] == 1
    assert stand.latest("overview")["messages"] == 1


def test_virtual_hosts_have_their_own_sums(stand: Stand, peer: Peer) -> None:
    vhost = stand.broker.add_vhost("other")
    vhost.declare_queue("q", is_durable=False, is_auto_delete=False, owner=None, arguments={})
    peer.fill("q", b"m")
    stand.tick()
    assert stand.latest("vhost", "/")["messages"] == 1
    assert stand.latest("vhost", "other") == {}
    del stand.broker.context.vhosts["other"]
    stand.tick()
    assert stand.sampler.latest("vhost", ("other",)) == {}


def test_consumers_that_cannot_keep_up_have_a_falling_capacity(stand: Stand, peer: Peer) -> None:
    queue, key = stand.broker.queue("q"), ("/", "q")
    stand.tick()
    assert stand.queues.consumer_capacity(key, queue) == 0.0
    peer.call(1, commands.Basic.Qos, prefetch_count=1)
    peer.subscribe("q", "c")
    peer.fill("q", b"m")
    peer.receive()
    stand.tick()
    assert stand.queues.consumer_capacity(key, queue) == 1.0
    peer.fill("q", b"m")  # waits: the consumer acknowledges nothing
    peer.receive()
    found = []
    for _ in range(3):
        stand.tick()
        found.append(stand.queues.consumer_capacity(key, queue))
    assert found == [0.8, 0.64, 0.512]
    peer.ack(1)
    peer.receive()
    stand.tick()
    assert stand.queues.consumer_capacity(key, queue) > 0.512
    assert consumer_capacity(stand.sampler, "/", queue) == stand.queues.consumer_capacity(
        key, queue
    )
    assert consumer_capacity(None, "/", queue) is None


def test_idle_queues_are_looked_at_and_nothing_of_them_is_kept(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    vhost = stand.broker.vhost
    for number in range(1_000):
        vhost.declare_queue(
            f"q{number}", is_durable=False, is_auto_delete=False, owner=None, arguments={}
        )
    asked: list[Queue] = []
    values = stand.queues.values

    def ask(key: Key, found: Queue) -> tuple[int, ...]:
        asked.append(found)
        return values(key, found)

    monkeypatch.setattr(stand.queues, "values", ask)
    for _ in range(3):
        stand.tick()
    assert asked == []
    assert not stand.sampler._series["queue"]
    vhost.queues["q7"].enqueue(make_message(b"m"))
    for _ in range(3):
        stand.tick()
    assert asked == [vhost.queues["q7"]]
