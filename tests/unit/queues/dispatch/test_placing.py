"""Which consumer gets which entry of the selective lane, within limits and shares of a turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.core.credit import UNLIMITED, CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.lane import BATCH_BYTES
from hareline.queues.dispatch import placing
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message

from .round_robin import Receiver, deal_out
from .selective_queue import BLUE, RED, SHARED, STANDARD, SelectiveQueue, names

#: What a message of ``SelectiveQueue.put`` with a body of two octets costs an output.
OCTETS = len(make_message(b"r1", headers={"colour": "red"}).content)


@pytest.fixture
def plain() -> SelectiveQueue:
    return SelectiveQueue({})


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
    assert plain.queue.ready_count == plain.lane.parking.count == 20_000
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


class ShortConsumer(RecordingConsumer):
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
    assert queue.lane.parking.count == 6
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


def test_many_are_handed_over_in_few_batches(
    plain: SelectiveQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "perf_counter", lambda: 0.0)  # the share of a turn never ends
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


def test_one_turn_delivers_no_more_than_its_share(plain: SelectiveQueue) -> None:
    red = plain.join(RED)
    plain.lane.share = 100
    plain.accept_all(*["r1"] * 250)
    for expected in (100, 200, 250):
        plain.turn.step()
        assert len(red.bodies) == expected
    assert not plain.turn.is_armed


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_one_turn_looks_at_no_more_than_its_share(
    plain: SelectiveQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "LOOKS_PER_TURN", 128)
    red = plain.join(RED)
    plain.accept_all(*["b1"] * 300, "r1")
    plain.turn.step()
    assert 128 <= plain.lane.parking.count < 128 + placing.TAKEN_AT_ONCE
    assert plain.turn.is_armed
    assert plain.turn.run() >= 1
    assert names(red) == ["r1"]


def test_parked_entries_are_part_of_the_share_too(plain: SelectiveQueue) -> None:
    _, blue = plain.join(RED), plain.join(BLUE)
    plain.lane.share = 10
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


def test_of_two_that_may_go_on_each_gets_its_best_first() -> None:
    """In an order by priority, what comes up may lie between what waits for one and the other."""
    queue = SelectiveQueue({"x-max-priority": 9})
    red, blue = queue.join("red", 2), queue.join("blue", 2)
    queue.join("colour = 'none'")
    queue.publish(b"1", b"2", headers={"blue": True}, priority=9)
    queue.publish(b"3", b"4", headers={"red": True}, priority=9)
    queue.publish(b"waits for blue", headers={"blue": True}, priority=9)
    queue.publish(b"waits for red", headers={"red": True}, priority=1)
    assert queue.lane.parking.count == 2
    red.ack()
    blue.ack()
    queue.publish(b"between", headers={"red": True, "blue": True}, priority=5)
    assert blue.bodies[:3] == [b"1", b"2", b"waits for blue"]
    received = red.bodies[2:] + blue.bodies[2:]
    assert sorted(received) == [b"between", b"waits for blue", b"waits for red"]
    if b"between" in red.bodies:
        assert red.bodies[2:] == [b"between", b"waits for red"]


# ---------------------------------------------------------------------------- basic.get


def test_a_get_knows_no_consumer_s_selector(plain: SelectiveQueue) -> None:
    plain.join(RED)
    plain.put("b1", "b2")
    assert plain.lane.parking.count == 2
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
    assert queue.lane.parking.count == 1
    queue.accept(b"high", headers={}, priority=9)
    bodies = [entry.message.body for _ in range(2) if (entry := queue.queue.get())]
    assert bodies == [b"high", b"low"]


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
        patch.setattr(placing, "TAKEN_AT_ONCE", at_once)
        patch.setattr(placing, "BATCH_ENTRIES", batch)
        queue.turn.run()
    assert [consumer.bodies for consumer in consumers] == [one.bodies for one in receivers]
    assert queue.bodies == left
