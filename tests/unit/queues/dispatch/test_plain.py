"""The plain lane: round robin exactly, in batches; which consumers stand in a ring."""

from __future__ import annotations

import dataclasses
from random import Random
from time import process_time
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.core.consumer_book import LiveLimit
from hareline.queues.core.credit import UNLIMITED, CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.lane import BATCH_BYTES, ENTRIES_PER_TURN
from hareline.queues.dispatch import plain
from hareline.queues.dispatch.rings import Rings
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from hareline.selectors.selector import Selector, compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

from ..conftest import Publish
from .round_robin import Receiver, deal_out


def numbers(count: int) -> list[bytes]:
    """Bodies of one size."""
    return [b"%06d" % number for number in range(count)]


#: What one of these costs a consumer's output.
NUMBER_OCTETS = len(make_message(b"%06d" % 0).content)


def consume(queue: Queue, *limits: int) -> list[RecordingConsumer]:
    """One consumer for each prefetch count; 0 is unlimited."""
    consumers = [
        RecordingConsumer(queue, f"c{index}", prefetch_count=limit)
        for index, limit in enumerate(limits)
    ]
    for consumer in consumers:
        queue.add_consumer(consumer)
    return consumers


def rings_of(queue: Queue) -> Rings:
    lane = queue.lane
    assert isinstance(lane, plain.PlainLane)
    return lane._rings


# ------------------------------------------------------------------------ round robin


def test_a_lone_consumer_gets_everything_in_order_in_few_batches(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (consumer,) = consume(queue, 0)
    publish(*numbers(1000))
    turn.run()
    assert consumer.bodies == numbers(1000)
    assert consumer.batch_sizes == [512, 488]


def test_consumers_with_credit_are_served_in_turn(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    first, second, third = consume(queue, 0, 0, 0)
    publish(*numbers(100))
    turn.run()
    assert first.bodies == numbers(100)[0::3]
    assert second.bodies == numbers(100)[1::3]
    assert third.bodies == numbers(100)[2::3]


def test_whole_rounds_are_handed_over_in_one_call_each(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, 0, 0, 0)
    publish(*numbers(102))
    turn.run()
    assert [consumer.batch_sizes for consumer in consumers] == [[34], [34], [34]]


def consume_on(queue: Queue, channels: list[list[bytes]]) -> list[RecordingConsumer]:
    """A consumer of each of these channels."""
    consumers = consume(queue, *[0] * len(channels))
    for consumer, channel in zip(consumers, channels, strict=True):
        consumer.channel = channel
    return consumers


class CountingQueue(Queue):
    """``acquired``: how many entries it was asked for, each time."""

    def __init__(self, turn: ManualTurn) -> None:
        super().__init__("q", FifoOrder(), turn)
        self.acquired: list[int] = []

    def acquire(self, count: int) -> list[QueueEntry]:
        self.acquired.append(count)
        return super().acquire(count)


@pytest.fixture
def queue(turn: ManualTurn) -> CountingQueue:
    return CountingQueue(turn)


def test_consumers_of_one_port_are_served_in_the_order_of_the_queue_from_one_batch(
    queue: CountingQueue, turn: ManualTurn, publish: Publish
) -> None:
    channel: list[bytes] = []
    consumers = consume_on(queue, [channel, [], channel])
    publish(*numbers(99))
    turn.run()
    assert [consumer.bodies for consumer in consumers] == [numbers(99)[at::3] for at in range(3)]
    assert channel == [body for at, body in enumerate(numbers(99)) if at % 3 != 1]
    assert queue.acquired == [99]


def test_more_consumers_than_entries_get_one_each_from_one_batch(
    queue: CountingQueue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume_on(queue, [[]] * 700)
    publish(*numbers(1000))
    turn.run()
    assert [consumer.bodies for consumer in consumers] == [
        numbers(1000)[at::700] for at in range(700)
    ]
    assert consumers[0].channel == numbers(1000)
    assert queue.acquired == [512, 488]


def test_all_consumers_that_are_full_are_left_out_at_once(
    queue: CountingQueue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, *[0] * 400)
    for consumer in consumers[1::2]:
        consumer.room = -1
    publish(*numbers(400))
    turn.run()
    assert [consumer.bodies for consumer in consumers[0::2]] == [
        numbers(400)[at::200] for at in range(200)
    ]
    assert not any(consumer.bodies or consumer.is_active for consumer in consumers[1::2])
    assert queue.acquired == [400]


def test_a_round_that_does_not_fit_is_as_long_as_it_can_be(
    queue: CountingQueue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, *[0] * 100)
    for consumer in consumers:
        consumer.room = 40 * NUMBER_OCTETS
    publish(*numbers(100))
    turn.run()
    assert [consumer.bodies for consumer in consumers] == [[body] for body in numbers(100)]
    assert 1 <= len(queue.acquired) <= 4


def test_whose_turn_it_is_is_remembered_from_turn_to_turn(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, 0, 0, 0)
    for number in range(10):
        publish(b"%d" % number)
        turn.run()
    assert [consumer.bodies for consumer in consumers] == [
        [b"0", b"3", b"6", b"9"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]


def test_a_consumer_whose_credit_ends_is_left_out_and_the_others_go_on_in_turn(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    first, second, third = consume(queue, 0, 2, 0)
    publish(*numbers(10))
    turn.run()
    order = numbers(10)
    assert second.bodies == [order[1], order[4]]
    assert first.bodies == [order[0], order[3], order[6], order[8]]
    assert third.bodies == [order[2], order[5], order[7], order[9]]
    assert not second.is_active


def test_a_consumer_that_gets_credit_back_goes_to_the_end_of_the_ring(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    first, second, third = consume(queue, 1, 1, 1)
    publish(*numbers(3))
    turn.run()
    for consumer in (third, first, second):
        consumer.ack()
    publish(*numbers(6)[3:])
    turn.run()
    assert [consumer.bodies[-1] for consumer in (third, first, second)] == numbers(6)[3:]


def test_a_new_consumer_goes_to_the_end_of_the_ring(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (first,) = consume(queue, 0)
    publish(b"a")
    turn.run()
    (second,) = consume(queue, 0)
    publish(b"b", b"c")
    turn.run()
    assert (first.bodies, second.bodies) == ([b"a", b"b"], [b"c"])


def test_what_is_left_when_all_credit_is_used_stays_ready(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, 3, 5)
    publish(*numbers(20))
    turn.run()
    assert [len(consumer.bodies) for consumer in consumers] == [3, 5]
    assert (queue.ready_count, queue.unacked_count) == (12, 8)


def test_nothing_is_dispatched_before_the_end_of_the_turn(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (consumer,) = consume(queue, 0)
    publish(b"a")
    assert consumer.bodies == []
    turn.step()
    assert consumer.bodies == [b"a"]


# ------------------------------------------------------------------------- priorities


def test_a_higher_priority_is_served_first_as_long_as_it_has_credit(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    low = RecordingConsumer(queue, "low", priority=-1)
    high = RecordingConsumer(queue, "high", priority=5, prefetch_count=3)
    for consumer in (low, high):
        queue.add_consumer(consumer)
    publish(*numbers(5))
    turn.run()
    assert high.bodies == numbers(5)[:3]
    assert low.bodies == numbers(5)[3:]


def test_a_higher_priority_takes_over_when_its_credit_comes_back(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    high = RecordingConsumer(queue, "high", priority=1, prefetch_count=1)
    low = RecordingConsumer(queue, "low", prefetch_count=1)
    for consumer in (high, low):
        queue.add_consumer(consumer)
    publish(*numbers(3))
    turn.run()
    assert queue.ready_count == 1
    high.ack()
    low.ack()
    turn.run()
    assert high.bodies == [b"000000", b"000002"]


def test_consumers_of_one_priority_share_in_turn_below_a_suspended_higher_one(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    high = RecordingConsumer(queue, "high", priority=9)
    high.fill()
    low = [RecordingConsumer(queue, f"low{index}") for index in range(2)]
    for consumer in (*low, high):
        queue.add_consumer(consumer)
    publish(*numbers(4))
    turn.run()
    assert [consumer.bodies for consumer in low] == [numbers(4)[0::2], numbers(4)[1::2]]
    high.drain()
    publish(b"more")
    turn.run()
    assert high.bodies == [b"more"]


def test_the_last_consumer_of_a_priority_takes_its_ring_along(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    for priority in range(100):
        consumer = RecordingConsumer(queue, f"p{priority}", priority=priority)
        queue.add_consumer(consumer)
        queue.remove_consumer(consumer)
    assert rings_of(queue).by_precedence == []


# ------------------------------------------------------------- consumers that leave


def test_those_who_left_in_this_turn_are_handed_nothing_any_more(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, 0, 0, 0, 0, 0)
    turn.run()
    for index in (2, 3, 0, 4):
        queue.remove_consumer(consumers[index])
    publish(*numbers(3))
    assert queue.dispatch() is False
    assert consumers[1].bodies == numbers(3)
    assert queue.ready_count == 0


def test_a_queue_that_only_has_leavers_in_its_rings_has_nobody_to_deliver_to(
    queue: Queue, publish: Publish
) -> None:
    consumers = consume(queue, 0, 0, 0, 0)
    for index in (1, 2, 0, 3):
        queue.remove_consumer(consumers[index])
    publish(b"x")
    assert not queue.lane.may_deliver(queue.lane.ready_entries()[0])
    assert queue.dispatch() is False
    assert queue.ready_count == 1


def test_who_left_from_the_middle_is_forgotten_at_the_end_of_the_turn(
    queue: Queue, turn: ManualTurn
) -> None:
    consumers = consume(queue, 0, 0, 0, 0)
    turn.run()
    leaver = ref(consumers[1])
    queue.remove_consumer(consumers[1])
    del consumers[1]
    turn.run()
    assert leaver() is None
    assert [list(ring) for _, ring in rings_of(queue).by_precedence] == [consumers]


def test_another_lane_takes_nobody_over_who_has_left(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, 0, 0, 0)
    queue.remove_consumer(consumers[1])
    queue.add_consumer(RecordingConsumer(queue, "choosy", selector=compile_selector("a = 1")))
    publish(*numbers(4))
    turn.run()
    assert [one.bodies for one in consumers] == [numbers(4)[0::2], [], numbers(4)[1::2]]


@pytest.mark.acceptance
@pytest.mark.parametrize("live_limit", [0, 1])
@pytest.mark.parametrize("priorities", [1, 20_000])
@pytest.mark.parametrize("selectors", [0, 1, 5_000])
def test_thousands_of_consumers_come_and_go_in_any_order(
    queue: Queue,
    turn: ManualTurn,
    live_limit: int,
    priorities: int,
    selectors: int,
) -> None:
    """Where each costs a look at all others this takes from seconds to minutes."""
    queue.lane.consumers.live = LiveLimit(live_limit)
    some: list[Selector | None] = [compile_selector(f"a = {one}") for one in range(selectors)]
    wishes = some or [None]
    consumers = [
        RecordingConsumer(
            queue,
            f"c{number}",
            priority=number % priorities,
            selector=wishes[number % len(wishes)],
        )
        for number in range(20_000)
    ]
    started = process_time()
    for consumer in consumers:
        queue.add_consumer(consumer)
    Random(7).shuffle(consumers)
    for consumer in consumers:
        queue.remove_consumer(consumer)
    turn.run()
    assert process_time() - started < 2
    assert not queue.consumers


# ---------------------------------------------------------------- suspended consumers


def test_a_full_consumer_is_left_out_until_it_has_drained(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    full, other = consume(queue, 0, 0)
    full.fill()
    publish(*numbers(10))
    turn.run()
    assert full.bodies == []
    assert other.bodies == numbers(10)
    full.drain()
    publish(b"a", b"b")
    turn.run()
    assert (other.bodies[10:], full.bodies) == ([b"a"], [b"b"])


def test_the_queue_grows_while_its_only_consumer_is_full(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (consumer,) = consume(queue, 0)
    consumer.fill()
    publish(*numbers(500))
    turn.run()
    assert (queue.ready_count, queue.unacked_count) == (500, 0)
    consumer.drain()
    turn.run()
    assert consumer.bodies == numbers(500)


def test_a_full_consumer_in_the_middle_of_the_ring_waits_for_its_drain_once(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    """The recording consumer refuses to be asked twice."""
    consumers = consume(queue, 0, 0, 0, 0)
    consumers[2].fill()
    publish(*numbers(100))
    turn.run()
    assert consumers[2].is_suspended
    assert not consumers[2].is_active
    assert [len(consumer.bodies) for consumer in consumers] == [34, 33, 0, 33]


def test_what_does_not_fit_into_an_output_goes_back_as_if_never_taken(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (consumer,) = consume(queue, 10)
    consumer.room = 3 * NUMBER_OCTETS - 1
    publish(*numbers(5))
    turn.run()
    assert consumer.bodies == numbers(3)
    assert (queue.ready_count, queue.unacked_count) == (2, 3)
    assert queue.ready_bytes == 12
    assert consumer.credit == 7
    consumer.drain()
    turn.run()
    assert consumer.bodies == numbers(5)
    assert not any(consumer.redelivered)


def test_an_output_that_fills_up_between_others_disturbs_nobodys_order(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = consume(queue, 0, 0, 0)
    consumers[1].room = 5 * NUMBER_OCTETS - 1
    publish(*numbers(300))
    turn.run()
    assert len(consumers[1].bodies) == 5
    for consumer in consumers:
        assert consumer.bodies == sorted(consumer.bodies)
    assert consumers[0].bodies[:6] == [*numbers(300)[0:15:3], numbers(300)[15]]


def test_an_unacknowledged_delivery_is_counted_only_if_it_was_taken(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, acknowledges=False)
    consumer.room = 2 * NUMBER_OCTETS - 1
    queue.add_consumer(consumer)
    publish(*numbers(5))
    turn.run()
    assert (queue.ready_count, queue.unacked_count, queue.settled_count) == (3, 0, 2)


# ---------------------------------------------------------------------------- windows


def test_an_octet_window_stops_at_the_message_that_does_not_fit(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, windows=(CreditWindow(limit_bytes=10),))
    queue.add_consumer(consumer)
    publish(b"1234", b"5678", b"abc", b"d")
    turn.run()
    assert consumer.bodies == [b"1234", b"5678"]
    consumer.ack(1)
    turn.run()
    assert consumer.bodies == [b"1234", b"5678", b"abc", b"d"]


def test_an_oversized_message_is_delivered_alone(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, windows=(CreditWindow(limit_bytes=10),))
    queue.add_consumer(consumer)
    publish(b"1", b"x" * 100, b"2")
    turn.run()
    assert consumer.bodies == [b"1"]
    consumer.ack()
    turn.run()
    assert consumer.bodies == [b"1", b"x" * 100]
    consumer.ack()
    turn.run()
    assert consumer.bodies == [b"1", b"x" * 100, b"2"]


def test_a_window_shared_by_a_channel_is_handed_round_its_consumers(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    shared = CreditWindow(limit_count=3)
    consumers = [RecordingConsumer(queue, f"c{index}", windows=(shared,)) for index in range(2)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    publish(*numbers(6))
    turn.run()
    assert [consumer.bodies for consumer in consumers] == [
        [b"000000", b"000002"],
        [b"000001"],
    ]
    consumers[0].ack(1)
    turn.run()
    assert shared.used_count == 3
    assert sum(len(consumer.bodies) for consumer in consumers) == 4


def test_a_window_shared_by_a_channel_reaches_over_queues(turn: ManualTurn) -> None:
    shared = CreditWindow(limit_count=1)
    queues = [Queue(name, FifoOrder(), turn) for name in ("a", "b")]
    consumers = [RecordingConsumer(queue, queue.name, windows=(shared,)) for queue in queues]
    for queue, consumer in zip(queues, consumers, strict=True):
        queue.add_consumer(consumer)
        queue.enqueue(make_message(queue.name.encode()))
    turn.run()
    assert [consumer.bodies for consumer in consumers] == [[b"a"], []]
    consumers[0].ack()
    turn.run()
    assert consumers[1].bodies == [b"b"]


def test_one_who_is_woken_by_what_a_lower_priority_gives_back_is_served(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    """Its ring was served before, and nothing else asks for another dispatch."""
    window = CreditWindow(limit_bytes=1)
    low = RecordingConsumer(queue, priority=-1, windows=(window,))
    queue.add_consumer(low)
    publish(b"1", b"2", b"3")
    turn.run()
    assert low.bodies == [b"1"]
    high = RecordingConsumer(queue, acknowledges=False, windows=(window,))
    queue.add_consumer(high)
    window.resize(0, 0)  # the low one waits for longer
    low.drain(0)  # there is room for one of the two that it could have
    turn.run()
    assert (low.bodies, high.bodies) == ([b"1", b"2"], [b"3"])


def test_a_consumer_without_windows_is_served_past_one_whose_window_is_closed(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    limited = RecordingConsumer(queue, "limited", windows=(CreditWindow(limit_count=2),))
    free = RecordingConsumer(queue, "free")
    for consumer in (limited, free):
        queue.add_consumer(consumer)
    publish(*numbers(10))
    turn.run()
    assert limited.bodies == [b"000000", b"000002"]
    assert free.bodies == [b"000001", *numbers(10)[3:]]


def test_a_count_and_a_window_both_limit(queue: Queue, turn: ManualTurn, publish: Publish) -> None:
    window = CreditWindow(limit_count=5)
    consumer = RecordingConsumer(queue, prefetch_count=2, windows=(window,))
    queue.add_consumer(consumer)
    publish(*numbers(4))
    turn.run()
    assert len(consumer.bodies) == 2
    assert window.used_count == 2
    assert not window.waiting


# ----------------------------------------------------------------- shares of a turn


def test_a_queue_delivers_no_more_than_its_share_in_one_turn(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (consumer,) = consume(queue, 0)
    publish(*numbers(ENTRIES_PER_TURN * 2 + 1))
    turn.step()
    assert len(consumer.bodies) == ENTRIES_PER_TURN
    assert turn.is_behind
    assert turn.run() == 2
    assert len(consumer.bodies) == ENTRIES_PER_TURN * 2 + 1
    assert not turn.is_behind


def test_queues_take_turns_when_each_has_more_than_its_share(turn: ManualTurn) -> None:
    queues = [Queue(name, FifoOrder(), turn) for name in ("a", "b")]
    consumers = [RecordingConsumer(queue) for queue in queues]
    for queue, consumer in zip(queues, consumers, strict=True):
        queue.add_consumer(consumer)
        for body in numbers(ENTRIES_PER_TURN + 1):
            queue.enqueue(make_message(body))
    turn.step()
    assert [len(consumer.bodies) for consumer in consumers] == [ENTRIES_PER_TURN] * 2


def test_batches_of_large_messages_are_small(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (consumer,) = consume(queue, 0)
    publish(*[bytes(100_000)] * 10)
    turn.run()
    assert max(consumer.batch_sizes) * 100_000 <= BATCH_BYTES
    assert len(consumer.bodies) == 10


def test_a_message_larger_than_a_batch_is_handed_over_alone(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    (consumer,) = consume(queue, 0)
    publish(bytes(BATCH_BYTES * 2), bytes(BATCH_BYTES * 2))
    turn.run()
    assert consumer.batch_sizes == [1, 1]


def test_a_queue_is_marked_once_whatever_happens_during_its_dispatch(
    turn: ManualTurn,
) -> None:
    """Entries that are taken back ask for a dispatch; so does the share that was used up."""
    dispatches = 0

    class CountedQueue(Queue):
        def dispatch(self) -> bool:
            nonlocal dispatches
            dispatches += 1
            return super().dispatch()

    queue = CountedQueue("q", FifoOrder(), turn)
    queue.lane.share = 8
    consumers = consume(queue, *[0] * 64)
    for consumer in consumers:
        consumer.room = 2 * NUMBER_OCTETS - 1
    for body in numbers(1000):
        queue.enqueue(make_message(body))
    turns = turn.run()
    assert sum(len(consumer.bodies) for consumer in consumers) == 128
    assert dispatches <= turns


# --------------------------------------------------- held against the definition


@dataclasses.dataclass
class Terms:
    """What one consumer asks for."""

    credit: int
    room: int
    priority: int
    octets: int
    is_sharing: bool


terms = st.builds(
    Terms,
    credit=st.sampled_from([UNLIMITED, UNLIMITED, 1, 2, 3, 7, 20]),
    room=st.sampled_from([UNLIMITED, UNLIMITED, -1, 0, 50, 200, 1000, 5000]),
    priority=st.sampled_from([0, 0, 0, 1, -3]),
    octets=st.sampled_from([0, 0, 0, 1, 30, 500]),
    is_sharing=st.booleans(),
)


@given(
    wishes=st.lists(terms, min_size=1, max_size=6),
    sizes=st.lists(st.sampled_from([0, 1, 6, 6, 6, 40, 300]), min_size=1, max_size=150),
    shared_count=st.sampled_from([0, 0, 0, 4, 30]),
    share=st.sampled_from([1, 5, 16, 2048]),
    channel_count=st.integers(1, 6),
)
def test_batches_come_to_the_same_as_single_hand_overs(
    wishes: list[Terms], sizes: list[int], shared_count: int, share: int, channel_count: int
) -> None:
    turn = ManualTurn()
    queue = Queue("q", FifoOrder(), turn)
    channels: list[list[bytes]] = [[] for _ in range(channel_count)]
    bodies = [(b"%05d" % number).ljust(size, b".") for number, size in enumerate(sizes)]
    consumers: list[RecordingConsumer] = []
    receivers: list[Receiver] = []
    shared = [CreditWindow(shared_count), CreditWindow(shared_count)]
    for index, wish in enumerate(wishes):
        windows: list[list[CreditWindow]] = [[], []]
        for side in range(2):
            if wish.octets:
                windows[side].append(CreditWindow(0, wish.octets))
            if shared_count and wish.is_sharing:
                windows[side].append(shared[side])
        consumer = RecordingConsumer(
            queue,
            f"c{index}",
            prefetch_count=0 if wish.credit == UNLIMITED else wish.credit,
            priority=wish.priority,
            windows=tuple(windows[0]),
        )
        consumer.room = wish.room
        consumer.channel = channels[index % channel_count]
        consumers.append(consumer)
        queue.add_consumer(consumer)
        receivers.append(
            Receiver(credit=wish.credit, room=wish.room, priority=wish.priority, windows=windows[1])
        )
    messages = [make_message(body) for body in bodies]
    for message in messages:
        queue.enqueue(message)
    left = deal_out(receivers, [(message.body, len(message.content)) for message in messages])

    queue.lane.share = share
    turn.run()

    assert [consumer.bodies for consumer in consumers] == [one.bodies for one in receivers]
    assert [entry.message.body for entry in queue.acquire(queue.ready_count)] == left
    if len({wish.priority for wish in wishes}) == 1:  # higher ones are served to the end first
        for channel in channels:
            assert channel == sorted(channel, key=lambda body: body[:5])
