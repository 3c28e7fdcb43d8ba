"""The selective lane: who may have what, in which order, and what waits for whom."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.broker.queues.dispatch import selective
from hareline.broker.queues.dispatch.classes import EVERYTHING, SelectorClass
from hareline.broker.queues.dispatch.consumer import Consumer
from hareline.broker.queues.dispatch.credit import UNLIMITED, CreditWindow
from hareline.broker.queues.dispatch.groups import Group, Groups, ParkedRun
from hareline.broker.queues.dispatch.plain import BATCH_BYTES, Dispatcher
from hareline.broker.queues.dispatch.ready_consumers import Level
from hareline.broker.queues.dispatch.selective import SelectiveDispatcher
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.queue import Queue
from hareline.broker.selectors.selector import compile_selector
from hareline.message import Message
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.reading_queue import ReadingQueue

from .round_robin import Receiver, deal_out

RED, BLUE = "colour = 'red'", "colour = 'blue'"
STANDARD = {"x-message-group-type": "standard"}
SHARED = {"x-message-group-type": "shared"}

COLOURS = {"r": "red", "b": "blue", "g": "green"}

#: What a message of ``SelectiveQueue.put`` with a body of two octets costs an output.
OCTETS = len(make_message(b"r1", headers={"colour": "red"}).content)


class ChannelConsumer(RecordingConsumer):
    """``channel`` takes down what all consumers of it were given, in order."""

    channel: list[bytes] | None = None

    @property
    def delivery_port(self) -> object:
        return self if self.channel is None else id(self.channel)

    def deliver(self, entries: list[QueueEntry]) -> int:
        count = super().deliver(entries)
        if self.channel is not None:
            self.channel += [entry.message.body for entry in entries[:count]]
        return count


class SelectiveQueue(ReadingQueue):
    """``put("r1", "b1")``: each message's colour goes by the first letter of its body."""

    def accept_all(self, *bodies: str, **headers: Any) -> None:
        for body in bodies:
            self.accept(body.encode(), headers={"colour": COLOURS[body[0]], **headers})

    def put(self, *bodies: str, **headers: Any) -> None:
        self.accept_all(*bodies, **headers)
        self.turn.run()

    def join(
        self,
        selector: str | None = None,
        prefetch_count: int = 0,
        *,
        since_ms: int = 0,
        channel: list[bytes] | None = None,
        **options: Any,
    ) -> RecordingConsumer:
        """A new consumer, and the end of the turn."""
        self.consumer_count += 1
        consumer = ChannelConsumer(
            self.queue,
            f"c{self.consumer_count}",
            prefetch_count=prefetch_count,
            selector=None if selector is None else compile_selector(selector),
            **options,
        )
        consumer.since_ms = since_ms
        consumer.channel = channel
        self.queue.add_consumer(consumer)
        self.turn.run()
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.queue.remove_consumer(consumer)
        self.turn.run()

    def is_selective(self) -> bool:
        return isinstance(self.queue.lane, SelectiveDispatcher)

    @property
    def lane(self) -> SelectiveDispatcher:
        lane = self.queue.lane
        assert isinstance(lane, SelectiveDispatcher)
        return lane

    @property
    def ready(self) -> list[str]:
        return [body.decode() for body in self.bodies]


@pytest.fixture
def plain() -> SelectiveQueue:
    return SelectiveQueue({})


def names(consumer: RecordingConsumer) -> list[str]:
    return [body.decode() for body in consumer.bodies]


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


def test_those_who_wait_longest_come_first_over_all_selectors(plain: SelectiveQueue) -> None:
    consumers = [plain.join(RED), plain.join("colour <> 'blue'"), plain.join(), plain.join(RED)]
    plain.put(*[f"r{number}" for number in range(8)])
    assert sorted(len(one.bodies) for one in consumers) == [2, 2, 2, 2]


def test_with_prefetch_1_those_who_wait_longest_come_first_too(plain: SelectiveQueue) -> None:
    red, all_ = plain.join(RED, 1), plain.join(None, 1)
    for number in range(20):
        plain.accept_all(f"r{number}")
        plain.turn.run()
        red.ack()
        all_.ack()
        plain.turn.run()
    assert len(red.bodies) == len(all_.bodies) == 10


def test_what_matches_nobody_holds_up_nobody(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    for number in range(20_000):
        plain.accept_all(f"b{number}")
    plain.put("r1")
    assert names(red) == ["r1"]
    assert plain.queue.ready_count == plain.lane.parked_count == 20_000
    plain.put("r2")
    assert names(red) == ["r1", "r2"]


def test_a_consumer_s_backlog_waits_for_its_credit_in_order(plain: SelectiveQueue) -> None:
    red, _ = plain.join(RED, 2), plain.join(BLUE)
    plain.put("r1", "r2", "r3", "b1", "r4", "r5")
    assert names(red) == ["r1", "r2"]
    red.ack(1)
    plain.turn.run()
    assert names(red) == ["r1", "r2", "r3"]
    red.ack()
    plain.turn.run()
    assert names(red) == ["r1", "r2", "r3", "r4", "r5"]


def test_a_released_message_goes_before_what_waits(plain: SelectiveQueue) -> None:
    red, _ = plain.join(RED, 2), plain.join(BLUE)
    plain.put("r1", "r2", "r3", "r4")
    first, second = red.take_unacked(2)
    red.restore_credit(2)
    red.restore_credit(2)
    plain.queue.settle(first)
    plain.queue.release([second])
    plain.turn.run()
    assert names(red) == ["r1", "r2", "r2", "r3"]
    assert red.redelivered == [False, False, True, False]


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
    assert all(entry.message.extras is None for entry in plain.queue.ready_entries())


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
    assert plain.lane._classes.of(plain.queue.ready_entries()[0])[0] == EVERYTHING


# ------------------------------------------------------------------------ selector classes


def test_a_new_selector_is_held_against_what_was_passed_over(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    plain.put("b1", "g1", "r1", "b2")
    assert plain.lane.parked_count == 3
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
    assert type(plain.queue.lane) is Dispatcher


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
    plain.queue.install(
        lane=SelectiveDispatcher(plain.queue, plain.queue.order, Groups("standard"))
    )
    assert red.class_bit != blue.class_bit
    plain.put("r1", "b1", "g2")
    assert (names(red), names(blue), plain.ready) == (["r1"], ["b1"], ["g1", "g2"])


# ----------------------------------------------------------------------------- limits


def test_octets_are_counted_for_each_that_is_planned(plain: SelectiveQueue) -> None:
    red = plain.join(RED, windows=(CreditWindow(0, 4),))
    plain.put("r1", "b1", "r2", "r3")
    assert names(red) == ["r1", "r2"]
    red.ack(1)
    plain.turn.run()
    assert names(red) == ["r1", "r2", "r3"]


def test_a_message_beyond_the_limit_in_octets_goes_out_alone(plain: SelectiveQueue) -> None:
    red = plain.join(RED, windows=(CreditWindow(0, 4),))
    plain.put("r1", "r2-too-large", "r3")
    assert names(red) == ["r1"]
    red.ack()
    plain.turn.run()
    assert names(red) == ["r1", "r2-too-large"]
    red.ack()
    plain.turn.run()
    assert names(red) == ["r1", "r2-too-large", "r3"]


def test_who_has_no_room_for_a_message_leaves_it_to_the_next(plain: SelectiveQueue) -> None:
    small, large = plain.join(RED, windows=(CreditWindow(0, 4),)), plain.join(RED, 3)
    plain.put("r1", "r2", "r3-large", "r4-large")
    assert (names(small), names(large)) == (["r1"], ["r2", "r3-large", "r4-large"])
    plain.put("r5")
    assert names(small) == ["r1"]
    small.ack()
    plain.turn.run()
    assert names(small) == ["r1", "r5"]


def test_consumers_of_a_channel_share_its_limit(plain: SelectiveQueue) -> None:
    window = CreditWindow(2)
    red, blue = plain.join(RED, windows=(window,)), plain.join(BLUE, windows=(window,))
    plain.put("r1", "b1", "r2", "b2", "r3")
    assert (names(red), names(blue)) == (["r1"], ["b1"])
    blue.ack()
    plain.turn.run()
    assert len(red.bodies + blue.bodies) == 3
    red.ack()
    blue.ack()
    plain.turn.run()
    assert (
        sorted(names(red) + names(blue)) == ["b1", "b2", "r1", "r2", "r3"][: window.used_count + 3]
    )
    assert window.used_count == len(red.unacked) + len(blue.unacked) == 2


def test_a_channel_s_deliveries_keep_the_order_of_the_queue(plain: SelectiveQueue) -> None:
    channel: list[bytes] = []
    for selector in (RED, BLUE, None):
        plain.join(selector, channel=channel)
    other = plain.join(RED)
    plain.put(*[f"{letter}{number:03d}" for number in range(50) for letter in "rrbg"])
    numbers = [int(body[1:]) for body in channel]
    assert numbers == sorted(numbers)
    assert len(channel) + len(other.bodies) == 200


def test_nobody_is_handed_over_what_its_output_has_no_room_for(plain: SelectiveQueue) -> None:
    red, blue = plain.join(RED), plain.join(BLUE)
    red.room = 3 * OCTETS
    plain.put(*[f"{letter}{number}" for number in range(9) for letter in "rb"])
    assert names(red) == ["r0", "r1", "r2", "r3"]  # with the last one it was full
    assert len(blue.bodies) == 9
    assert red.is_suspended
    assert plain.ready == ["r4", "r5", "r6", "r7", "r8"]
    red.drain(OCTETS)
    plain.turn.run()
    assert names(red) == ["r0", "r1", "r2", "r3", "r4", "r5"]
    red.drain()
    plain.turn.run()
    assert names(red) == [f"r{number}" for number in range(9)]
    assert plain.queue.unacked_count == 18


def test_a_full_output_at_the_start_costs_nothing(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    red.fill()
    all_ = plain.join()
    plain.put("r1", "r2")
    assert names(all_) == ["r1", "r2"]
    assert not red.is_active


class ShortConsumer(ChannelConsumer):
    """Takes one entry of each hand-over, against what its ``room_bytes`` says."""

    def deliver(self, entries: list[QueueEntry]) -> int:
        super().deliver(entries[:1])
        return 1


@pytest.mark.parametrize("arguments", [{}, STANDARD, SHARED], ids=["none", "standard", "shared"])
def test_what_was_not_taken_is_planned_again_in_order(arguments: dict[str, object]) -> None:
    queue = SelectiveQueue(arguments)
    short = ShortConsumer(queue.queue, "short", prefetch_count=3, windows=(CreditWindow(0, 100),))
    short.selector = compile_selector("colour <> 'blue'")
    queue.queue.add_consumer(short)
    queue.put("g1", "g2", "b1", "g3", "g4", "g5", JMSXGroupID="one")
    assert names(short) == ["g1", "g2", "g3"]
    assert short.credit == 0
    assert short.windows[0].used_bytes == 6
    assert (queue.queue.ready_count, queue.queue.unacked_count) == (3, 3)
    assert queue.queue.delivered_count == 3
    assert queue.ready == ["b1", "g4", "g5"]


@pytest.mark.parametrize("arguments", [{}, STANDARD, SHARED], ids=["none", "standard", "shared"])
def test_what_comes_back_on_the_way_goes_before_what_is_still_to_be_planned(
    arguments: dict[str, object],
) -> None:
    """Both are on one channel, so that each change between them hands over."""
    queue = SelectiveQueue(arguments)
    channel: list[bytes] = []
    red = ShortConsumer(queue.queue, "red", selector=compile_selector(RED))
    blue = ShortConsumer(queue.queue, "blue", selector=compile_selector(BLUE))
    for consumer in (red, blue):
        consumer.channel = channel
        queue.queue.add_consumer(consumer)
    wanted = [f"{letter}{number}" for number in range(10) for letter in "rrrbb"]
    for name in wanted:
        queue.accept_all(name, JMSXGroupID=name[0])
    queue.turn.run()
    assert names(red) == [name for name in wanted if name[0] == "r"]
    assert names(blue) == [name for name in wanted if name[0] == "b"]
    assert queue.queue.unacked_count == queue.queue.delivered_count == 50


def test_what_is_offered_may_change_while_others_are_handed_theirs() -> None:
    """``full`` does not acknowledge: handing over what it has frees its group."""
    queue = SelectiveQueue(SHARED)
    channel: list[bytes] = []
    holder = queue.join(None, 2)
    queue.put("r1", JMSXGroupID="one")
    queue.put("r2", JMSXGroupID="two")
    first = queue.join(RED, acknowledges=False, channel=channel)
    second = queue.join(BLUE, acknowledges=False, channel=channel)
    queue.put("r3", "b4", "r5", JMSXGroupID="one")
    queue.put("b6", "r7", "b8", JMSXGroupID="two")
    assert (names(first), names(second)) == ([], [])
    assert queue.lane.parked_count == 6
    queue.leave(holder)
    holder.ack()
    queue.turn.run()
    assert names(first) == ["r3", "r5", "r7"]
    assert names(second) == ["b4", "b6", "b8"]
    assert queue.queue.ready_count == 0


def test_a_consumer_that_leaves_waits_for_no_window(plain: SelectiveQueue) -> None:
    window = CreditWindow(1)
    red, blue = plain.join(RED, windows=(window,)), plain.join(BLUE, windows=(window,))
    plain.put("r1", "b1")
    assert list(window.waiting) == [blue]
    plain.leave(blue)
    assert not window.waiting
    red.ack()
    plain.turn.run()
    assert (names(red), names(blue), plain.ready) == (["r1"], [], ["b1"])


def test_many_are_handed_over_in_few_batches(plain: SelectiveQueue) -> None:
    red, blue = plain.join(RED), plain.join(BLUE)
    plain.put(*[f"{letter}{number}" for number in range(700) for letter in "rb"])
    assert len(red.bodies) == len(blue.bodies) == 700
    assert len(red.batch_sizes) == len(blue.batch_sizes) == 2


def test_batches_of_large_messages_are_small(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    plain.put(*["r".ljust(100_000, ".")] * 10)
    assert max(red.batch_sizes) * 100_000 <= BATCH_BYTES + 100_000
    assert len(red.bodies) == 10


# --------------------------------------------------------------------- a turn's share


def test_one_turn_delivers_no_more_than_its_share(
    plain: SelectiveQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selective, "ENTRIES_PER_TURN", 100)
    red = plain.join(RED)
    plain.accept_all(*["r1"] * 250)
    for expected in (100, 200, 250):
        plain.turn.step()
        assert len(red.bodies) == expected
    assert not plain.turn.is_armed


def test_one_turn_looks_at_no_more_than_its_share(
    plain: SelectiveQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selective, "LOOKS_PER_TURN", 128)
    red = plain.join(RED)
    plain.accept_all(*["b1"] * 300, "r1")
    plain.turn.step()
    assert 128 <= plain.lane.parked_count < 128 + selective.TAKEN_AT_ONCE
    assert plain.turn.is_armed
    assert plain.turn.run() >= 1
    assert names(red) == ["r1"]


def test_parked_entries_are_part_of_the_share_too(
    plain: SelectiveQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selective, "ENTRIES_PER_TURN", 10)
    _, blue = plain.join(RED), plain.join(BLUE)
    blue.fill()
    plain.put(*["b1"] * 25)
    blue.drain()
    for expected in (10, 20, 25):
        plain.turn.step()
        assert len(blue.bodies) == expected


# --------------------------------------------------------------------------- priorities


def test_the_higher_priority_is_served_while_it_has_credit(plain: SelectiveQueue) -> None:
    low, high = plain.join(RED), plain.join(RED, 2, priority=1)
    plain.put("r1", "r2", "r3")
    assert (names(high), names(low)) == (["r1", "r2"], ["r3"])


def test_a_high_priority_has_nothing_of_what_is_not_for_it(plain: SelectiveQueue) -> None:
    low, high = plain.join(), plain.join(RED, priority=1)
    plain.put("b1", "r1", "b2", "r2")
    assert (names(high), names(low)) == (["r1", "r2"], ["b1", "b2"])


def test_the_higher_priority_is_offered_first_what_was_parked(plain: SelectiveQueue) -> None:
    low, high = plain.join(RED, 1), plain.join(RED, 1, priority=1)
    plain.join(BLUE)
    plain.put("r1", "r2", "r3", "r4")
    assert (names(high), names(low)) == (["r1"], ["r2"])
    low.ack()
    high.ack()
    plain.turn.run()
    assert (names(high), names(low)) == (["r1", "r3"], ["r2", "r4"])


def test_priorities_that_nobody_has_any_more_are_forgotten(plain: SelectiveQueue) -> None:
    plain.join(RED)
    for priority in range(50):
        plain.leave(plain.join(BLUE, priority=priority))
    assert [level.priority for level in plain.lane._ready.levels] == [0]


def test_of_two_that_may_go_on_each_gets_its_best_first() -> None:
    """In an order by priority, what comes up may lie between what waits for one and the other."""
    queue = SelectiveQueue({"x-max-priority": 9})
    red, blue = queue.join("red", 2), queue.join("blue", 2)
    queue.join("colour = 'none'")
    queue.publish(b"1", b"2", headers={"blue": True}, priority=9)
    queue.publish(b"3", b"4", headers={"red": True}, priority=9)
    queue.publish(b"waits for blue", headers={"blue": True}, priority=9)
    queue.publish(b"waits for red", headers={"red": True}, priority=1)
    assert queue.lane.parked_count == 2
    red.ack()
    blue.ack()
    queue.publish(b"between", headers={"red": True, "blue": True}, priority=5)
    assert blue.bodies[:3] == [b"1", b"2", b"waits for blue"]
    received = red.bodies[2:] + blue.bodies[2:]
    assert sorted(received) == [b"between", b"waits for blue", b"waits for red"]
    if b"between" in red.bodies:
        assert red.bodies[2:] == [b"between", b"waits for red"]


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


# ---------------------------------------------------------------------------- basic.get


def test_a_get_knows_no_consumer_s_selector(plain: SelectiveQueue) -> None:
    plain.join(RED)
    plain.put("b1", "b2")
    assert plain.lane.parked_count == 2
    entry = plain.queue.get()
    assert entry is not None
    assert entry.message.body == b"b1"
    assert plain.queue.ready_count == plain.queue.unacked_count == 1
    plain.queue.release([entry])
    assert plain.ready == ["b1", "b2"]


def test_a_get_has_what_the_default_filters_let_through() -> None:
    filters = {"f": {"x-filter-jms-selector": [RED]}}
    queue = SelectiveQueue({"x-default-filters": filters})
    queue.put("b1", "r1", "b2", "r2")
    for expected in (b"r1", b"r2"):
        entry = queue.queue.get()
        assert entry is not None
        assert entry.message.body == expected
        queue.queue.settle(entry)
    assert queue.queue.get() is None
    assert queue.ready == ["b1", "b2"]
    assert queue.is_selective()  # though there is no consumer
    assert names(queue.join(BLUE)) == ["b1", "b2"]


def test_a_get_takes_the_first_of_what_waits_and_what_is_new() -> None:
    queue = SelectiveQueue({"x-max-priority": 9})
    queue.join(RED)
    queue.publish(b"low", headers={}, priority=1)
    assert queue.lane.parked_count == 1
    queue.accept(b"high", headers={}, priority=9)
    bodies = [entry.message.body for _ in range(2) if (entry := queue.queue.get())]
    assert bodies == [b"high", b"low"]


# ------------------------------------------------------------------- entries that leave


def test_a_parked_entry_may_be_dropped_and_the_books_are_right(plain: SelectiveQueue) -> None:
    red, blue = plain.join(RED), plain.join(BLUE, 1)
    plain.put("b1", "b2", "b3", "g1", "r1")
    assert plain.lane.parked_count == 3
    plain.queue.drop(plain.queue.ready_entries()[:1], "expired")
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
    assert plain.queue.ready_count == plain.queue.ready_bytes == plain.lane.parked_count == 0
    red.drain()
    plain.put("r3")
    assert names(red) == ["r1", "r3"]


def test_the_least_of_a_fifo_is_the_oldest_wherever_it_waits(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    assert plain.queue.least_ready() is None
    plain.put("b1", "b2")
    red.fill()
    plain.put("r1")
    least = plain.queue.least_ready()
    assert least is not None
    assert least.message.body == b"b1"
    plain.queue.drop(plain.queue.ready_entries()[:2], "maxlen")
    plain.put("r2")  # nobody can take anything now, so it is not looked at
    assert len(plain.queue.order) == 1
    least = plain.queue.least_ready()
    assert least is not None
    assert least.message.body == b"r1"


def test_a_time_to_live_ends_for_what_waits_too(plain: SelectiveQueue) -> None:
    queue = SelectiveQueue({"x-message-ttl": 1000})
    red = queue.join(RED)
    queue.put("b1", "r1")
    assert queue.ready == ["b1"]
    queue.timers.advance(2000)
    assert (queue.ready, names(red)) == ([], ["r1"])
    assert queue.lane.parked_count == 0


@pytest.mark.parametrize(
    "arguments",
    [{}, STANDARD, SHARED, {**STANDARD, "x-max-length": 50}],
    ids=["none", "standard", "shared", "limited"],
)
def test_a_deleted_queue_is_freed_and_not_by_the_collector(arguments: dict[str, object]) -> None:
    parts = (SelectiveDispatcher, Group, Groups, ParkedRun, Level, SelectorClass)
    kinds = (*parts, Queue, QueueEntry, Message, RecordingConsumer)

    def alive() -> Counter[str]:
        return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, kinds))

    gc.collect()
    gc.disable()
    try:
        before = alive()  # what other tests keep for ever
        queue = SelectiveQueue(arguments)
        red, blue = queue.join(RED, 2), queue.join(BLUE)
        queue.put(
            *[f"{letter}{number}" for number in range(9) for letter in "rbg"], JMSXGroupID="x"
        )
        queue.put("r1", "b1", "g1")
        queue.queue.drop(queue.queue.ready_entries()[:2], "expired")
        assert queue.lane.parked_count
        queue.vhost.delete_queue("q", None)
        for consumer in (red, blue):
            consumer.ack(1)
            consumer.release()
            consumer.batches.clear()  # the test's own notes
        queue.turn.run()
        del queue, red, blue, consumer
        assert alive() == before
    finally:
        gc.enable()


# ------------------------------------------------------------ held against round robin


@given(
    wishes=st.lists(
        st.tuples(
            st.sampled_from([UNLIMITED, UNLIMITED, 1, 2, 3, 7, 20]),
            st.sampled_from([0, 0, 0, 1, -3]),
            st.sampled_from([0, 0, 0, 1, 30, 500]),
        ),
        min_size=1,
        max_size=6,
    ),
    sizes=st.lists(st.sampled_from([0, 1, 6, 6, 6, 40, 300]), min_size=1, max_size=100),
    at_once=st.sampled_from([1, 3, 64]),
    batch=st.sampled_from([1, 4, 512]),
)
def test_where_all_may_have_everything_it_is_round_robin(
    wishes: list[tuple[int, int, int]], sizes: list[int], at_once: int, batch: int
) -> None:
    queue = SelectiveQueue(STANDARD)
    consumers: list[RecordingConsumer] = []
    receivers: list[Receiver] = []
    for credit, priority, octets in wishes:
        windows = [(CreditWindow(0, octets),) if octets else () for _ in range(2)]
        prefetch = 0 if credit == UNLIMITED else credit
        consumers.append(queue.join(None, prefetch, priority=priority, windows=windows[0]))
        receivers.append(Receiver(credit=credit, priority=priority, windows=windows[1]))
    bodies = [(b"%05d" % number).ljust(size, b".") for number, size in enumerate(sizes)]
    queue.accept(*bodies)
    left = deal_out(receivers, [(body, len(make_message(body).content)) for body in bodies])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selective, "TAKEN_AT_ONCE", at_once)
        patch.setattr(selective, "BATCH_ENTRIES", batch)
        queue.turn.run()
    assert [consumer.bodies for consumer in consumers] == [one.bodies for one in receivers]
    assert queue.bodies == left
