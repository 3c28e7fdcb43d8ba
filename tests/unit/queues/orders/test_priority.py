"""Which level a priority is of, and that a higher one never waits behind a lower.

What every ordering must do is in conformance/.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hareline.queues.core.entry import SETTLED, RankedEntry
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.priority import (
    LEVELS_MAX,
    PriorityOrder,
    qpid_levels,
    rabbitmq_levels,
)
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn


def publish(queue: Queue, *priorities: int | None) -> None:
    """The body is the number of the message and its priority: ``0:7``."""
    for priority in priorities:
        queue.put(make_message(b"%d:%s" % (queue.next_offset, name(priority)), priority=priority))


def name(priority: int | None) -> bytes:
    return b"-" if priority is None else b"%d" % priority


def bodies(queue: Queue) -> list[str]:
    return [entry.message.body.decode() for entry in queue.acquire(queue.ready_count)]


def order_of(order: EntryOrder, priorities: Sequence[int | None]) -> list[int | None]:
    """The priorities as they come out when they go in like this."""
    queue = Queue("q", order, ManualTurn())
    publish(queue, *priorities)
    return [entry.message.priority for entry in queue.acquire(len(priorities))]


# --------------------------------------------------------------------- x-max-priority


@pytest.mark.row("A4")
def test_higher_priorities_come_first_and_equal_ones_as_they_arrived(turn: ManualTurn) -> None:
    queue = Queue("q", rabbitmq_levels(9), turn)
    publish(queue, 1, 9, 0, 9, 5, 1)
    assert bodies(queue) == ["1:9", "3:9", "4:5", "0:1", "5:1", "2:0"]


@pytest.mark.row("A4")
def test_no_priority_is_0_for_rabbitmq(turn: ManualTurn) -> None:
    queue = Queue("q", rabbitmq_levels(9), turn)
    publish(queue, None, 1, 0, None)
    assert bodies(queue) == ["1:1", "0:-", "2:0", "3:-"]


def test_a_default_priority_stands_for_none(turn: ManualTurn) -> None:
    queue = Queue("q", rabbitmq_levels(9, default_priority=4), turn)
    publish(queue, 3, None, 5, 4)
    assert bodies(queue) == ["2:5", "1:-", "3:4", "0:3"]


def test_a_priority_above_the_highest_counts_as_the_highest(turn: ManualTurn) -> None:
    queue = Queue("q", rabbitmq_levels(5), turn)
    publish(queue, 5, 255, 6, 4)
    assert bodies(queue) == ["0:5", "1:255", "2:6", "3:4"]


def test_with_255_each_priority_is_a_level_of_its_own() -> None:
    assert order_of(rabbitmq_levels(255), range(256)) == [*reversed(range(256))]


def test_with_0_all_are_of_one_level() -> None:
    assert order_of(rabbitmq_levels(0), [0, 9, None, 255]) == [0, 9, None, 255]


# ------------------------------------------------------------------ x-qpid-priorities


@pytest.mark.row("A4")
@pytest.mark.parametrize(
    ("levels", "of_priority"),
    [
        (10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (5, [0, 0, 0, 1, 2, 3, 4, 4, 4, 4]),
        (3, [0, 0, 0, 0, 1, 2, 2, 2, 2, 2]),
        (2, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
        (1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_qpids_levels_are_centred_on_priority_4(levels: int, of_priority: list[int]) -> None:
    published = [*range(10)]
    expected = sorted(published, key=lambda priority: -of_priority[priority])
    assert order_of(qpid_levels(levels), published) == expected


@pytest.mark.row("C2")
def test_three_levels_are_low_default_and_high(turn: ManualTurn) -> None:
    queue = Queue("q", qpid_levels(3), turn)
    publish(queue, 0, 3, 4, None, 5, 9, 200)
    assert bodies(queue) == ["4:5", "5:9", "6:200", "2:4", "3:-", "0:0", "1:3"]


@pytest.mark.row("C3")
def test_no_priority_is_4_for_qpid(turn: ManualTurn) -> None:
    queue = Queue("q", qpid_levels(10), turn)
    publish(queue, 3, None, 4, 5)
    assert bodies(queue) == ["3:5", "1:-", "2:4", "0:3"]


@pytest.mark.row("C3")
def test_who_sets_no_priority_gets_first_in_first_out() -> None:
    for order in (qpid_levels(10), qpid_levels(3), rabbitmq_levels(9)):
        queue = Queue("q", order, ManualTurn())
        publish(queue, *[None] * 100)
        assert bodies(queue) == [f"{number}:-" for number in range(100)]


def test_qpids_default_priority_can_be_another(turn: ManualTurn) -> None:
    queue = Queue("q", qpid_levels(10, default_priority=9), turn)
    publish(queue, 8, None)
    assert bodies(queue) == ["1:-", "0:8"]


# ----------------------------------------------------------------------------- strict


@pytest.mark.row("C1")
@pytest.mark.parametrize("depth", [100, 20_000])
def test_one_high_message_behind_many_low_ones_is_next(turn: ManualTurn, depth: int) -> None:
    queue = Queue("q", rabbitmq_levels(9), turn)
    publish(queue, *[0] * depth, 1)
    entry = queue.get()
    assert entry is not None
    assert entry.message.priority == 1


def test_a_higher_one_is_next_though_lower_ones_were_delivered_before(turn: ManualTurn) -> None:
    queue = Queue("q", rabbitmq_levels(9), turn)
    consumer = RecordingConsumer(queue, prefetch_count=2)
    queue.add_consumer(consumer)
    publish(queue, 1, 1, 1, 1)
    turn.run()
    publish(queue, 7)
    consumer.ack(1)
    turn.run()
    assert consumer.bodies == [b"0:1", b"1:1", b"4:7"]


@pytest.mark.row("A4")
def test_a_released_entry_returns_to_its_place_in_its_level(turn: ManualTurn) -> None:
    queue = Queue("q", rabbitmq_levels(9), turn)
    publish(queue, 5, 5, 7, 5)
    high, first, second = queue.acquire(3)
    queue.release([second])
    queue.release([high])
    queue.release([first])
    publish(queue, 5)
    assert bodies(queue) == ["2:7", "0:5", "1:5", "3:5", "4:5"]


def test_a_batch_goes_over_from_one_level_to_the_next() -> None:
    assert order_of(rabbitmq_levels(9), [0, 3, 0, 3, 9]) == [9, 3, 3, 0, 0]


# ------------------------------------------------------------------------ the contract


def test_the_least_is_the_oldest_of_the_lowest_level_that_has_any(turn: ManualTurn) -> None:
    order = rabbitmq_levels(9)
    queue = Queue("q", order, turn)
    publish(queue, 3, 2, 9, 2)
    least = order.least()
    assert least is not None
    assert least.offset == 1


def test_the_lowest_level_is_passed_over_when_its_last_entry_was_settled(turn: ManualTurn) -> None:
    order = rabbitmq_levels(9)
    entries = [
        RankedEntry(Queue("q", order, turn), make_message(b"x", priority=priority), offset)
        for offset, priority in enumerate((3, 2, 9))
    ]
    for entry in entries:
        order.add(entry)
    for gone, least in ((1, 0), (0, 2)):
        entries[gone].state = SETTLED
        order.discard(entries[gone])
        assert order.least() is entries[least]
    assert order.take(3) == [entries[2]]


def test_any_function_of_the_message_can_give_the_level(turn: ManualTurn) -> None:
    queue = Queue("q", PriorityOrder(3, lambda message: message.size % 3), turn)
    for body in (b"a", b"bb", b"ccc", b"dddd"):
        queue.put(make_message(body))
    assert bodies(queue) == ["bb", "a", "dddd", "ccc"]


@pytest.mark.parametrize("levels", [0, -1, LEVELS_MAX + 1])
def test_a_number_of_levels_that_cannot_be_is_refused(levels: int) -> None:
    with pytest.raises(ValueError, match=f"1 to {LEVELS_MAX} levels of priority, not {levels}"):
        PriorityOrder(levels, lambda message: 0)


@pytest.mark.parametrize("priority", [-1, 256])
def test_a_default_priority_that_is_no_octet_is_refused(priority: int) -> None:
    for make in (rabbitmq_levels, qpid_levels):
        with pytest.raises(ValueError, match=f"0 to 255, not {priority}"):
            make(9, priority)
