"""Policies of a queue that meet: each does its own part, and none forgets the others'.

Queues are made of arguments by a virtual host, as clients make them. That random combinations keep
the books is shown by tests/conformance/test_policies_model.py; here are the ones with a name.
"""

from __future__ import annotations

from typing import Any

import pytest

from hareline.errors import PreconditionFailed
from hareline.queues.core import parking
from hareline.queues.core.entry import PARKED
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.dispatch import selective
from hareline.queues.dispatch.reading import RUNS_PER_SWEEP
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders import log_order as log
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.policies.deadline_timer import DeadlineTimer
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold
from hareline.queues.policies.lease import Lease
from hareline.queues.policies.overflow import Overflow
from hareline.queues.queue import Queue
from tests.support.freed import all_freed
from tests.support.vhosts import VhostStand, bodies

RED = "colour = 'red'"


def deaths(queue: Queue) -> list[tuple[bytes, list[tuple[object, object]]]]:
    """Body, and queue and reason of each death, for what is ready in a dead-letter queue."""
    found = []
    for entry in queue.lane.ready_entries():
        history: Any = entry.message.headers["x-death"]
        found.append((entry.message.body, [(death["queue"], death["reason"]) for death in history]))
    return found


# ------------------------------------------------------------ priority, time, limit, dead letters


def test_a_full_priority_queue_with_a_time_to_live_dead_letters_for_both_reasons(
    host: VhostStand,
) -> None:
    dead = host.declare("dead")
    queue = host.declare(
        "q",
        {
            "x-max-priority": 5,
            "x-message-ttl": 100,
            "x-max-length": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    host.publish(queue, b"low", priority=1)
    host.timers.advance(50)
    host.publish(queue, b"high", priority=5)
    host.publish(queue, b"middle", priority=3)
    assert bodies(queue) == [b"high", b"middle"]
    host.timers.advance(100)
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
    host: VhostStand, ordering: dict[str, object], properties: list[dict[str, Any]]
) -> None:
    """Those that no consumer's selector is true of are still there, and worth less."""
    queue = host.declare("q", {**ordering, "x-max-length": 2})
    host.consume(queue, selector=RED)
    for body, fields in zip((b"low", b"lowest", b"high"), properties, strict=True):
        host.publish(queue, body, **fields)
    assert bodies(queue) == [b"high", b"low"]


@pytest.mark.row("A22")
def test_a_full_sorted_queue_gives_up_the_first_comer_parked_or_not(host: VhostStand) -> None:
    queue = host.declare("q", {"x-sort-key": "k", "x-max-length": 2})
    host.consume(queue, selector=RED)
    host.publish(queue, b"first", headers={"k": "a"})
    host.publish(queue, b"second", headers={"k": "b"})
    host.publish(queue, b"third", headers={"k": "c"})
    host.publish(queue, b"fourth", headers={"k": "0"})
    assert bodies(queue) == [b"fourth", b"third"]


def test_what_is_parked_taken_and_parked_again_is_given_up_once(host: VhostStand) -> None:
    queue = host.declare("q", {"x-max-priority": 5, "x-max-length": 3})
    host.consume(queue, selector=RED)
    host.publish(queue, b"a", b"b", b"c", b"d", priority=1)  # now the limit keeps a list of them
    for _ in range(200):
        entry = queue.get()
        assert entry is not None
        queue.release([entry])
        host.turn.run()
    host.publish(queue, b"e", priority=2)
    assert bodies(queue) == [b"e", b"c", b"d"]
    host.publish(queue, b"f", priority=0)
    assert bodies(queue) == [b"e", b"c", b"d"]
    host.publish(queue, b"g", priority=2)
    assert bodies(queue) == [b"e", b"g", b"d"]


# ----------------------------------------------------------------------- selectors and time


def test_parked_messages_that_expire_are_not_kept(host: VhostStand) -> None:
    """Nobody asks for what no selector is true of, so nobody comes across what is gone there."""
    queue = host.declare("q", {"x-message-ttl": 10})
    host.consume(queue, selector=RED)
    kept = _parked(queue)
    for _ in range(50):
        host.publish(queue, *[b"blue"] * 20, headers={"colour": "blue"})
        host.timers.advance(20)
        assert queue.ready_count == 0
        assert (
            sum(len(run._heap) + len(run._line or ()) for run in kept._loose.values())
            <= parking.DEAD_ALLOWED + 20
        )


def test_parked_messages_of_groups_that_expire_are_not_kept(host: VhostStand) -> None:
    queue = host.declare("q", {"x-message-ttl": 10, "x-message-group-type": "standard"})
    busy = host.consume(queue, 1)
    host.publish(queue, b"its group's first", headers={"JMSXGroupID": "a"})
    assert busy.bodies == [b"its group's first"]
    for _ in range(50):
        host.publish(queue, *[b"waits"] * 20, headers={"JMSXGroupID": "a"})
        host.timers.advance(20)
        assert queue.ready_count == 0
        waiting = sum(len(run._heap) + len(run._line or ()) for run in _parked(queue)._all_runs())
        assert waiting <= parking.DEAD_ALLOWED + 20
    host.publish(queue, b"in time", headers={"JMSXGroupID": "a"})
    busy.ack()
    host.turn.run()
    assert busy.bodies == [b"its group's first", b"in time"]


def _parked(queue: Queue) -> parking.Parking:
    lane = queue.lane
    assert isinstance(lane, SelectiveLane)
    return lane.parking


def test_single_active_consumer_with_a_selector_leaves_the_rest_to_its_successor(
    host: VhostStand,
) -> None:
    queue = host.declare("q", {"x-single-active-consumer": True})
    first = host.consume(queue, selector=RED)
    second = host.consume(queue)
    host.publish(queue, b"blue", headers={"colour": "blue"})
    host.publish(queue, b"red", headers={"colour": "red"})
    assert (first.bodies, second.bodies) == ([b"red"], [])
    queue.remove_consumer(first)
    first.release()
    host.turn.run()
    assert second.bodies == [b"blue", b"red"]


def test_many_priorities_of_selective_consumers_are_forgotten_with_them(host: VhostStand) -> None:
    queue = host.declare("q", {"x-message-group-type": "standard"})
    for priority in range(100):
        queue.remove_consumer(host.consume(queue, priority=priority))
    lane = queue.lane
    assert isinstance(lane, SelectiveLane)
    assert lane._ready.levels == []


# ------------------------------------------------------------------- last values and hold


@pytest.mark.row("A6")
def test_a_held_value_replaces_the_one_that_is_there_when_its_time_comes(host: VhostStand) -> None:
    queue = host.declare("q", {"x-last-value-key": "k", "x-hold-on-publish": True})
    host.publish(queue, b"old", headers={"k": "x"})
    host.publish(queue, b"held", headers={"k": "x", "x-delay": 100})
    host.publish(queue, b"other", headers={"k": "y"})
    assert bodies(queue) == [b"old", b"other"]
    host.timers.advance(100)
    assert bodies(queue) == [b"held", b"other"]
    assert (queue.held_count, queue.ready_count) == (0, 2)


def test_of_two_values_held_to_the_same_instant_the_later_one_stays(host: VhostStand) -> None:
    dead = host.declare("dead")
    queue = host.declare(
        "q",
        {
            "x-last-value-key": "k",
            "x-hold-on-publish": True,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-dead-letter-reasons": "replaced",
        },
    )
    host.publish(queue, b"one", b"two", headers={"k": "x", "x-delay": 100})
    host.timers.advance(100)
    assert bodies(queue) == [b"two"]
    assert deaths(dead) == [(b"one", [("q", "replaced")])]
    assert (queue.held_count, queue.ready_count, queue.settled_count) == (0, 1, 1)


def test_a_stale_value_that_comes_back_too_often_dies_once(host: VhostStand) -> None:
    dead = host.declare("dead")
    queue = host.declare(
        "q",
        {
            "x-last-value-key": "k",
            "x-delivery-limit": 0,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-dead-letter-reasons": "replaced,delivery_limit",
        },
    )
    consumer = host.consume(queue, 1)
    host.publish(queue, b"old", headers={"k": "x"})
    host.publish(queue, b"new", headers={"k": "x"})
    consumer.release()
    host.turn.run()
    assert deaths(dead) == [(b"old", [("q", "delivery_limit")])]
    assert consumer.bodies == [b"old", b"new"]


def test_held_messages_count_when_a_queue_is_deleted_or_purged(host: VhostStand) -> None:
    queue = host.declare("q", {"x-hold-on-publish": True})
    host.publish(queue, b"later", headers={"x-delay": 1000})
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' not empty"):
        host.vhost.delete_queue("q", None, if_empty=True)
    assert queue.purge() == 1
    host.publish(queue, b"later", headers={"x-delay": 1000})
    assert host.vhost.delete_queue("q", None) == 1
    assert not host.timers.pending


# ------------------------------------------------------------------- groups, limits, deaths


def test_a_message_delivered_too_often_frees_its_group(host: VhostStand) -> None:
    dead = host.declare("dead")
    queue = host.declare(
        "q",
        {
            "x-message-group-type": "shared",
            "x-delivery-limit": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
        },
    )
    first = host.consume(queue, 1)
    second = host.consume(queue, 1)
    host.publish(queue, b"poison", b"next", headers={"JMSXGroupID": "a"})
    for _ in range(2):
        holder = first if first.unacked else second
        holder.release()
        host.turn.run()
    assert deaths(dead) == [(b"poison", [("q", "delivery_limit")])]
    assert (first.bodies + second.bodies).count(b"next") == 1


def test_a_full_queue_gives_up_the_oldest_of_a_busy_group(host: VhostStand) -> None:
    queue = host.declare("q", {"x-message-group-type": "standard", "x-max-length": 2})
    busy = host.consume(queue, 1)
    host.publish(queue, b"0", headers={"JMSXGroupID": "a"})
    host.publish(queue, b"1", b"2", b"3", headers={"JMSXGroupID": "a"})
    assert (busy.bodies, bodies(queue)) == ([b"0"], [b"2", b"3"])
    busy.ack()
    host.turn.run()
    assert (busy.bodies, bodies(queue)) == ([b"0", b"2"], [b"3"])


def test_a_message_that_a_consumer_waits_for_pushes_nothing_out(host: VhostStand) -> None:
    queue = host.declare("q", {"x-max-length": 2})
    red = host.consume(queue, selector=RED)
    host.publish(queue, b"1", b"2", headers={"colour": "blue"})
    host.publish(queue, b"3", b"4", headers={"colour": "red"})
    assert (red.bodies, bodies(queue)) == ([b"3", b"4"], [b"1", b"2"])


def test_a_publisher_stays_stopped_while_entries_are_only_on_their_way(host: VhostStand) -> None:
    """A consumer that does not acknowledge takes one entry of many; the others come back."""
    queue = host.declare("q", {"x-max-length": 4, "x-overflow": "flow-control"})
    host.publish(queue, *[b"%d" % number for number in range(8)])
    overflow = queue.overflow
    assert overflow is not None
    host.consume(queue, acknowledges=False, room=0)
    assert (queue.ready_count, overflow.stops_publishers) == (7, True)


def test_a_publisher_stays_stopped_while_a_selective_lane_looks_around(host: VhostStand) -> None:
    queue = host.declare("q", {"x-max-length": 4, "x-overflow": "flow-control"})
    for number in range(8):
        host.publish(queue, b"%d" % number, headers={"colour": "red" if number < 2 else "blue"})
    overflow = queue.overflow
    assert overflow is not None
    host.consume(queue, acknowledges=False, selector=RED, room=0)
    host.consume(queue, acknowledges=False, selector=RED, room=0)
    assert (queue.ready_count, overflow.stops_publishers) == (6, True)


def test_dead_letters_that_come_back_into_a_full_queue_keep_within_its_limit(
    host: VhostStand,
) -> None:
    """Each of the two is pushed out of one queue into the other, and no further."""
    one = host.declare(
        "one",
        {
            "x-max-length": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "two",
        },
    )
    two = host.declare(
        "two",
        {
            "x-max-length": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "one",
        },
    )
    host.publish(two, b"a")
    host.publish(one, b"b")
    host.publish(one, b"c")
    assert one.ready_count == two.ready_count == 1
    assert one.settled_count + two.settled_count + 2 == one.next_offset + two.next_offset


# ------------------------------------------------------------------- deletion, in every state


def test_an_exclusive_queue_ends_with_its_connection_and_its_letters_go_on(
    host: VhostStand,
) -> None:
    connection = object()
    dead = host.declare("dead")
    queue = host.declare(
        "q",
        {
            "alternateBinding": '{"destination": "dead"}',
            "x-hold-on-publish": True,
            "x-message-ttl": 1000,
            "x-max-length": 10,
        },
        owner=connection,
    )
    consumer = host.consume(queue, 1)
    host.publish(queue, b"unacked", b"ready")
    host.publish(queue, b"held", headers={"x-delay": 100})
    queue.remove_consumer(consumer)
    host.vhost.delete_queues_of(connection)
    consumer.release()  # whatever comes first when a connection ends
    host.turn.run()
    assert deaths(dead) == [
        (b"ready", [("q", "deleted")]),
        (b"held", [("q", "deleted")]),
        (b"unacked", [("q", "deleted")]),
    ]
    assert not host.timers.pending


def test_what_comes_back_to_a_deleted_queue_is_gone_where_it_has_no_alternate(
    host: VhostStand,
) -> None:
    dead = host.declare("dead")
    queue = host.declare("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    consumer = host.consume(queue)
    host.publish(queue, b"a", b"b", b"c")
    host.vhost.delete_queue("q", None)
    consumer.release(1)
    queue.reject(consumer.take_unacked(1))
    consumer.ack()
    host.turn.run()
    assert (dead.ready_count, queue.unacked_count, queue.ready_count) == (0, 0, 0)


@pytest.mark.parametrize("run_count", [1, RUNS_PER_SWEEP - 1, RUNS_PER_SWEEP])
def test_a_queue_that_is_deleted_while_it_is_marked_is_not_dispatched(
    host: VhostStand, run_count: int
) -> None:
    queue = host.declare("q", {"x-non-destructive": True})
    reader = host.consume(queue)
    for _ in range(run_count):
        host.publish(queue, b"a")
    host.accept(queue, b"last")
    host.vhost.delete_queue("q", None)
    host.turn.run()
    assert reader.is_told_of_end
    assert len(reader.bodies) >= run_count


def test_a_dead_letter_queue_that_cannot_be_made_takes_its_queue_along(host: VhostStand) -> None:
    host.vhost.max_queues = 1
    with pytest.raises(PreconditionFailed, match="queue limit in vhost '/'"):
        host.declare("q", {"x-dlq-auto": True})
    assert list(host.vhost.queues) == []
    assert host.vhost.queue_arguments == {}


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
    host: VhostStand, arguments: dict[str, object], how: str
) -> None:
    with all_freed(*PARTS):
        queue = host.declare("q", arguments)
        consumer = host.consume(queue, 2, is_browser=how == "browsed")
        for number in range(6):
            fields = {"k": f"v{number % 4}", "JMSXGroupID": f"g{number % 2}", "n": number}
            delay = {"x-delay": 10} if number == 5 else {}
            ttl_ms = 5000 if number == 4 else None
            host.publish(queue, b"%d" % number, ttl_ms=ttl_ms, headers={**fields, **delay})
        if how == "acked":
            consumer.ack()
        host.accept(queue, b"last", headers={"n": 9, "k": "v"})
        host.vhost.delete_queue("q", None)
        consumer.release()
        consumer.batches.clear()
        host.turn.run()
        host.timers._waiting.clear()  # cancelled ones, which an event loop forgets too
        del queue, consumer


# ------------------------------------------------------------------- many of a kind


def test_a_held_message_takes_its_place_in_a_long_log_without_moving_the_others(
    host: VhostStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = host.declare("q", {"x-non-destructive": True, "x-hold-on-publish": True})
    reader = host.consume(queue)
    host.publish(queue, b"held", headers={"x-delay": 10})
    host.publish(queue, *[b"%03d" % number for number in range(300)])
    order = queue.order
    assert isinstance(order, log.LogOrder)
    monkeypatch.setattr(log.LogOrder, "_replace", None)
    host.timers.advance(10)
    assert bodies(queue)[:2] == [b"held", b"000"]
    assert reader.bodies[-1] == b"held"
    late = host.consume(queue)
    assert late.bodies == bodies(queue)


def test_a_sorted_queue_keeps_nothing_of_what_its_consumers_have_taken(host: VhostStand) -> None:
    queue = host.declare("q", {"x-sort-key": "k", "x-max-length": 500})
    host.publish(queue, *[b"%04d" % number for number in range(600)], headers={"k": "same"})
    host.consume(queue, acknowledges=False)
    order = queue.order
    assert isinstance(order, SortedOrder)
    assert queue.ready_count == 0
    assert not order._arrivals


def test_a_browser_with_a_selector_leaves_the_queue_on_its_plain_lane(host: VhostStand) -> None:
    queue = host.declare("q")
    host.publish(queue, b"blue", headers={"colour": "blue"})
    browser = host.consume(queue, selector=RED, is_browser=True)
    host.publish(queue, b"red", headers={"colour": "red"})
    assert browser.bodies == [b"red"]
    assert not isinstance(queue.lane, selective.SelectiveLane)
    assert all(entry.state != PARKED for entry in queue.lane.ready_entries())
