"""Policies of a queue that meet: each does its own part, and none forgets the others'.

Queues are made of arguments by a virtual host, as clients make them. That random combinations keep
the books is shown by tests/conformance/test_policies_model.py; here are the ones with a name.
"""

from __future__ import annotations

from typing import Any

import pytest

from hareline.errors import PreconditionFailed
from hareline.message import Message, Table
from hareline.queues.core import parking
from hareline.queues.core.entry import PARKED
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.dispatch import selective
from hareline.queues.dispatch.readers import RUNS_PER_SWEEP
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders import log_order as log
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.policies.deadline_timer import DeadlineTimer
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold
from hareline.queues.policies.lease import Lease
from hareline.queues.policies.overflow import Overflow
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.freed import all_freed
from tests.support.messages import make_message
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn
from tests.support.vhosts import make_vhost

RED = "colour = 'red'"


class Place:
    """A virtual host whose turn and clock the test moves by hand."""

    def __init__(self) -> None:
        self.turn = ManualTurn()
        self.timers = ManualTimers(on_rung=self.turn.run)
        self.vhost = make_vhost(self.turn, timers=self.timers)
        self.consumer_count = 0

    def queue(
        self,
        name: str = "q",
        arguments: dict[str, object] | None = None,
        *,
        is_auto_delete: bool = False,
        owner: object | None = None,
    ) -> Queue:
        return self.vhost.declare_queue(
            name,
            is_durable=owner is None and not is_auto_delete,
            is_auto_delete=is_auto_delete,
            owner=owner,
            arguments=arguments or {},
        )

    def accept(
        self, queue: Queue, body: bytes = b"", ttl_ms: int | None = None, **properties: Any
    ) -> bool:
        """Route a message to the queue as a publisher does; the turn goes on."""
        headers = properties.pop("headers", None)
        message: Message = make_message(
            body,
            routing_key=queue.name,
            headers=None if headers is None else Table(headers),
            **properties,
        )
        message.arrival_ms = self.timers.clock.now_ms
        if ttl_ms is not None:
            message = message.expiring_at(self.timers.clock.now_ms + ttl_ms)
        if queue.needs_admission or message.expires_at_ms:
            return bool(queue.put(message))
        queue.enqueue(message)
        return True

    def publish(
        self, queue: Queue, *bodies: bytes, ttl_ms: int | None = None, **properties: Any
    ) -> list[bool]:
        """Messages that come in one turn, and its end; which of them were taken."""
        taken = [self.accept(queue, body, ttl_ms, **properties) for body in bodies]
        self.turn.run()
        return taken

    def consume(
        self, queue: Queue, prefetch_count: int = 0, *, selector: str | None = None, **options: Any
    ) -> RecordingConsumer:
        self.consumer_count += 1
        is_browser = options.pop("is_browser", False)
        closes_at_end = options.pop("closes_at_end", False)
        room = options.pop("room", None)
        consumer = RecordingConsumer(
            queue,
            f"c{self.consumer_count}",
            prefetch_count=prefetch_count,
            selector=None if selector is None else compile_selector(selector),
            **options,
        )
        if room is not None:
            consumer.room = room
        consumer.is_browser = is_browser
        consumer.closes_at_end = closes_at_end
        queue.add_consumer(consumer)
        self.turn.run()
        return consumer


@pytest.fixture
def place() -> Place:
    return Place()


def bodies(queue: Queue) -> list[bytes]:
    """What is ready, in order."""
    return [entry.message.body for entry in queue.lane.ready_entries()]


def deaths(queue: Queue) -> list[tuple[bytes, list[tuple[object, object]]]]:
    """Body, and queue and reason of each death, for what is ready in a dead-letter queue."""
    found = []
    for entry in queue.lane.ready_entries():
        history: Any = entry.message.headers["x-death"]
        found.append((entry.message.body, [(death["queue"], death["reason"]) for death in history]))
    return found


# ------------------------------------------------------------ priority, time, limit, dead letters


def test_a_full_priority_queue_with_a_time_to_live_dead_letters_for_both_reasons(
    place: Place,
) -> None:
    dead = place.queue("dead")
    queue = place.queue(
        "q",
        {
            "x-max-priority": 5,
            "x-message-ttl": 100,
            "x-max-length": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    place.publish(queue, b"low", priority=1)
    place.timers.advance(50)
    place.publish(queue, b"high", priority=5)
    place.publish(queue, b"middle", priority=3)
    assert bodies(queue) == [b"high", b"middle"]
    place.timers.advance(100)
    assert bodies(queue) == []
    assert deaths(dead) == [
        (b"low", [("q", "maxlen")]),
        (b"high", [("q", "expired")]),
        (b"middle", [("q", "expired")]),
    ]
    assert (queue.ready_bytes, queue.unacked_count, queue.held_count) == (0, 0, 0)


@pytest.mark.row("A22")
@pytest.mark.parametrize(
    ("ordering", "properties"),
    [
        ({"x-max-priority": 5}, [{"priority": 1}, {"priority": 0}, {"priority": 5}]),
        ({"x-qpid-priorities": 10}, [{"priority": 1}, {"priority": 0}, {"priority": 9}]),
    ],
)
def test_a_full_priority_queue_gives_up_parked_low_ones_before_a_high_one(
    place: Place, ordering: dict[str, object], properties: list[dict[str, Any]]
) -> None:
    """Those that no consumer's selector is true of are still there, and worth less."""
    queue = place.queue("q", {**ordering, "x-max-length": 2})
    place.consume(queue, selector=RED)
    for body, fields in zip((b"low", b"lowest", b"high"), properties, strict=True):
        place.publish(queue, body, **fields)
    assert bodies(queue) == [b"high", b"low"]


@pytest.mark.row("A22")
def test_a_full_sorted_queue_gives_up_the_first_comer_parked_or_not(place: Place) -> None:
    queue = place.queue("q", {"x-sort-key": "k", "x-max-length": 2})
    place.consume(queue, selector=RED)
    place.publish(queue, b"first", headers={"k": "a"})
    place.publish(queue, b"second", headers={"k": "b"})
    place.publish(queue, b"third", headers={"k": "c"})
    place.publish(queue, b"fourth", headers={"k": "0"})
    assert bodies(queue) == [b"fourth", b"third"]


def test_what_is_parked_taken_and_parked_again_is_given_up_once(place: Place) -> None:
    queue = place.queue("q", {"x-max-priority": 5, "x-max-length": 3})
    place.consume(queue, selector=RED)
    place.publish(queue, b"a", b"b", b"c", b"d", priority=1)  # now the limit keeps a list of them
    for _ in range(200):
        entry = queue.get()
        assert entry is not None
        queue.release([entry])
        place.turn.run()
    place.publish(queue, b"e", priority=2)
    assert bodies(queue) == [b"e", b"c", b"d"]
    place.publish(queue, b"f", priority=0)
    assert bodies(queue) == [b"e", b"c", b"d"]
    place.publish(queue, b"g", priority=2)
    assert bodies(queue) == [b"e", b"g", b"d"]


# ----------------------------------------------------------------------- selectors and time


def test_parked_messages_that_expire_are_not_kept(place: Place) -> None:
    """Nobody asks for what no selector is true of, so nobody comes across what is gone there."""
    queue = place.queue("q", {"x-message-ttl": 10})
    place.consume(queue, selector=RED)
    kept = _parked(queue)
    for _ in range(50):
        place.publish(queue, *[b"blue"] * 20, headers={"colour": "blue"})
        place.timers.advance(20)
        assert queue.ready_count == 0
        assert (
            sum(len(run._heap) + len(run._line or ()) for run in kept._loose.values())
            <= parking.DEAD_ALLOWED + 20
        )


def test_parked_messages_of_groups_that_expire_are_not_kept(place: Place) -> None:
    queue = place.queue("q", {"x-message-ttl": 10, "x-message-group-type": "standard"})
    busy = place.consume(queue, 1)
    place.publish(queue, b"its group's first", headers={"JMSXGroupID": "a"})
    assert busy.bodies == [b"its group's first"]
    for _ in range(50):
        place.publish(queue, *[b"waits"] * 20, headers={"JMSXGroupID": "a"})
        place.timers.advance(20)
        assert queue.ready_count == 0
        waiting = sum(len(run._heap) + len(run._line or ()) for run in _parked(queue)._all_runs())
        assert waiting <= parking.DEAD_ALLOWED + 20
    place.publish(queue, b"in time", headers={"JMSXGroupID": "a"})
    busy.ack()
    place.turn.run()
    assert busy.bodies == [b"its group's first", b"in time"]


def _parked(queue: Queue) -> parking.Parking:
    lane = queue.lane
    assert isinstance(lane, SelectiveLane)
    return lane.parking


def test_single_active_consumer_with_a_selector_leaves_the_rest_to_its_successor(
    place: Place,
) -> None:
    queue = place.queue("q", {"x-single-active-consumer": True})
    first = place.consume(queue, selector=RED)
    second = place.consume(queue)
    place.publish(queue, b"blue", headers={"colour": "blue"})
    place.publish(queue, b"red", headers={"colour": "red"})
    assert (first.bodies, second.bodies) == ([b"red"], [])
    queue.remove_consumer(first)
    first.release()
    place.turn.run()
    assert second.bodies == [b"blue", b"red"]


def test_many_priorities_of_selective_consumers_are_forgotten_with_them(place: Place) -> None:
    queue = place.queue("q", {"x-message-group-type": "standard"})
    for priority in range(100):
        queue.remove_consumer(place.consume(queue, priority=priority))
    lane = queue.lane
    assert isinstance(lane, SelectiveLane)
    assert lane._ready.levels == []


# ------------------------------------------------------------------- last values and hold


@pytest.mark.row("A6")
def test_a_held_value_replaces_the_one_that_is_there_when_its_time_comes(place: Place) -> None:
    queue = place.queue("q", {"x-last-value-key": "k", "x-hold-on-publish": True})
    place.publish(queue, b"old", headers={"k": "x"})
    place.publish(queue, b"held", headers={"k": "x", "x-delay": 100})
    place.publish(queue, b"other", headers={"k": "y"})
    assert bodies(queue) == [b"old", b"other"]
    place.timers.advance(100)
    assert bodies(queue) == [b"held", b"other"]
    assert (queue.held_count, queue.ready_count) == (0, 2)


def test_of_two_values_held_to_the_same_instant_the_later_one_stays(place: Place) -> None:
    dead = place.queue("dead")
    queue = place.queue(
        "q",
        {
            "x-last-value-key": "k",
            "x-hold-on-publish": True,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-dead-letter-reasons": "replaced",
        },
    )
    place.publish(queue, b"one", b"two", headers={"k": "x", "x-delay": 100})
    place.timers.advance(100)
    assert bodies(queue) == [b"two"]
    assert deaths(dead) == [(b"one", [("q", "replaced")])]
    assert (queue.held_count, queue.ready_count, queue.settled_count) == (0, 1, 1)


def test_a_stale_value_that_comes_back_too_often_dies_once(place: Place) -> None:
    dead = place.queue("dead")
    queue = place.queue(
        "q",
        {
            "x-last-value-key": "k",
            "x-delivery-limit": 0,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-dead-letter-reasons": "replaced,delivery_limit",
        },
    )
    consumer = place.consume(queue, 1)
    place.publish(queue, b"old", headers={"k": "x"})
    place.publish(queue, b"new", headers={"k": "x"})
    consumer.release()
    place.turn.run()
    assert deaths(dead) == [(b"old", [("q", "delivery_limit")])]
    assert consumer.bodies == [b"old", b"new"]


def test_held_messages_count_when_a_queue_is_deleted_or_purged(place: Place) -> None:
    queue = place.queue("q", {"x-hold-on-publish": True})
    place.publish(queue, b"later", headers={"x-delay": 1000})
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' not empty"):
        place.vhost.delete_queue("q", None, if_empty=True)
    assert queue.purge() == 1
    place.publish(queue, b"later", headers={"x-delay": 1000})
    assert place.vhost.delete_queue("q", None) == 1
    assert not place.timers.pending


# ------------------------------------------------------------------- groups, limits, deaths


def test_a_message_delivered_too_often_frees_its_group(place: Place) -> None:
    dead = place.queue("dead")
    queue = place.queue(
        "q",
        {
            "x-message-group-type": "shared",
            "x-delivery-limit": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    first = place.consume(queue, 1)
    second = place.consume(queue, 1)
    place.publish(queue, b"poison", b"next", headers={"JMSXGroupID": "a"})
    for _ in range(2):
        holder = first if first.unacked else second
        holder.release()
        place.turn.run()
    assert deaths(dead) == [(b"poison", [("q", "delivery_limit")])]
    assert (first.bodies + second.bodies).count(b"next") == 1


def test_a_full_queue_gives_up_the_oldest_of_a_busy_group(place: Place) -> None:
    queue = place.queue("q", {"x-message-group-type": "standard", "x-max-length": 2})
    busy = place.consume(queue, 1)
    place.publish(queue, b"0", headers={"JMSXGroupID": "a"})
    place.publish(queue, b"1", b"2", b"3", headers={"JMSXGroupID": "a"})
    assert (busy.bodies, bodies(queue)) == ([b"0"], [b"2", b"3"])
    busy.ack()
    place.turn.run()
    assert (busy.bodies, bodies(queue)) == ([b"0", b"2"], [b"3"])


def test_a_message_that_a_consumer_waits_for_pushes_nothing_out(place: Place) -> None:
    queue = place.queue("q", {"x-max-length": 2})
    red = place.consume(queue, selector=RED)
    place.publish(queue, b"1", b"2", headers={"colour": "blue"})
    place.publish(queue, b"3", b"4", headers={"colour": "red"})
    assert (red.bodies, bodies(queue)) == ([b"3", b"4"], [b"1", b"2"])


def test_a_publisher_stays_stopped_while_entries_are_only_on_their_way(place: Place) -> None:
    """A consumer that does not acknowledge takes one entry of many; the others come back."""
    queue = place.queue("q", {"x-max-length": 4, "x-overflow": "flow-control"})
    place.publish(queue, *[b"%d" % number for number in range(8)])
    overflow = queue.overflow
    assert overflow is not None
    place.consume(queue, acknowledges=False, room=0)
    assert (queue.ready_count, overflow.stops_publishers) == (7, True)


def test_a_publisher_stays_stopped_while_a_selective_lane_looks_around(place: Place) -> None:
    queue = place.queue("q", {"x-max-length": 4, "x-overflow": "flow-control"})
    for number in range(8):
        place.publish(queue, b"%d" % number, headers={"colour": "red" if number < 2 else "blue"})
    overflow = queue.overflow
    assert overflow is not None
    place.consume(queue, acknowledges=False, selector=RED, room=0)
    place.consume(queue, acknowledges=False, selector=RED, room=0)
    assert (queue.ready_count, overflow.stops_publishers) == (6, True)


def test_dead_letters_that_come_back_into_a_full_queue_keep_within_its_limit(place: Place) -> None:
    """Each of the two is pushed out of one queue into the other, and no further."""
    one = place.queue(
        "one",
        {
            "x-max-length": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "two",
        },
    )
    two = place.queue(
        "two",
        {
            "x-max-length": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "one",
        },
    )
    place.publish(two, b"a")
    place.publish(one, b"b")
    place.publish(one, b"c")
    assert one.ready_count == two.ready_count == 1
    assert one.settled_count + two.settled_count + 2 == one.next_offset + two.next_offset


# ------------------------------------------------------------------- deletion, in every state


def test_an_exclusive_queue_ends_with_its_connection_and_its_letters_go_on(place: Place) -> None:
    connection = object()
    dead = place.queue("dead")
    queue = place.queue(
        "q",
        {
            "alternateBinding": '{"destination": "dead"}',
            "x-hold-on-publish": True,
            "x-message-ttl": 1000,
            "x-max-length": 10,
        },
        owner=connection,
    )
    consumer = place.consume(queue, 1)
    place.publish(queue, b"unacked", b"ready")
    place.publish(queue, b"held", headers={"x-delay": 100})
    queue.remove_consumer(consumer)
    place.vhost.delete_queues_of(connection)
    consumer.release()  # whatever comes first when a connection ends
    place.turn.run()
    assert deaths(dead) == [
        (b"ready", [("q", "deleted")]),
        (b"held", [("q", "deleted")]),
        (b"unacked", [("q", "deleted")]),
    ]
    assert not place.timers.pending


def test_what_comes_back_to_a_deleted_queue_is_gone_where_it_has_no_alternate(
    place: Place,
) -> None:
    dead = place.queue("dead")
    queue = place.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    consumer = place.consume(queue)
    place.publish(queue, b"a", b"b", b"c")
    place.vhost.delete_queue("q", None)
    consumer.release(1)
    queue.reject(consumer.take_unacked(1))
    consumer.ack()
    place.turn.run()
    assert (dead.ready_count, queue.unacked_count, queue.ready_count) == (0, 0, 0)


@pytest.mark.parametrize("run_count", [1, RUNS_PER_SWEEP - 1, RUNS_PER_SWEEP])
def test_a_queue_that_is_deleted_while_it_is_marked_is_not_dispatched(
    place: Place, run_count: int
) -> None:
    queue = place.queue("q", {"x-non-destructive": True})
    reader = place.consume(queue)
    for _ in range(run_count):
        place.publish(queue, b"a")
    place.accept(queue, b"last")
    place.vhost.delete_queue("q", None)
    place.turn.run()
    assert reader.is_told_of_end
    assert len(reader.bodies) >= run_count


def test_a_dead_letter_queue_that_cannot_be_made_takes_its_queue_along(place: Place) -> None:
    place.vhost.max_queues = 1
    with pytest.raises(PreconditionFailed, match="queue limit in vhost '/'"):
        place.queue("q", {"x-dlq-auto": True})
    assert list(place.vhost.queues) == []
    assert place.vhost.queue_arguments == {}


ALL_ARGUMENTS: list[dict[str, object]] = [
    {},
    {"x-max-length": 3},
    {"qpid.max_count": 3, "qpid.policy_type": "ring"},
    {"x-max-length": 3, "x-overflow": "flow-control"},
    {"x-message-ttl": 1000},
    {"x-expiry-check-period": 50},
    {"x-hold-on-publish": True},
    {"x-expires": 1000},
    {"x-last-value-key": "k"},
    {"x-max-priority": 5},
    {"x-sort-key": "k"},
    {"x-sort-key": "k", "x-max-length": 3},
    {"x-dead-letter-exchange": ""},
    {"x-delivery-limit": 3},
    {"x-message-group-type": "standard"},
    {"x-message-group-type": "shared", "x-max-length": 3, "x-last-value-key": "k"},
    {"x-default-filters": '{"f": {"x-filter-jms-selector": ["n >= 0"]}}'},
    {"x-single-active-consumer": True},
    {"x-non-destructive": True},
    {"x-non-destructive": True, "x-last-value-key": "k", "x-max-length": 3},
    {"x-non-destructive": True, "x-sort-key": "k"},
    {"x-queue-type": "quorum"},
]


PARTS = (Queue, DeadlineTimer, DeadLetters, Expiry, Hold, Lease, Overflow)


@pytest.mark.parametrize("arguments", ALL_ARGUMENTS, ids=str)
@pytest.mark.parametrize("how", ["acked", "released", "browsed"])
def test_a_deleted_queue_is_freed_by_its_reference_counts(
    place: Place, arguments: dict[str, object], how: str
) -> None:
    with all_freed(*PARTS):
        queue = place.queue("q", arguments)
        consumer = place.consume(queue, 2, is_browser=how == "browsed")
        for number in range(6):
            fields = {"k": f"v{number % 4}", "JMSXGroupID": f"g{number % 2}", "n": number}
            delay = {"x-delay": 10} if number == 5 else {}
            ttl_ms = 5000 if number == 4 else None
            place.publish(queue, b"%d" % number, ttl_ms=ttl_ms, headers={**fields, **delay})
        if how == "acked":
            consumer.ack()
        place.accept(queue, b"last", headers={"n": 9, "k": "v"})
        place.vhost.delete_queue("q", None)
        consumer.release()
        consumer.batches.clear()
        place.turn.run()
        place.timers._waiting.clear()  # cancelled ones, which an event loop forgets too
        del queue, consumer


# ------------------------------------------------------------------- many of a kind


def test_a_held_message_takes_its_place_in_a_long_log_without_moving_the_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = place.queue("q", {"x-non-destructive": True, "x-hold-on-publish": True})
    reader = place.consume(queue)
    place.publish(queue, b"held", headers={"x-delay": 10})
    place.publish(queue, *[b"%03d" % number for number in range(300)])
    order = queue.order
    assert isinstance(order, log.LogOrder)
    monkeypatch.setattr(log.LogOrder, "_replace", None)
    place.timers.advance(10)
    assert bodies(queue)[:2] == [b"held", b"000"]
    assert reader.bodies[-1] == b"held"
    late = place.consume(queue)
    assert late.bodies == bodies(queue)


def test_a_sorted_queue_keeps_nothing_of_what_its_consumers_have_taken(place: Place) -> None:
    queue = place.queue("q", {"x-sort-key": "k", "x-max-length": 500})
    place.publish(queue, *[b"%04d" % number for number in range(600)], headers={"k": "same"})
    place.consume(queue, acknowledges=False)
    order = queue.order
    assert isinstance(order, SortedOrder)
    assert queue.ready_count == 0
    assert not order._arrivals


def test_a_browser_with_a_selector_leaves_the_queue_on_its_plain_lane(place: Place) -> None:
    queue = place.queue("q")
    place.publish(queue, b"blue", headers={"colour": "blue"})
    browser = place.consume(queue, selector=RED, is_browser=True)
    place.publish(queue, b"red", headers={"colour": "red"})
    assert browser.bodies == [b"red"]
    assert not isinstance(queue.lane, selective.SelectiveLane)
    assert all(entry.state != PARKED for entry in queue.lane.ready_entries())
