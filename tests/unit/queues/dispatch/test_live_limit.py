"""Which consumers are live, and who takes over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.core.live_limit import LiveLimit
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.turns import ManualTurn

QUEUE = Queue("q", FifoOrder(), ManualTurn())


def consumer(priority: int = 0) -> RecordingConsumer:
    return RecordingConsumer(QUEUE, f"p{priority}", priority=priority)


def test_the_first_to_come_are_live_whatever_their_priority() -> None:
    limit = LiveLimit(2)
    coming = [consumer(), consumer(), consumer(9)]
    for one in coming:
        limit.add(one)
    assert [one.is_live for one in coming] == [True, True, False]


def test_the_highest_priority_takes_over_and_of_equals_the_first() -> None:
    limit = LiveLimit(1)
    first, low, high, peer = consumer(), consumer(-1), consumer(5), consumer(5)
    for one in (first, low, high, peer):
        limit.add(one)
    assert limit.remove(first) is high
    assert limit.remove(high) is peer
    assert limit.remove(peer) is low
    assert limit.remove(low) is None
    assert all(one.is_live for one in (high, peer, low))


def test_one_that_stands_by_leaves_without_a_successor() -> None:
    limit = LiveLimit(1)
    live, leaving, next_ = consumer(), consumer(3), consumer()
    for one in (live, leaving, next_):
        limit.add(one)
    assert limit.remove(leaving) is None
    assert limit.remove(live) is next_


@given(st.integers(1, 3), st.lists(st.one_of(st.integers(-2, 2), st.just("leave")), max_size=30))
def test_it_keeps_a_list(at_most: int, steps: list[int | str]) -> None:
    limit = LiveLimit(at_most)
    everybody: list[RecordingConsumer] = []
    for number, step in enumerate(steps):
        live = [one for one in everybody if one.is_live]
        if isinstance(step, int):
            new = consumer(step)
            limit.add(new)
            assert new.is_live is (len(live) < at_most)
            everybody.append(new)
        elif everybody:
            leaving = everybody.pop(number % len(everybody))
            waiting = [one for one in everybody if not one.is_live]
            expected = max(waiting, key=lambda one: one.priority, default=None)
            was_live = leaving.is_live
            successor = limit.remove(leaving)
            assert successor is (expected if was_live else None)
            assert successor is None or successor.is_live
