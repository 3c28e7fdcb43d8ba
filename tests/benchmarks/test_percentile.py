"""The nearest-rank percentile, by example and by its definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.macro.percentile import percentile


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(100, 0.5, 50), (100, 0.99, 99), (100, 1.0, 100), (101, 0.5, 51), (1, 0.99, 1), (3, 0.01, 1)],
)
def test_the_nearest_rank_is_taken(count: int, share: float, expected: int) -> None:
    assert percentile(range(1, count + 1), share) == expected


@given(st.lists(st.integers(), min_size=1), st.floats(0.001, 1.0))
def test_at_least_the_share_lies_at_or_below_and_less_below(
    values: list[int], share: float
) -> None:
    found = percentile(sorted(values), share)
    at_or_below = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert at_or_below >= share * len(values) - 1e-9
    assert below < share * len(values)


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        percentile([1.0], share)
