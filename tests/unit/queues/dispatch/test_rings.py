"""Rings of consumers: which comes first, and how one leaves."""

from __future__ import annotations

import pytest

from hareline.queues.dispatch.rings import Rings
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.turns import ManualTurn


@pytest.fixture
def rings() -> Rings:
    return Rings()


def stand(rings: Rings, queue: Queue, *priorities: int) -> list[RecordingConsumer]:
    """One active consumer for each priority, in its ring."""
    consumers = [RecordingConsumer(queue, priority=priority) for priority in priorities]
    for consumer in consumers:
        consumer.is_active = True
        rings.of(consumer.priority).append(consumer)
    return consumers


def test_the_highest_priority_comes_first(rings: Rings, queue: Queue) -> None:
    low, high, other_low, middle = stand(rings, queue, -1, 7, -1, 0)
    assert [(priority, list(ring)) for priority, ring in rings.by_precedence] == [
        (7, [high]),
        (0, [middle]),
        (-1, [low, other_low]),
    ]


@pytest.mark.parametrize("place", [0, 2])
def test_a_consumer_leaves_either_end_of_its_ring_at_once(
    rings: Rings, queue: Queue, turn: ManualTurn, place: int
) -> None:
    consumers = stand(rings, queue, 0, 0, 0)
    leaving = consumers.pop(place)
    rings.remove(leaving, queue)
    assert not leaving.is_active
    assert list(rings.of(0)) == consumers
    assert not turn.is_armed


def test_those_in_the_middle_leave_together_at_the_end_of_the_turn(
    rings: Rings, queue: Queue, turn: ManualTurn
) -> None:
    consumers = stand(rings, queue, 0, 0, 0, 0)
    for leaving in consumers[1:3]:
        rings.remove(leaving, queue)
    assert list(rings.of(0)) == consumers
    assert rings.leavers == {0}
    turn.run()
    assert list(rings.of(0)) == [consumers[0], consumers[3]]
    assert not rings.leavers


def test_while_the_queue_delivers_one_leaves_the_middle_at_once(rings: Rings, queue: Queue) -> None:
    first, middle, last = stand(rings, queue, 0, 0, 0)
    queue.is_delivering = True
    rings.remove(middle, queue)
    assert list(rings.of(0)) == [first, last]


def test_a_consumer_that_is_not_active_is_in_no_ring_to_leave(rings: Rings, queue: Queue) -> None:
    (standing,) = stand(rings, queue, 0)
    rings.remove(RecordingConsumer(queue), queue)
    assert list(rings.of(0)) == [standing]


def test_leavers_do_not_count_as_able_to_receive(rings: Rings, queue: Queue) -> None:
    consumers = stand(rings, queue, 0, 0, 0)
    assert rings
    for leaving in (consumers[1], consumers[0], consumers[2]):
        rings.remove(leaving, queue)
    assert not rings
    assert not rings.leavers


def test_a_forgotten_priority_has_no_ring(rings: Rings, queue: Queue) -> None:
    stand(rings, queue, 1, 2, 3)
    rings.forget(2)
    rings.forget(4)
    assert [priority for priority, _ in rings.by_precedence] == [3, 1]
    assert not rings.of(2)
