"""Ranges are covered exactly by their pieces, and limits are shared out in full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hareline.spark.reading.splitting import (
    SMALL_RANGE_ROWS,
    Backlog,
    Range,
    share_out,
    split,
)

ranges = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 5_000)).map(
        # some end before they begin
        lambda pair: Range("q", "i", pair[0], pair[0] + pair[1] - 500)
    ),
    max_size=6,
)
backlogs = st.dictionaries(
    st.text(max_size=3),
    st.builds(Backlog, st.integers(0, 100_000), st.integers(0, 10_000_000)),
    max_size=8,
)


@given(wanted=ranges, max_rows=st.integers(1, 700), min_parts=st.integers(1, 40))
def test_pieces_cover_the_ranges_in_order(
    wanted: list[Range], max_rows: int, min_parts: int
) -> None:
    pieces = split(wanted, max_rows, min_parts, 8)
    assert [at for each in pieces for at in range(each.start, each.end)] == [
        at for each in wanted for at in range(each.start, each.end)
    ]
    assert all(0 < each.rows <= max_rows for each in pieces)
    assert len(pieces) >= min(min_parts, sum(max(0, each.rows) for each in wanted))


@given(rows=st.integers(1, 100_000), parts=st.integers(1, 64))
def test_pieces_of_a_range_differ_by_one_row_at_most(rows: int, parts: int) -> None:
    sizes = {each.rows for each in split([Range("q", "i", 7, 7 + rows)], 1 << 40, parts, 1)}
    assert max(sizes) - min(sizes) <= 1


def test_a_small_range_is_one_task_unless_more_are_asked_for() -> None:
    small = [Range("q", "i", 0, SMALL_RANGE_ROWS - 1)]
    assert split(small, 1 << 40, None, 8) == small
    assert len(split([Range("q", "i", 0, 3 * SMALL_RANGE_ROWS)], 1 << 40, None, 8)) == 3
    assert len(split([Range("q", "i", 0, 30 * SMALL_RANGE_ROWS)], 1 << 40, None, 8)) == 8
    assert len(split([Range("q", "i", 0, 3)], 1 << 40, 8, 8)) == 3


@given(
    waiting=backlogs,
    max_rows=st.none() | st.integers(1, 200_000),
    max_octets=st.none() | st.integers(1, 20_000_000),
)
def test_shares_are_within_backlogs_and_limits(
    waiting: dict[str, Backlog], max_rows: int | None, max_octets: int | None
) -> None:
    shares = share_out(waiting, max_rows, max_octets)
    assert all(0 < rows <= waiting[queue].rows for queue, rows in shares.items())
    total = sum(each.rows for each in waiting.values())
    taken = sum(shares.values())
    assert taken <= total
    if max_rows is not None:
        assert taken <= max_rows
    if total:
        assert taken > 0
    if max_octets is None:
        assert taken == (total if max_rows is None else min(total, max_rows))


@given(waiting=backlogs, max_rows=st.integers(8, 200_000))
def test_each_stream_has_its_part(waiting: dict[str, Backlog], max_rows: int) -> None:
    shares = share_out(waiting, max_rows, None)
    total = sum(each.rows for each in waiting.values())
    for queue, each in waiting.items():
        if each.rows:
            fair = each.rows * min(max_rows, total) / total
            assert shares[queue] >= 1
            assert abs(shares[queue] - fair) <= len(waiting) + 1


def test_octets_limit_the_rows_by_their_mean_size() -> None:
    waiting = {"a": Backlog(1_000, 1_000_000), "b": Backlog(1_000, 0)}
    assert share_out(waiting, None, 100_000) == {"a": 100, "b": 100}
    assert share_out({"a": Backlog(5, 1 << 40)}, 3, 1) == {"a": 1}


def test_with_fewer_rows_than_streams_the_longest_are_read() -> None:
    waiting = {"a": Backlog(1, 1), "b": Backlog(9, 9), "c": Backlog(5, 5)}
    assert share_out(waiting, 2, None) == {"b": 1, "c": 1}
