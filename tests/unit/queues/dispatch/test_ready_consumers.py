"""Rings of consumers, and who of them is next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.dispatch.ready_consumers import FEW_RINGS, ReadyConsumers
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.turns import ManualTurn

QUEUE = Queue("q", FifoOrder(), ManualTurn())
MANY = 3 * FEW_RINGS


def consumer(number: int = 0, *, priority: int = 0) -> RecordingConsumer:
    """One of the class with this number."""
    one = RecordingConsumer(QUEUE, f"c{number}", priority=priority)
    one.class_bit = 1 << number
    return one


def ring(willing: ReadyConsumers, number: int = 0) -> list[RecordingConsumer]:
    """Who stands in the ring of a class, the next first."""
    first = willing.levels[0].rings[number + 1].first
    found, one = [first], first.ring_next
    while one is not first:
        assert one is not None
        assert one.ring_previous is found[-1]
        found.append(one)
        one = one.ring_next
    assert first.ring_previous is found[-1]
    return [each for each in found if isinstance(each, RecordingConsumer)]


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "rotate"]), st.integers(0, 9))))
def test_a_ring_is_a_list_whose_first_goes_to_the_end(steps: list[tuple[str, int]]) -> None:
    willing = ReadyConsumers()
    expected: list[RecordingConsumer] = []
    for step, number in steps:
        if step == "add":
            expected.append(consumer())
            willing.add(expected[-1], is_to_revisit=False)
        elif step == "remove" and expected:
            leaving = expected.pop(number % len(expected))
            assert willing.remove(leaving) is False
            assert (leaving.ring, leaving.ring_next, leaving.ring_previous) == (None, None, None)
        elif step == "rotate" and expected:
            willing.rotate(expected[0])
            expected.append(expected.pop(0))
        assert bool(willing) is bool(expected)
        if expected:
            assert ring(willing) == expected
        else:
            assert not willing.levels or willing.levels[0].rings == {}


@given(st.sets(st.integers(0, MANY), min_size=1), st.sets(st.integers(0, MANY)), st.randoms())
def test_the_one_that_waited_longest_is_next_among_many_classes(
    numbers: set[int], wanted: set[int], chance: object
) -> None:
    willing = ReadyConsumers()
    served = list(range(len(numbers)))
    chance.shuffle(served)  # type: ignore[attr-defined]
    consumers = [consumer(number) for number in numbers]
    for one, served_at in zip(consumers, served, strict=True):
        one.served_at = served_at
        willing.add(one, is_to_revisit=False)
    mask = sum(1 << number for number in wanted)
    expected = min(
        [one for one in consumers if one.class_bit & mask],
        key=lambda one: one.served_at,
        default=None,
    )
    assert willing.next_for(mask, willing.levels[0]) is expected


def test_levels_are_in_the_order_of_their_priorities_and_go_with_the_last_consumer() -> None:
    willing = ReadyConsumers()
    consumers = {priority: consumer(priority=priority) for priority in (3, -1, 7, 0)}
    for one in consumers.values():
        willing.add(one, is_to_revisit=False)
    assert [level.priority for level in willing.levels] == [7, 3, 0, -1]
    willing.remove(consumers[3])
    willing.forget_level(3)
    willing.forget_level(5)
    assert [level.priority for level in willing.levels] == [7, 0, -1]


def test_the_eager_come_by_priority_and_then_in_the_order_in_which_they_became_it() -> None:
    willing = ReadyConsumers()
    low, high, peer = consumer(), consumer(priority=1), consumer(1, priority=1)
    for one in (low, high, peer):
        willing.add(one, is_to_revisit=one is not high)
    assert willing.next_to_revisit() is peer
    willing.mark_revisit(high)
    willing.mark_revisit(peer)
    assert willing.next_to_revisit() is high
    willing.unmark_revisit(high)
    assert willing.remove(peer) is True
    assert willing.next_to_revisit() is low
    willing.unmark_revisit(low)
    assert willing.next_to_revisit() is None
    willing.mark_revisit_by_all()
    assert willing.is_to_revisit(high)
    assert willing.is_to_revisit(low)
