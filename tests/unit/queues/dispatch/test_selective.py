"""The selective lane: selectors, their classes, changes of lane, entries that leave."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from hareline.message import Message
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.groups import Group, Groups, ParkedRun
from hareline.queues.dispatch.classes import EVERYTHING, SelectorClass
from hareline.queues.dispatch.plain import PlainLane
from hareline.queues.dispatch.ready_consumers import Level
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.freed import all_freed

from .selective_queue import BLUE, RED, SHARED, STANDARD, SelectiveQueue, names


@pytest.fixture
def plain() -> SelectiveQueue:
    return SelectiveQueue({})


# -------------------------------------------------------------------------- selectors


def test_each_gets_what_its_selector_is_true_of_and_the_rest_stays(plain: SelectiveQueue) -> None:
    red, blue = plain.join(RED), plain.join(BLUE)
    plain.put("r1", "b1", "g1", "r2", "b2")
    assert (names(red), names(blue), plain.ready) == (["r1", "r2"], ["b1", "b2"], ["g1"])


def test_a_consumer_without_a_selector_takes_what_is_left_and_its_share(
    plain: SelectiveQueue,
) -> None:
    red, all_ = plain.join(RED), plain.join()
    plain.put("r1", "g1", "r2", "b1", "r3", "r4")
    assert names(red) == ["r1", "r2", "r3"]
    assert names(all_) == ["g1", "b1", "r4"]


def test_a_selector_may_ask_whether_a_message_was_delivered_before(plain: SelectiveQueue) -> None:
    again = plain.join("JMSRedelivered AND colour = 'red'")
    first = plain.join("NOT JMSRedelivered", 2)
    plain.put("r1", "b1", "r2")
    assert (names(again), names(first)) == ([], ["r1", "b1"])
    first.release(2)
    plain.turn.run()
    assert names(again) == ["r1"]
    assert names(first) == ["r1", "b1", "r2"]
    assert plain.ready == ["b1"]
    assert all(entry.message.extras is None for entry in plain.queue.lane.ready_entries())


def test_messages_from_before_are_not_for_who_wants_new_ones(plain: SelectiveQueue) -> None:
    start = plain.timers.clock.now_ms
    plain.accept_all("r1")
    plain.timers.advance(10)
    plain.accept_all("r2", "b1")
    plain.turn.run()
    late, red = plain.join(since_ms=start + 10), plain.join(RED, since_ms=start + 1)
    assert names(late) + names(red) == ["r2", "b1"]
    assert plain.ready == ["r1"]
    plain.put("r3", "r4")
    assert sorted(names(late) + names(red)) == ["b1", "r2", "r3", "r4"]
    assert plain.lane._classes.of(plain.queue.lane.ready_entries()[0])[0] == EVERYTHING


# ------------------------------------------------------------------------ selector classes


def test_a_new_selector_is_held_against_what_was_passed_over(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    plain.put("b1", "g1", "r1", "b2")
    assert plain.lane.parking.count == 3
    blue = plain.join(BLUE)
    assert names(blue) == ["b1", "b2"]
    all_ = plain.join()
    assert (names(all_), names(red)) == (["g1"], ["r1"])


def test_a_selector_that_comes_back_finds_what_waited_for_it(plain: SelectiveQueue) -> None:
    red, blue = plain.join(RED), plain.join(BLUE)
    plain.leave(blue)
    plain.put("b1", "r1", "b2")
    again = plain.join(BLUE)
    assert again.class_bit == blue.class_bit
    assert (names(red), names(again)) == (["r1"], ["b1", "b2"])


def test_a_consumer_that_was_in_this_lane_for_a_while_is_freed_when_it_leaves(
    plain: SelectiveQueue,
) -> None:
    gc.collect()
    gc.disable()
    try:
        leaves, stays = plain.join(), plain.join()
        plain.leave(plain.join(RED))
        assert not plain.is_selective()
        leaver = ref(leaves)
        plain.leave(leaves)
        del leaves
        assert leaver() is None
        plain.put("r1")
        assert names(stays) == ["r1"]
    finally:
        gc.enable()


def test_consumers_of_one_selector_share_a_class_in_turn(plain: SelectiveQueue) -> None:
    first, second = plain.join(RED), plain.join(RED)
    assert first.class_bit == second.class_bit
    plain.put("r1", "r2", "b1", "r3")
    assert (names(first), names(second)) == (["r1", "r3"], ["r2"])


def test_classes_that_nobody_needs_make_room_for_new_ones(plain: SelectiveQueue) -> None:
    stays = plain.join(RED)
    for number in range(200):
        other = plain.join(f"number = {number}")
        assert other.class_bit <= 8
        plain.accept_all("g1", number=number)
        plain.turn.run()
        assert names(other) == ["g1"]
        plain.leave(other)
        assert len(plain.lane._classes._classes) <= 2
    plain.put("r1")
    assert names(stays) == ["r1"]


def test_many_selectors_at_once_each_have_their_own(plain: SelectiveQueue) -> None:
    """More than an integer of the machine has bits."""
    consumers = [plain.join(f"number = {number}") for number in range(100)]
    for number in range(100):
        plain.accept_all("g1", number=number)
    plain.turn.run()
    assert all(names(consumer) == ["g1"] for consumer in consumers)


# ---------------------------------------------------------------------- change of lanes


def test_a_queue_is_selective_while_a_consumer_is(plain: SelectiveQueue) -> None:
    plain.join()
    assert not plain.is_selective()
    red, since = plain.join(RED), plain.join(since_ms=1)
    plain.leave(red)
    assert plain.is_selective()
    plain.leave(since)
    assert not plain.is_selective()
    assert type(plain.queue.lane) is PlainLane


def test_what_waited_is_back_in_order_for_the_others(plain: SelectiveQueue) -> None:
    red, all_ = plain.join(RED), plain.join(None, 1)
    plain.put("r1", "b1", "b2", "b3", "r2")
    assert (names(red), names(all_)) == (["r1", "r2"], ["b1"])
    plain.leave(red)
    red.release()
    plain.turn.run()
    assert plain.ready == ["r1", "b2", "b3", "r2"]
    for _ in range(4):
        all_.ack()
        plain.turn.run()
    assert names(all_) == ["b1", "r1", "b2", "b3", "r2"]


def test_a_change_of_lanes_leaves_everybody_s_credit_as_it_was(plain: SelectiveQueue) -> None:
    window = CreditWindow(0, 4)
    exhausted, limited = plain.join(None, 1), plain.join(windows=(window,))
    full, willing = plain.join(), plain.join(None, 2)
    full.fill()
    plain.put("g1", "g2", "g3", "g4", "g5", "g6")
    taken = [len(one.bodies) for one in (exhausted, limited, full, willing)]
    assert taken == [1, 2, 0, 2]
    red = plain.join(RED)
    assert plain.is_selective()
    assert [len(one.bodies) for one in (exhausted, limited, full, willing)] == taken
    limited.ack(1)
    plain.turn.run()
    assert names(limited)[-1] == "g6"
    plain.put("g7", "g8")
    full.drain()
    plain.turn.run()
    assert names(full) == ["g7", "g8"]
    plain.leave(red)
    assert not plain.is_selective()
    plain.put("g9")
    assert names(full)[-1] == "g9"
    exhausted.ack()
    full.fill()
    plain.put("g10")
    assert names(exhausted) == ["g1", "g10"]


def test_consumers_with_selectors_can_be_taken_over_by_another_lane(plain: SelectiveQueue) -> None:
    """As when groups are asked for later: the classes of the old lane mean nothing here."""
    red, blue = plain.join(RED), plain.join(BLUE)
    plain.put("g1")
    plain.queue.install(lane=SelectiveLane(plain.queue, plain.queue.order, Groups("standard")))
    assert red.class_bit != blue.class_bit
    plain.put("r1", "b1", "g2")
    assert (names(red), names(blue), plain.ready) == (["r1"], ["b1"], ["g1", "g2"])


def test_priorities_that_nobody_has_any_more_are_forgotten(plain: SelectiveQueue) -> None:
    plain.join(RED)
    for priority in range(50):
        plain.leave(plain.join(BLUE, priority=priority))
    assert [level.priority for level in plain.lane._ready.levels] == [0]


def test_only_one_is_active_and_has_a_selector() -> None:
    queue = SelectiveQueue({"x-single-active-consumer": True})
    active, successor = queue.join(RED), queue.join()
    queue.put("b1", "r1", "b2")
    assert (names(active), names(successor)) == (["r1"], [])
    queue.leave(active)
    assert names(successor) == ["b1", "b2"]
    active.release()
    queue.turn.run()
    assert names(successor) == ["b1", "b2", "r1"]


def test_a_successor_with_a_selector_takes_its_part_of_what_waits() -> None:
    queue = SelectiveQueue({**STANDARD, "x-single-active-consumer": True})
    active, successor = queue.join(RED, 1), queue.join(BLUE)
    queue.put("r1", "b1", "r2", JMSXGroupID="one")
    active.ack()
    queue.turn.run()
    assert (names(active), names(successor)) == (["r1", "r2"], [])
    queue.leave(active)
    assert names(successor) == []
    active.ack()
    queue.turn.run()
    assert names(successor) == ["b1"]


# ------------------------------------------------------------------- entries that leave


def test_a_parked_entry_may_be_dropped_and_the_books_are_right(plain: SelectiveQueue) -> None:
    red, blue = plain.join(RED), plain.join(BLUE, 1)
    plain.put("b1", "b2", "b3", "g1", "r1")
    assert plain.lane.parking.count == 3
    plain.queue.drop(plain.queue.lane.ready_entries()[:1], "expired")
    assert plain.ready == ["b3", "g1"]
    assert (plain.queue.ready_count, plain.queue.ready_bytes) == (2, 4)
    blue.ack()
    plain.turn.run()
    assert (names(red), names(blue)) == (["r1"], ["b1", "b3"])


def test_a_purge_takes_the_parked_ones_too_in_order(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    plain.put("b1", "g1", "r1")
    red.fill()
    plain.put("r2", "b2")
    assert plain.ready == ["b1", "g1", "r2", "b2"]
    assert [entry.message.body for entry in plain.queue._take_all()] == [b"b1", b"g1", b"r2", b"b2"]
    assert plain.queue.ready_count == plain.queue.ready_bytes == plain.lane.parking.count == 0
    red.drain()
    plain.put("r3")
    assert names(red) == ["r1", "r3"]


def test_the_least_of_a_fifo_is_the_oldest_wherever_it_waits(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    assert plain.queue.lane.least() is None
    plain.put("b1", "b2")
    red.fill()
    plain.put("r1")
    least = plain.queue.lane.least()
    assert least is not None
    assert least.message.body == b"b1"
    plain.queue.drop(plain.queue.lane.ready_entries()[:2], "maxlen")
    plain.put("r2")  # nobody can take anything now, so it is not looked at
    assert len(plain.queue.order) == 1
    least = plain.queue.lane.least()
    assert least is not None
    assert least.message.body == b"r1"


def test_a_time_to_live_ends_for_what_waits_too(plain: SelectiveQueue) -> None:
    queue = SelectiveQueue({"x-message-ttl": 1000})
    red = queue.join(RED)
    queue.put("b1", "r1")
    assert queue.ready == ["b1"]
    queue.timers.advance(2000)
    assert (queue.ready, names(red)) == ([], ["r1"])
    assert queue.lane.parking.count == 0


@pytest.mark.parametrize(
    "arguments",
    [{}, STANDARD, SHARED, {**STANDARD, "x-max-length": 50}],
    ids=["none", "standard", "shared", "limited"],
)
def test_a_deleted_queue_is_freed_and_not_by_the_collector(arguments: dict[str, object]) -> None:
    parts = (SelectiveLane, Group, Groups, ParkedRun, Level, SelectorClass)
    kinds = (*parts, Queue, QueueEntry, Message, RecordingConsumer)

    with all_freed(*kinds):
        queue = SelectiveQueue(arguments)
        red, blue = queue.join(RED, 2), queue.join(BLUE)
        queue.put(
            *[f"{letter}{number}" for number in range(9) for letter in "rbg"], JMSXGroupID="x"
        )
        queue.put("r1", "b1", "g1")
        queue.queue.drop(queue.queue.lane.ready_entries()[:2], "expired")
        assert queue.lane.parking.count
        queue.vhost.delete_queue("q", None)
        for consumer in (red, blue):
            consumer.ack(1)
            consumer.release()
            consumer.batches.clear()  # the test's own notes
        queue.turn.run()
        del queue, red, blue, consumer
