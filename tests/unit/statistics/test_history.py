"""Rows of an object: exact for a time, coarser for longer, and one row for what is idle."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from hareline.statistics.history import BASIC, GLOBAL, NEVER, Level, Retention, Series

START_MS = 1_700_000_000_000
SMALL: Retention = (Level(10, 1), Level(100, 10))


def filled(rows: list[tuple[int, int]], retention: Retention = SMALL) -> Series:
    """Seconds after the start, and the value of the one column."""
    series = Series(retention, 1)
    for second, value in rows:
        series.append(START_MS + second * 1000, (value,))
    return series


def values(series: Series, seconds: range) -> list[int | None]:
    return [series.value_at(START_MS + second * 1000, 0) for second in seconds]


def test_a_value_holds_until_the_next_row() -> None:
    series = filled([(1, 5), (4, 7)])
    assert values(series, range(7)) == [None, 5, 5, 5, 7, 7, 7]
    assert series.at(START_MS + 4000) == (7,)
    assert series.at(START_MS) is None
    assert series.newest_ms == START_MS + 4000


def test_old_rows_stay_at_a_coarser_step() -> None:
    series = filled([(second, second) for second in range(30)])
    series.trim(START_MS + 29_000)
    # the last 10 seconds are exact; before, each step has its last value
    assert values(series, range(19, 30)) == list(range(19, 30))
    assert values(series, range(9, 19)) == [*[9] * 9, 18]
    assert values(series, range(5, 9)) == [None] * 4


def test_what_is_older_than_all_levels_goes_but_for_the_value_the_span_begins_with() -> None:
    series = filled([(0, 1), (50, 2)])
    series.trim(START_MS + 120_000)
    assert values(series, range(50, 52)) == [2, 2]
    series.trim(START_MS + 500_000)
    assert series.value_at(START_MS + 500_000, 0) == 2
    assert series.value_at(START_MS + 10_000, 0) is None
    assert series.trim_ms == NEVER


def test_an_idle_object_needs_less_than_a_kilobyte_and_no_more_care() -> None:
    series = Series(BASIC, 14)
    for second in range(0, 600, 5):
        series.append(START_MS + second * 1000, tuple(range(second, second + 14)))
    now_ms = START_MS
    while series.trim_ms != NEVER:
        assert series.trim_ms > now_ms
        now_ms = series.trim_ms
        series.trim(now_ms)
    size = sys.getsizeof(series) + sys.getsizeof(series.last) + sys.getsizeof(series._levels)
    size += sum(map(sys.getsizeof, series._levels))
    assert size < 1000
    assert series.last == tuple(range(595, 609))


def test_the_first_row_that_reached_a_number() -> None:
    series = filled([(second, 10 * second) for second in range(1, 31)])
    for _ in range(2):  # before and after rows have moved
        assert series.reached_ms(0, 300) == START_MS + 30_000
        assert series.reached_ms(0, 295) == START_MS + 30_000
        assert series.reached_ms(0, 301) is None
        series.trim(START_MS + 30_000)
    assert series.reached_ms(0, 1) == START_MS + 9_000  # to the step


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), min_size=1, max_size=60),
    st.sampled_from([SMALL, ((3, 1), (30, 5), (300, 50)), BASIC, GLOBAL]),
)
def test_any_row_is_found_again_to_its_step(
    steps: list[tuple[int, int]], retention: tuple[tuple[int, int], ...]
) -> None:
    levels = tuple(Level(*level) for level in retention)
    series = Series(levels, 1)
    written: list[tuple[int, int]] = []
    now_ms = START_MS
    for seconds, value in steps:
        now_ms += seconds * 1000
        series.append(now_ms, (value,))
        written.append((now_ms, value))
        series.trim(now_ms)
        for row_ms, row_value in written:
            age_s = (now_ms - row_ms) / 1000
            if age_s <= levels[0].span_s:
                assert series.value_at(row_ms, 0) == row_value
        # of each older step that is within its level, the last value is there
        for level, younger in zip(levels[1:], levels, strict=False):
            step_ms = level.step_s * 1000
            by_step = {row_ms // step_ms: (row_ms, row_value) for row_ms, row_value in written}
            for row_ms, row_value in by_step.values():
                age_s = (now_ms - row_ms) / 1000
                if younger.span_s < age_s <= level.span_s and age_s <= levels[1].span_s:
                    assert series.value_at(row_ms, 0) == row_value
    assert series.last == (steps[-1][1],)
