"""Deliveries without end: limits on them, and what leaves memory while that is short."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.amqp import unacked_watch
from hareline.amqp.context import Limits
from hareline.amqp.unacked_watch import INTERVAL_S, UnackedWatch
from hareline.message import StoredMessage
from hareline.queues.core.entry import QueueEntry
from hareline.queues.orders.window import set_spooling
from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from tests.support.content_stores import PagingStore

from .peer import Peer, SteppedBroker

BASIC, CHANNEL = commands.Basic, commands.Channel
PERSISTENT = Properties(delivery_mode=2)
FROM_THE_FIRST = {"x-stream-offset": "first"}
BODIES = [b"%03d" % number for number in range(20)]


def watched(limits: Limits | None = None) -> SteppedBroker:
    """A broker that looks at intervals."""
    broker = SteppedBroker(limits, store=PagingStore())
    UnackedWatch(broker.context, broker).start()
    return broker


def consuming(broker: SteppedBroker, count: int, user: str = "guest") -> Peer:
    """A client that acknowledges nothing of what it has got, on channel 1."""
    peer = broker.connect(user, channels=(1, 2))
    peer.declare(f"of-{user}")
    peer.subscribe(f"of-{user}", "t")
    for body in BODIES[:count]:
        peer.publish(2, f"of-{user}", body)
    assert len(peer.receive()) == count
    return peer


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "text"),
        [
            (
                Limits(max_unacked_per_channel=4),
                "too many unacknowledged deliveries (limits.max_unacked_per_channel is 4): "
                "it has 5",
            ),
            (
                Limits(max_unacked_per_user=4),
                "too many unacknowledged deliveries (limits.max_unacked_per_user is 4): "
                "its user has 5, 5 of them on it",
            ),
        ],
    )
    def test_a_channel_above_one_is_closed_and_its_messages_are_ready_again(
        self, limits: Limits, text: str
    ) -> None:
        broker = watched(limits)
        peer = consuming(broker, 4)
        broker.advance(INTERVAL_S)
        peer.expect_nothing()
        peer.publish(2, "of-guest", BODIES[4])
        assert len(peer.receive()) == 1
        broker.advance(INTERVAL_S)
        close = peer.expect(CHANNEL.Close)
        assert (close.reply_code, close.class_id, close.method_id) == (406, 0, 0)
        assert close.reply_text == f"PRECONDITION_FAILED - {text}"
        assert broker.queue("of-guest").ready_count == 5
        peer.call(2, BASIC.Qos, prefetch_count=1)  # the other channel goes on
        assert sum(broker.context.counts.limits_reached.by_limit.values()) == 1

    def test_of_a_user_the_channel_with_the_most_is_closed_until_it_is_enough(self) -> None:
        broker = watched(Limits(max_unacked_per_user=6))
        broker.add_user("other", "other")
        first, second, third = (consuming(broker, count) for count in (3, 0, 0))
        other = consuming(broker, 6, "other")
        second.declare("more")
        second.subscribe("more", "u")
        for body in BODIES[:5]:
            second.publish(2, "more", body)
        assert len(second.receive()) == 5
        broker.advance(INTERVAL_S)
        second.expect(CHANNEL.Close)
        for peer in (first, third, other):
            peer.expect_nothing()
        broker.advance(INTERVAL_S)
        first.expect_nothing()

    def test_a_channel_that_ends_while_others_are_looked_at_is_left_alone(self) -> None:
        """The look takes several turns, and the number may be another channel's by then."""
        broker = SteppedBroker(Limits(max_unacked_per_user=4))
        peer = consuming(broker, 5)
        others = [broker.connect() for _ in range(3)]
        broker.clock.work_s = 1.0  # so that a share is one step
        UnackedWatch(broker.context, broker).look()
        peer.call(1, CHANNEL.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
        peer.open(1)
        broker.run_turns()
        for each in (peer, *others):
            each.expect_nothing()
        assert not broker.context.counts.limits_reached.by_limit

    def test_without_a_limit_nothing_is_closed(self) -> None:
        broker = watched()
        peer = consuming(broker, 20)
        broker.advance(10 * INTERVAL_S)
        peer.expect_nothing()


def press(broker: SteppedBroker, *, is_high: bool = True) -> None:
    set_spooling(broker.vhost.environment, broker.vhost.queues.values(), is_high)
    broker.run_turns()


def unacked(peer: Peer) -> list[QueueEntry]:
    return list(peer.connection.channels.by_number[1].port.unacked.entries.values())


def stored_count(peer: Peer) -> int:
    return sum(isinstance(each.message, StoredMessage) for each in unacked(peer))


@pytest.fixture
def broker() -> SteppedBroker:
    return watched()


@pytest.fixture
def store(broker: SteppedBroker) -> PagingStore:
    assert isinstance(broker.store, PagingStore)
    return broker.store


@pytest.fixture(params=[True, False], ids=["kept", "spooled"])
def is_kept(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def peer(broker: SteppedBroker, is_kept: bool) -> Peer:
    return holding(broker, broker.connect(), is_kept=is_kept)


def holding(broker: SteppedBroker, peer: Peer, *, is_kept: bool) -> Peer:
    """A client with 20 deliveries unacknowledged, whose contents have left memory."""
    peer.declare("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    peer.declare("q", durable=True, arguments=arguments)
    peer.subscribe("q", "t")
    for body in BODIES:
        properties = PERSISTENT if is_kept else Properties()
        peer.publish(1, "q", body, properties=properties)
    assert [each.body for each in peer.receive()] == BODIES
    broker.advance(INTERVAL_S)
    assert stored_count(peer) == 0, "memory is not short"
    press(broker)
    assert isinstance(broker.store, PagingStore)
    if is_kept:
        broker.advance(INTERVAL_S)
        assert stored_count(peer) == 0, "nothing leaves before it is durable"
    broker.store.sync()
    broker.advance(INTERVAL_S)
    assert stored_count(peer) == 20
    return peer


class TestContents:
    def test_acknowledged_ones_leave_unread(
        self, broker: SteppedBroker, store: PagingStore, peer: Peer
    ) -> None:
        peer.send(1, BASIC.Ack, delivery_tag=20, multiple=True)
        peer.expect_nothing()
        assert broker.queue("q").unacked_count == 0
        assert (store.memory.reads, store.memory.runs) == (0, [])
        assert store.memory.records == {}

    @pytest.mark.parametrize("requeue", [True, False])
    def test_recover_sends_them_again_in_their_order(
        self, broker: SteppedBroker, *, is_kept: bool, requeue: bool
    ) -> None:
        peer = holding(broker, broker.connect(qpid="client-1"), is_kept=is_kept)
        peer.send(1, BASIC.Recover, requeue=requeue)
        received = peer.receive()
        assert received[0].name == "basic.recover-ok"
        assert [each.body for each in received[1:]] == BODIES
        assert all(each.method.redelivered for each in received[1:])

    def test_rejected_ones_go_where_dead_letters_go(
        self, broker: SteppedBroker, store: PagingStore, peer: Peer
    ) -> None:
        store.keeps_all = True  # as a journal does, to the end of the turn
        for tag in range(1, 21):
            peer.send(1, BASIC.Reject, delivery_tag=tag, requeue=False)
        broker.advance(1)
        peer.receive()
        peer.send(1, BASIC.Consume, queue="dead", consumer_tag="d")
        assert [each.body for each in peer.receive()[1:]] == BODIES

    def test_they_come_back_when_the_client_is_gone(
        self, broker: SteppedBroker, peer: Peer
    ) -> None:
        peer.lose()
        again = broker.connect()
        again.send(1, BASIC.Consume, queue="q", consumer_tag="t")
        assert [each.body for each in again.receive()[1:]] == BODIES

    def test_what_the_disk_has_lost_costs_itself_alone(
        self, broker: SteppedBroker, store: PagingStore, *, is_kept: bool
    ) -> None:
        peer = holding(broker, broker.connect(qpid="client-1"), is_kept=is_kept)
        messages = [each.message for each in unacked(peer)]
        assert all(isinstance(each, StoredMessage) for each in messages)
        store.memory.broken = {
            each.stored_at for each in messages[3:5] if isinstance(each, StoredMessage)
        }
        peer.send(1, BASIC.Recover, requeue=False)
        assert [each.body for each in peer.receive()[1:]] == BODIES[:3] + BODIES[5:]
        assert broker.queue("q").unacked_count == 18
        [reported] = broker.reported(events.MESSAGES_UNREADABLE)
        assert reported["count"] == 2
        peer.send(1, BASIC.Ack, delivery_tag=0, multiple=True)
        peer.expect_nothing()
        assert broker.queue("q").unacked_count == 0


def test_a_queue_that_shows_delivery_counts_keeps_them(
    broker: SteppedBroker, store: PagingStore
) -> None:
    """The counts are written into messages that come back; each would be read for it, and stay."""
    peer = broker.connect()
    peer.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    peer.subscribe("q", "t")
    for body in BODIES:
        peer.publish(1, "q", body, properties=PERSISTENT)
    assert peer.bodies() == BODIES
    store.sync()
    press(broker)
    broker.advance(2 * INTERVAL_S)
    assert stored_count(peer) == 0
    peer.lose()
    assert (store.memory.reads, store.memory.runs) == (0, [])


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_step_writes_no_more_octets_than_a_turn_of_paging(
    broker: SteppedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unacked_watch, "STEP_SPOOLED_BYTES", 6)  # two bodies
    peer = broker.connect()
    peer.declare("q")
    peer.subscribe("q", "t")
    for body in BODIES:
        peer.publish(1, "q", body)
    assert peer.bodies() == BODIES
    press(broker)
    broker.clock.work_s = 1.0
    UnackedWatch(broker.context, broker).look()
    counts = []
    while stored_count(peer) < len(BODIES):
        counts.append(stored_count(peer))
        broker.scheduled.pop(0)()
    assert counts == list(range(2, 20, 2))


def test_what_has_left_is_not_looked_at_again_and_what_came_since_is(
    broker: SteppedBroker, peer: Peer, is_kept: bool
) -> None:
    paged = unacked(peer)
    assert peer.connection.channels.by_number[1].port.unacked.paged_tag == 20
    properties = PERSISTENT if is_kept else Properties()
    peer.publish(1, "q", b"more", properties=properties)
    assert peer.bodies() == [b"more"]
    assert isinstance(broker.store, PagingStore)
    broker.store.sync()
    broker.advance(INTERVAL_S)
    broker.store.sync()
    broker.advance(INTERVAL_S)
    assert stored_count(peer) == 21
    assert unacked(peer)[:20] == paged


def test_readings_of_a_queue_that_is_only_read_let_go_too(
    broker: SteppedBroker, store: PagingStore
) -> None:
    peer = broker.connect()
    peer.declare("log", durable=True, arguments={"x-queue-type": "stream"})
    peer.call(1, BASIC.Qos, prefetch_count=100)
    peer.subscribe("log", "t", arguments=FROM_THE_FIRST)
    for body in BODIES:
        peer.publish(1, "log", body, properties=PERSISTENT)
    assert peer.bodies() == BODIES
    press(broker)
    broker.advance(INTERVAL_S)
    store.sync()
    broker.advance(INTERVAL_S)
    assert stored_count(peer) == 20
    again = broker.connect()
    again.call(1, BASIC.Qos, prefetch_count=100)
    again.send(1, BASIC.Consume, queue="log", consumer_tag="u", arguments=FROM_THE_FIRST)
    assert [each.body for each in again.receive()[1:]] == BODIES
