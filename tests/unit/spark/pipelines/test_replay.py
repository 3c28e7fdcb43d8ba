"""An archive is cut only where all offsets before are lower than all behind."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from hareline.spark.pipelines.replay import BucketCount, Span, spans_of

LOG = ("orders", "a")


def bucket(
    number: int, first: int, last: int, messages: int = 10, log: tuple[str, str] = LOG
) -> BucketCount:
    return BucketCount(Span(number * 10, number * 10 + 10), log, messages, first, last, number * 10)


def test_spans_have_as_many_messages_as_wanted() -> None:
    counts = [bucket(number, number * 10, number * 10 + 9) for number in range(5)]
    assert spans_of(counts, 20) == [Span(0, 20), Span(20, 40), Span(40, 50)]
    assert spans_of(counts, 1000) == [Span(0, 50)]
    assert len(spans_of(counts, 1)) == 5


def test_nothing_is_cut_into_nothing() -> None:
    assert spans_of([], 1) == []


def test_buckets_without_messages_are_jumped_over() -> None:
    assert spans_of([bucket(0, 0, 0), bucket(7, 1, 1)], 1) == [Span(0, 10), Span(70, 80)]


def test_a_clock_that_was_set_back_is_not_cut_at() -> None:
    """Offsets 20 to 29 arrived by a clock that was behind that of 10 to 19."""
    counts = [bucket(0, 0, 9), bucket(1, 20, 29), bucket(2, 10, 19), bucket(3, 30, 39)]
    assert spans_of(counts, 1) == [Span(0, 10), Span(10, 30), Span(30, 40)]


def test_logs_do_not_disturb_each_other() -> None:
    other = ("orders", "b")
    counts = [bucket(0, 100, 109), bucket(1, 0, 9, log=other), bucket(1, 110, 119)]
    assert spans_of(counts, 1) == [Span(0, 10), Span(10, 20)]


def test_several_counts_of_one_log_in_a_bucket_count_together() -> None:
    counts = [bucket(0, 0, 9), bucket(0, 3, 12), bucket(1, 11, 20)]
    assert spans_of(counts, 1) == [Span(0, 20)]


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 5)),
        max_size=12,
    ),
    st.integers(1, 40),
)
def test_all_messages_are_in_one_span_and_spans_keep_the_order(
    drawn: list[tuple[int, str, int, int]], least: int
) -> None:
    counts = [
        bucket(number, first, first + length, log=("q", log))
        for number, log, first, length in drawn
    ]
    spans = spans_of(counts, least)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    for each in counts:
        assert sum(span.start <= each.span.start < span.end for span in spans) == 1
    for log in "ab":
        highest = -1
        for span in spans:
            inside = [
                each
                for each in counts
                if each.log == ("q", log) and span.start <= each.span.start < span.end
            ]
            if inside:
                assert min(each.first_offset for each in inside) > highest
                highest = max(highest, *(each.last_offset for each in inside))
