"""Positions: ranks as texts, and texts that are none."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from hareline.broker.operations.positions import InvalidPosition, position_of, rank_of
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.sorted import SortedOrder

RANKS: tuple[Any, ...] = (
    ((0,), 7),
    ((1, "text"), 0),
    ((1, ""), 1),
    ((1, "\ud83d\udc07 \udcff -"), 2),
    ((1, b"\x00\xff-"), 3),
    ((1, -5), 4),
    ((1, 0.1), 5),
    ((1, float("-inf")), 6),
    ((1, Decimal("-12.50")), 8),
)


@pytest.mark.parametrize("rank", RANKS, ids=str)
def test_a_rank_of_a_sorted_queue_is_the_same_again(rank: Any) -> None:
    assert rank_of(position_of(rank), SortedOrder("k")) == rank


@pytest.mark.parametrize("rank", [0, 5, 1 << 60])
def test_a_number_is_the_same_again(rank: int) -> None:
    assert rank_of(position_of(rank), FifoOrder()) == rank


@pytest.mark.parametrize("text", ["", "x", "-1", "1-s", "1.5", "٣", "9" * 50, "1-"])
def test_no_position_of_a_queue_by_offset(text: str) -> None:
    with pytest.raises(InvalidPosition, match="is not a position"):
        rank_of(text, FifoOrder())


@pytest.mark.parametrize(
    "text", ["1", "1-z", "1-s!", "1-i", "1-ix", "1-dNaN", "1-dx", "1-fx", "x-", "1-b=", "1-sgA=="]
)
def test_no_position_of_a_sorted_queue(text: str) -> None:
    with pytest.raises(InvalidPosition):
        rank_of(text, SortedOrder("k"))
