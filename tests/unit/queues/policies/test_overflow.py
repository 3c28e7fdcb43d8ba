"""Limits of a queue: what each policy does at them, whom it stops, and what the log is told."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline import events
from hareline.message import Message, stored_bytes
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import DeathReason
from hareline.queues.declare.table import OverflowPolicy
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.priority import rabbitmq_levels
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.policies.overflow import (
    REPORT_INTERVAL_S,
    Overflow,
    StoppedPublisher,
)
from hareline.wire.table import Table
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue

INTERVAL_MS = round(REPORT_INTERVAL_S * 1000)
EVERY_POLICY: list[OverflowPolicy] = [
    "drop-head",
    "reject-publish",
    "reject-publish-dlx",
    "none",
    "discard",
    "flow-control",
    "flow-to-disk",
]


class Publisher(StoppedPublisher):
    """Counts how often it was let go on."""

    def __init__(self) -> None:
        self.heard: list[Overflow] = []

    def on_underfull(self, overflow: Overflow) -> None:
        self.heard.append(overflow)


class RefusedLetters:
    """Takes the dead letters, also those of messages that never came in."""

    def __init__(self) -> None:
        self.deaths: list[tuple[bytes, str]] = []

    def publish(
        self, entries: list[QueueEntry], reason: DeathReason, ledger: object = None
    ) -> None:
        for entry in entries:
            self.publish_message(entry.message, reason)

    def publish_message(self, message: Message, reason: DeathReason) -> None:
        self.deaths.append((message.body, reason))

    def wants(self, reason: DeathReason) -> bool:
        return reason != "deleted"


class LimitedQueue(TimedQueue):
    """``queue`` with an overflow; ``logged`` holds what was reported, with its fields."""

    def __init__(
        self,
        policy: OverflowPolicy,
        max_length: int | None = None,
        max_length_bytes: int | None = None,
        *,
        order: EntryOrder | None = None,
        counts_unacked: bool = False,
        resume_percent: float = 80.0,
    ) -> None:
        super().__init__(order)
        self.logged: list[tuple[str, dict[str, object]]] = []
        self.environment = replace(self.environment, report=self._report)
        self.queue.environment = self.environment
        self.letters = RefusedLetters()
        self.queue.dead_letters = self.letters  # type: ignore[assignment]
        self.overflow = self.queue.overflow = Overflow(
            self.queue,
            self.environment,
            max_length=max_length,
            max_length_bytes=max_length_bytes,
            policy=policy,
            counts_unacked=counts_unacked,
            resume_percent=resume_percent,
        )
        self.queue.install()

    def _report(self, event: events.Event, **fields: object) -> None:
        self.logged.append((event.code, fields))

    def offer(self, body: bytes = b"x", **properties: Any) -> bool:
        """Whether the queue takes a message; the turn goes on."""
        return bool(self.queue.put(make_message(body, routing_key="q", **properties)))

    def fill(self, *bodies: bytes) -> None:
        for body in bodies:
            assert self.offer(body)

    def stops_publishers(self) -> bool:
        return self.overflow.stops_publishers

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.logged]

    @property
    def dropped(self) -> list[bytes]:
        assert {reason for _, reason in self.letters.deaths} <= {"maxlen"}
        return [body for body, _ in self.letters.deaths]

    def consume(self, **options: Any) -> RecordingConsumer:
        consumer = RecordingConsumer(self.queue, **options)
        self.queue.add_consumer(consumer)
        self.turn.run()
        return consumer

    def take(self) -> QueueEntry:
        entry = self.queue.get()
        assert entry is not None
        return entry


# ------------------------------------------------------------------------------ drop-head, ring


@pytest.mark.row("A22")
def test_the_oldest_goes_when_there_are_too_many() -> None:
    place = LimitedQueue("drop-head", 3)
    place.fill(b"1", b"2", b"3")
    assert place.dropped == []
    place.fill(b"4", b"5")
    assert place.ready == [b"3", b"4", b"5"]
    assert place.letters.deaths == [(b"1", "maxlen"), (b"2", "maxlen")]


@pytest.mark.row("A20")
def test_the_oldest_go_when_there_are_too_many_octets() -> None:
    place = LimitedQueue("drop-head", None, 10)
    place.fill(b"aaaa", b"bbbb", b"cc")
    assert place.dropped == []
    place.fill(b"dddd")
    assert place.ready == [b"bbbb", b"cc", b"dddd"]
    place.fill(b"eeeeeeeee")
    assert place.ready == [b"eeeeeeeee"]


@pytest.mark.row("A20")
def test_either_limit_counts() -> None:
    place = LimitedQueue("drop-head", 2, 10)
    place.fill(b"a", b"b", b"c")
    assert place.ready == [b"b", b"c"]
    place.fill(b"d" * 10)
    assert place.ready == [b"d" * 10]


def test_with_rabbitmq_s_names_a_message_that_is_too_large_on_its_own_goes() -> None:
    place = LimitedQueue("drop-head", None, 10)
    place.fill(b"small", b"x" * 11)
    assert place.ready == []
    assert place.dropped == [b"small", b"x" * 11]


def test_with_a_limit_of_0_nothing_stays_that_is_not_delivered_at_once() -> None:
    place = LimitedQueue("drop-head", 0)
    place.fill(b"lost")
    consumer = place.consume(prefetch_count=1)
    place.fill(b"delivered", b"late")
    assert consumer.bodies == [b"delivered"]
    assert place.dropped == [b"lost", b"late"]


@pytest.mark.row("A22")
@pytest.mark.parametrize("limits", [(0, None), (None, 10)])
def test_with_qpid_s_names_the_newcomer_stays_above_the_limit_for_its_own_sake(
    limits: tuple[int | None, int | None],
) -> None:
    place = LimitedQueue("drop-head", *limits, counts_unacked=True)
    place.fill(b"a", b"b")
    assert place.ready == [b"b"]
    assert place.dropped == [b"a"]


@pytest.mark.row("A22")
def test_the_lowest_priority_goes_first_and_of_that_the_oldest() -> None:
    place = LimitedQueue("drop-head", 4, order=rabbitmq_levels(9))
    # differs: overflow-priority
    for body, priority in [(b"h", 9), (b"l1", 1), (b"l2", 1), (b"m", 5)]:
        place.offer(body, priority=priority)
    place.offer(b"h2", priority=9)
    place.offer(b"l3", priority=1)
    assert place.dropped == [b"l1", b"l2"]
    place.offer(b"h3", priority=9)
    place.offer(b"h4", priority=9)
    assert place.dropped == [b"l1", b"l2", b"l3", b"m"]
    assert place.ready == [b"h", b"h2", b"h3", b"h4"]


@pytest.mark.parametrize("counts_unacked", [False, True])
def test_a_newcomer_below_everything_else_in_a_full_queue_is_the_one_to_go(
    counts_unacked: bool,
) -> None:
    place = LimitedQueue("drop-head", 2, order=rabbitmq_levels(9), counts_unacked=counts_unacked)
    place.offer(b"h", priority=9)
    place.offer(b"m", priority=5)
    assert place.offer(b"l", priority=0)
    assert place.dropped == [b"l"]
    assert place.ready == [b"h", b"m"]


@pytest.mark.row("A22")
def test_a_sorted_queue_gives_up_what_arrived_first() -> None:
    place = LimitedQueue("drop-head", 2, order=SortedOrder("k"))
    for body, key in [(b"1", "z"), (b"2", "a"), (b"3", "m")]:
        place.offer(body, headers=Table(k=key))
    assert place.dropped == [b"1"]


def test_consumers_get_first_what_would_be_dropped_else() -> None:
    place = LimitedQueue("drop-head", 2)
    consumer = place.consume()
    place.fill(*(b"%d" % number for number in range(10)))
    assert place.dropped == []
    place.turn.run()
    assert consumer.bodies == [b"%d" % number for number in range(10)]


def test_a_consumer_without_credit_is_no_help() -> None:
    place = LimitedQueue("drop-head", 2)
    consumer = place.consume(prefetch_count=1)
    place.fill(b"1", b"2", b"3", b"4")
    assert consumer.bodies == [b"1"]
    assert place.ready == [b"3", b"4"]
    assert place.dropped == [b"2"]


@pytest.mark.row("A20")
def test_with_rabbitmq_s_names_what_is_delivered_does_not_count() -> None:
    place = LimitedQueue("drop-head", 2)
    place.fill(b"1", b"2")
    place.take()
    place.fill(b"3")
    assert place.dropped == []


@pytest.mark.row("A20")
def test_with_qpid_s_names_what_is_delivered_counts_but_stays_with_its_consumer() -> None:
    place = LimitedQueue("drop-head", 2, counts_unacked=True)
    place.fill(b"1", b"2")
    first, second = place.take(), place.take()
    place.fill(b"3")
    assert place.dropped == []  # the only one that could go is the newcomer
    place.fill(b"4")
    assert place.dropped == [b"3"]
    place.queue.settle(first)
    place.queue.settle(second)
    place.fill(b"5")
    assert place.dropped == [b"3"]


def test_what_comes_back_may_be_too_much_and_the_oldest_goes() -> None:
    place = LimitedQueue("drop-head", 2)
    place.fill(b"1", b"2")
    taken = [place.take(), place.take()]
    place.fill(b"3", b"4")
    place.queue.release(taken)
    assert place.dropped == [b"1", b"2"]
    assert place.ready == [b"3", b"4"]


def test_what_is_held_counts_when_its_time_has_come() -> None:
    place = LimitedQueue("drop-head", 2)
    place.hold()
    later = place.now_ms + 1000
    for body in (b"h1", b"h2"):
        place.offer(body, headers=Table({"x-qpid-not-valid-before": later}))
    place.fill(b"1", b"2")
    assert place.dropped == []
    place.pass_time(1001)
    assert place.queue.held_count == 0
    assert place.dropped == [b"h1", b"h2"]
    assert place.ready == [b"1", b"2"]


def test_with_qpid_s_names_what_is_held_counts_from_the_start() -> None:
    place = LimitedQueue("drop-head", 2, counts_unacked=True)
    place.hold()
    place.fill(b"1")
    place.offer(b"h1", headers=Table({"x-qpid-not-valid-before": place.now_ms + 1000}))
    place.fill(b"2")
    assert place.dropped == [b"1"]


# --------------------------------------------------------------------------- reject and discard


@pytest.mark.row("A25")
def test_a_full_queue_refuses_and_takes_again_when_there_is_room() -> None:
    place = LimitedQueue("reject-publish", 2)
    place.fill(b"1", b"2")
    assert not place.offer(b"3")
    assert place.ready == [b"1", b"2"]
    place.queue.settle(place.take())
    place.fill(b"4")
    assert place.ready == [b"2", b"4"]
    assert place.letters.deaths == []


@pytest.mark.row("A20")
def test_octets_are_counted_with_the_new_message() -> None:
    place = LimitedQueue("reject-publish", None, 10)
    place.fill(b"aaaaa")
    assert not place.offer(b"bbbbbb")
    place.fill(b"ccccc")
    assert not place.offer(b"d")
    place.fill(b"")


def test_a_message_larger_than_the_limit_is_always_refused() -> None:
    place = LimitedQueue("reject-publish", None, 10)
    assert not place.offer(b"x" * 11)


def test_consumers_make_room_before_anything_is_refused() -> None:
    place = LimitedQueue("reject-publish", 1)
    consumer = place.consume()
    place.fill(b"1", b"2", b"3")
    place.turn.run()
    assert consumer.bodies == [b"1", b"2", b"3"]


@pytest.mark.row("A25")
def test_refused_messages_are_dead_lettered_where_that_is_asked_for() -> None:
    place = LimitedQueue("reject-publish-dlx", 1)
    place.fill(b"1")
    assert not place.offer(b"2")
    assert place.letters.deaths == [(b"2", "maxlen")]


def test_what_comes_back_is_never_refused() -> None:
    place = LimitedQueue("reject-publish", 1)
    place.fill(b"1")
    taken = place.take()
    place.fill(b"2")
    place.queue.release([taken])
    assert place.ready == [b"1", b"2"]
    assert not place.offer(b"3")


@pytest.mark.row("A25")
def test_with_qpid_s_names_unacked_messages_count_against_a_newcomer() -> None:
    place = LimitedQueue("reject-publish", 1, counts_unacked=True)
    place.fill(b"1")
    taken = place.take()
    assert not place.offer(b"2")
    place.queue.settle(taken)
    place.fill(b"3")


def test_a_newcomer_is_discarded_and_taken_for_accepted() -> None:
    place = LimitedQueue("discard", 1)
    place.fill(b"1", b"2", b"3")
    assert place.ready == [b"1"]
    assert place.letters.deaths == []


@pytest.mark.row("A21", "A24")
@pytest.mark.parametrize("policy", ["none", "flow-to-disk"])
def test_without_a_policy_the_limit_is_only_logged(policy: OverflowPolicy) -> None:
    place = LimitedQueue(policy, 2)
    place.fill(b"1", b"2")
    assert place.codes == []
    place.fill(b"3", b"4")
    assert place.ready == [b"1", b"2", b"3", b"4"]
    assert place.codes == ["QUE-1003"]
    assert not place.stops_publishers()


# --------------------------------------------------------------------------------- flow control


def full(place: LimitedQueue, count: int) -> Publisher:
    """Messages of one octet, and a publisher that is stopped by the last of them."""
    publisher = Publisher()
    for _ in range(count):
        assert not place.stops_publishers()
        place.fill(b"x")
    assert place.stops_publishers()
    place.overflow.stop_publisher(publisher)
    return publisher


@pytest.mark.row("A23")
def test_publishers_stop_above_the_limit_and_go_on_at_80_percent() -> None:
    place = LimitedQueue("flow-control", 10)
    publisher = full(place, 11)
    for _ in range(2):
        place.queue.settle(place.take())
        assert publisher.heard == []
    place.queue.settle(place.take())
    assert place.queue.ready_count == 8
    assert publisher.heard == [place.overflow]
    assert not place.stops_publishers()


@pytest.mark.row("A23")
@pytest.mark.parametrize(
    ("limit", "percent", "resume_at"), [(5, 50.0, 3), (10, 100.0, 10), (10, 0.0, 0), (3, 80.0, 3)]
)
def test_the_resume_limit_is_a_percentage_rounded_up(
    limit: int, percent: float, resume_at: int
) -> None:
    place = LimitedQueue("flow-control", limit, resume_percent=percent)
    publisher = full(place, limit + 1)
    while place.queue.ready_count > resume_at:
        assert publisher.heard == []
        place.take()
    assert publisher.heard == [place.overflow]


@pytest.mark.row("A23")
def test_both_depths_must_have_fallen() -> None:
    place = LimitedQueue("flow-control", 10, 100)
    place.fill(b"x" * 90)
    publisher = full(place, 10)  # 11 messages, 100 octets
    place.take()
    assert publisher.heard == []  # 10 messages, 10 octets
    place.take()
    place.take()
    assert publisher.heard == [place.overflow]


@pytest.mark.row("A23")
def test_the_octets_alone_can_stop_publishers() -> None:
    place = LimitedQueue("flow-control", None, 100)
    place.fill(b"x" * 60, b"y" * 40)
    assert not place.stops_publishers()
    place.fill(b"z")
    assert place.stops_publishers()
    assert len(place.ready) == 3


def test_consumers_have_their_chance_before_publishers_are_stopped() -> None:
    place = LimitedQueue("flow-control", 2)
    place.consume()
    place.fill(*[b"x"] * 10)
    assert not place.stops_publishers()


@pytest.mark.row("A23")
def test_deliveries_make_room_with_rabbitmq_s_names_and_acks_with_qpid_s() -> None:
    for counts_unacked in (False, True):
        place = LimitedQueue("flow-control", 4, counts_unacked=counts_unacked)
        publisher = full(place, 5)
        consumer = place.consume()
        assert len(consumer.bodies) == 5
        assert (publisher.heard == []) is counts_unacked
        consumer.ack(1)
        assert publisher.heard == [place.overflow]


@pytest.mark.row("A23")
def test_a_purge_lets_publishers_go_on() -> None:
    place = LimitedQueue("flow-control", 4)
    publisher = full(place, 5)
    assert place.queue.purge() == 5
    assert publisher.heard == [place.overflow]


def test_expiry_lets_publishers_go_on() -> None:
    place = LimitedQueue("flow-control", 4)
    place.expire(message_ttl_ms=1000)
    publisher = full(place, 5)
    place.pass_time(1001)
    assert publisher.heard == [place.overflow]


def test_the_end_of_the_queue_lets_publishers_go_on() -> None:
    place = LimitedQueue("flow-control", 4)
    publisher = full(place, 5)
    place.queue.delete()
    assert publisher.heard == [place.overflow]
    assert place.timers.pending == []


def test_the_end_of_the_policy_lets_publishers_go_on() -> None:
    place = LimitedQueue("flow-control", 4)
    publisher = full(place, 5)
    place.overflow.stop()
    assert publisher.heard == [place.overflow]
    assert place.timers.pending == []
    assert not place.stops_publishers()


@pytest.mark.parametrize("policy", ["reject-publish", "reject-publish-dlx", "discard", "drop-head"])
def test_the_limits_of_a_deleted_queue_are_none(policy: OverflowPolicy) -> None:
    """A late call finds no queue, and that is no error."""
    place = LimitedQueue(policy, max_length=1)
    place.fill(b"a")
    place.queue.delete()
    overflow = place.overflow
    message = make_message(b"late")
    assert not overflow.refuses(message)
    assert not overflow.discards(message)
    overflow.enforce(None)
    overflow.on_delivered()
    assert (overflow.depth_count, overflow.depth_bytes, overflow.memory_window) == (0, 0, None)
    assert place.letters.deaths == []


def test_a_publisher_that_is_gone_hears_nothing() -> None:
    place = LimitedQueue("flow-control", 4)
    publisher = full(place, 5)
    place.overflow.forget_publisher(publisher)
    place.overflow.forget_publisher(publisher)
    place.queue.purge()
    assert publisher.heard == []


def test_what_was_delivered_can_be_settled_after_the_queue_is_gone() -> None:
    for policy in EVERY_POLICY:
        place = LimitedQueue(policy, 1, counts_unacked=True)
        place.fill(b"1")
        taken = place.take()
        place.queue.delete()
        place.queue.settle(taken)
        assert place.queue.unacked_count == 0


# -------------------------------------------------------------------------------------- the log


@pytest.mark.row("A26")
def test_the_log_has_a_line_when_it_begins_and_one_when_it_ends() -> None:
    place = LimitedQueue("flow-control", 5, 1000)
    place.fill(*[b"four"] * 9)
    assert place.logged == [
        (
            "QUE-1003",
            {
                "queue": "q",
                "vhost": "/",
                "policy": "flow-control",
                "messages": 6,
                "bytes": 24,
                "max_length": 5,
                "max_length_bytes": 1000,
            },
        )
    ]
    while place.queue.ready_count:
        place.take()
    assert place.codes == ["QUE-1003", "QUE-1004"]
    assert place.logged[-1][1]["messages"] == 4


@pytest.mark.row("A26")
def test_dropped_messages_are_counted_and_not_logged_one_by_one() -> None:
    place = LimitedQueue("drop-head", 2)
    place.fill(*[b"x"] * 1002)
    assert place.codes == ["QUE-1003"]
    place.pass_time(INTERVAL_MS)
    assert place.codes == ["QUE-1003", "QUE-1005"]
    assert place.logged[-1][1] == {
        "queue": "q",
        "vhost": "/",
        "policy": "drop-head",
        "count": 1000,
    }
    place.fill(*[b"x"] * 7)
    place.pass_time(INTERVAL_MS)
    assert [fields["count"] for code, fields in place.logged if code == "QUE-1005"] == [1000, 7]
    place.pass_time(10 * INTERVAL_MS)
    assert place.codes == ["QUE-1003", "QUE-1005", "QUE-1005"]
    assert place.timers.pending == []


@pytest.mark.row("A26")
@pytest.mark.parametrize("policy", ["reject-publish", "discard"])
def test_refused_and_discarded_messages_are_counted_too(policy: OverflowPolicy) -> None:
    place = LimitedQueue(policy, 2)
    for _ in range(5):
        place.offer()
    place.pass_time(INTERVAL_MS)
    assert place.logged[-1][1]["count"] == 3


def test_what_is_not_reported_yet_is_when_the_queue_goes() -> None:
    place = LimitedQueue("drop-head", 2)
    place.fill(*[b"x"] * 5)
    place.queue.delete()
    assert ("QUE-1005", 3) in [(code, fields.get("count")) for code, fields in place.logged]
    assert place.timers.pending == []


@pytest.mark.row("A26")
def test_episodes_in_quick_succession_do_not_fill_the_log() -> None:
    place = LimitedQueue("flow-control", 1)
    for _ in range(500):
        place.fill(b"1", b"2")
        place.take()
        place.take()
    assert place.codes == ["QUE-1003", "QUE-1004"]


def test_an_episode_that_lasts_is_reported_in_the_end() -> None:
    place = LimitedQueue("flow-control", 1)
    place.fill(b"1", b"2")
    place.queue.purge()
    place.fill(b"1", b"2")
    assert place.codes == ["QUE-1003", "QUE-1004"]
    place.pass_time(INTERVAL_MS)
    assert place.codes == ["QUE-1003", "QUE-1004", "QUE-1003"]
    place.queue.purge()
    assert place.codes[3:] == ["QUE-1004"]


def test_a_queue_that_is_just_full_is_not_overfull() -> None:
    for policy in EVERY_POLICY:
        place = LimitedQueue(policy, 3, 3)
        place.fill(b"x", b"x", b"x")
        assert place.logged == []


# ----------------------------------------------------------------------------------- the counts


def test_qpid_counts_the_metadata_that_broker_j_stores() -> None:
    message = make_message(b"body", exchange="ex", routing_key="key", delivery_mode=2)
    # 14 for class, weight, body size and flags, 1 for the delivery mode; then 4, two short strings,
    # 1 and 8: broker-j's MessageMetaData
    assert stored_bytes(message) == 4 + 14 + 1 + 4 + 3 + 4 + 1 + 8


def test_octets_stay_right_when_a_delivery_count_is_added_to_a_message() -> None:
    place = LimitedQueue("none", None, 10_000, counts_unacked=True)
    place.queue.shows_delivery_count = True
    place.fill(b"x")
    for _ in range(3):
        place.queue.release([place.take()])
    entry = place.take()
    assert place.overflow.depth_bytes == stored_bytes(entry.message)
    place.queue.settle(entry)
    assert place.overflow.depth_bytes == 0


def test_a_refusal_explains_itself() -> None:
    place = LimitedQueue("reject-publish", 1)
    place.fill(b"four")
    assert place.overflow.explanation == (
        "Maximum depth exceeded on 'q' : current=[count: 1, size: 4], max=[count: 1, size: -1]"
    )


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 12)),
        st.tuples(st.sampled_from(["take", "settle", "release", "purge"]), st.just(0)),
    ),
    max_size=60,
)


class Model:
    """A limited FIFO queue as two plain lists; messages are their numbers, of ``sizes`` octets."""

    def __init__(self, policy: str, limit: int, limit_bytes: int, counts_unacked: bool) -> None:
        self.policy = policy
        self.limit, self.limit_bytes = limit, limit_bytes
        self.counts_unacked = counts_unacked
        self.ready: list[int] = []
        self.unacked: deque[int] = deque()
        self.sizes: dict[int, int] = {}

    @property
    def counted(self) -> list[int]:
        return [*self.ready, *self.unacked] if self.counts_unacked else self.ready

    def exceeds(self, *more: int) -> bool:
        counted = [*self.counted, *more]
        return (
            len(counted) > self.limit
            or sum(self.sizes[number] for number in counted) > self.limit_bytes
        )

    def drop_head(self) -> None:
        while self.policy == "drop-head" and self.ready and self.exceeds():
            if self.counts_unacked and len(self.ready) == 1:
                return
            del self.ready[0]

    def publish(self, number: int, size: int) -> bool:
        self.sizes[number] = size
        if self.policy in ("reject-publish", "discard") and self.exceeds(number):
            return self.policy == "discard"
        self.ready.append(number)
        self.drop_head()
        return True


@given(
    STEPS,
    st.sampled_from(["drop-head", "reject-publish", "discard", "none"]),
    st.integers(0, 5),
    st.integers(0, 30),
    st.booleans(),
)
def test_a_limited_queue_does_what_plain_lists_do(
    steps: list[Step],
    policy: OverflowPolicy,
    limit: int,
    limit_bytes: int,
    counts_unacked: bool,
) -> None:
    overhead = stored_bytes(make_message(b"", routing_key="q")) if counts_unacked else 0
    limit_bytes += limit * overhead
    place = LimitedQueue(policy, limit, limit_bytes, counts_unacked=counts_unacked)
    model = Model(policy, limit, limit_bytes, counts_unacked)
    unacked: deque[QueueEntry] = deque()
    for number, (step, size) in enumerate(steps):
        if step == "publish":
            body = b"%d" % number + b"." * size
            assert place.offer(body) == model.publish(number, len(body) + overhead)
        elif step == "take" and model.ready:
            unacked.append(place.take())
            model.unacked.append(model.ready.pop(0))
        elif step == "settle" and unacked:
            place.queue.settle(unacked.popleft())
            model.unacked.popleft()
        elif step == "release" and unacked:
            place.queue.release([unacked.pop()])
            model.ready.append(model.unacked.pop())
            model.ready.sort()
            model.drop_head()
        elif step == "purge":
            place.queue.purge()
            model.ready.clear()
        assert [int(body.partition(b".")[0]) for body in place.ready] == model.ready
        assert place.overflow.depth_count == len(model.counted)
        assert place.overflow.depth_bytes == sum(model.sizes[one] for one in model.counted)


def test_a_plain_queue_gets_rid_of_a_million_octets_at_once() -> None:
    """One large message pushes out as many small ones as it takes."""
    place = LimitedQueue("drop-head", None, 1000, order=FifoOrder())
    place.fill(*[b"x"] * 1000)
    place.fill(b"y" * 1000)
    assert place.ready == [b"y" * 1000]
    assert len(place.dropped) == 1000
