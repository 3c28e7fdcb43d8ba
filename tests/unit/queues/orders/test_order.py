"""What an ordering need not say: the suites of tests/conformance/ check what it must."""

from __future__ import annotations

import pytest

from hareline.queues.core.entry import RankedEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.priority import rabbitmq_levels
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.turns import ManualTurn


def test_the_oldest_is_worth_least_unless_the_ordering_says_otherwise() -> None:
    order = SortedOrder("k")
    queue = Queue("q", order, ManualTurn())
    assert [order.worth(RankedEntry(queue, make_message(), offset)) for offset in (7, 8)] == [7, 8]


def test_entries_are_ranked_unless_the_ordering_says_otherwise() -> None:
    assert LogOrder.entry_class is SortedOrder.entry_class is RankedEntry


@pytest.mark.parametrize(
    "order", [LogOrder(is_paged=False), SortedOrder("k")], ids=["log", "sorted"]
)
def test_entries_stay_objects_unless_the_ordering_says_otherwise(order: EntryOrder) -> None:
    assert order.paged is None


def test_an_ordering_with_pages_is_asked_for_them_itself() -> None:
    fifo, levels = FifoOrder(), rabbitmq_levels(5)
    assert fifo.paged is fifo
    assert levels.paged is levels
    assert (fifo.has_levels, levels.has_levels) == (False, True)
