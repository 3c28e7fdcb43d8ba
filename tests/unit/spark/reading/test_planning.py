"""Places that options name are found in streams, and ranges are split and shared out exactly."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.spark.errors import (
    InvalidOption,
    LoginRefused,
    NotAStream,
    OffsetGone,
    QueueGone,
)
from hareline.spark.reading.options import ReadOptions, read_options
from hareline.spark.reading.planning import (
    SMALL_RANGE_ROWS,
    Backlog,
    Range,
    client_of,
    ends,
    needs_one,
    share_out,
    split,
    starts,
    streams_of,
)
from tests.support.stream_server import StreamServer


def options_of(server: StreamServer, **more: str) -> ReadOptions:
    given = {**server.options, "retries": "1", **more}
    if not {"queue", "queues", "queuePattern"} & more.keys():
        given["queue"] = "q"
    return read_options(given, environment={})


def begin(server: StreamServer, **more: str) -> dict[str, int]:
    options = options_of(server, **more)
    client = client_of(options)
    return starts(options, client, streams_of(options, client))


def end(server: StreamServer, **more: str) -> dict[str, int]:
    options = options_of(server, **more)
    client = client_of(options)
    return ends(options, client, streams_of(options, client))


@pytest.fixture
def kept(server: StreamServer) -> StreamServer:
    """A stream "q" of 10 messages whose first 4 are dropped, one a second from 1 s on."""
    server.fill("q", 10).truncate(4)
    return server


def test_streams_are_found_by_name_and_pattern(kept: StreamServer) -> None:
    kept.fill("orders-1", 1)
    kept.fill("orders-2", 1)

    def found(**more: str) -> list[str]:
        options = options_of(kept, **more)
        return [*streams_of(options, client_of(options))]

    assert found() == ["q"]
    assert found(queues="q,orders-2") == ["orders-2", "q"]
    assert found(queuePattern="orders-.*") == ["orders-1", "orders-2"]
    assert found(queuePattern="orders") == []
    with pytest.raises(QueueGone, match="no stream 'none'"):
        found(queues="q,none")
    with pytest.raises(NotAStream, match="x-archive-to"):
        found(queues="q,classic")
    kept.forbidden.add("orders-1")
    with pytest.raises(LoginRefused, match="may not read 'orders-1'"):
        found(queues="q,orders-1")
    assert found(queuePattern="orders-.*") == ["orders-2"]


def test_a_pattern_without_a_stream_is_named(server: StreamServer) -> None:
    with pytest.raises(QueueGone, match="matches queuePattern 'x'"):
        needs_one(options_of(server, queuePattern="x"), {})


def test_a_read_begins_and_ends_where_it_should(kept: StreamServer) -> None:
    assert begin(kept) == {"q": 4}
    assert begin(kept, startingOffsets="latest") == {"q": 10}
    assert begin(kept, startingOffsets='{"q": 7}') == {"q": 7}
    assert begin(kept, startingOffsets='{"q": 10}') == {"q": 10}
    assert begin(kept, startingOffsets='{"q": -1}') == {"q": 10}
    assert end(kept) == {"q": 10}
    assert end(kept, endingOffsets="earliest") == {"q": 4}
    assert end(kept, endingOffsets='{"q": 7}') == {"q": 7}


def test_streams_without_an_offset_are_read_whole(kept: StreamServer) -> None:
    kept.fill("r", 3)
    assert begin(kept, queues="q,r", startingOffsets='{"q": 7}') == {"q": 7, "r": 0}
    assert end(kept, queues="q,r", endingOffsets='{"r": 1}') == {"q": 10, "r": 1}


def test_offsets_that_are_not_there_are_errors(kept: StreamServer) -> None:
    with pytest.raises(InvalidOption, match=r"startingOffsets: stream 'q' ends before 10, .* 11"):
        begin(kept, startingOffsets='{"q": 11}')
    with pytest.raises(InvalidOption, match="endingOffsets: stream 'q' ends before 10, not 11"):
        end(kept, endingOffsets='{"q": 11}')
    with pytest.raises(InvalidOption, match=r"startingOffsets names 'r', .* to read: q"):
        begin(kept, startingOffsets='{"r": 1}')


def test_what_retention_dropped_is_an_error_or_a_warning(
    kept: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OffsetGone, match="messages 3 to 3 were dropped"):
        begin(kept, startingOffsets='{"q": 3}')
    with caplog.at_level(logging.WARNING):
        assert begin(kept, startingOffsets='{"q": 3}', failOnDataLoss="false") == {"q": 4}
    assert "messages 3 to 3 were dropped" in caplog.text


def test_the_first_stream_that_cannot_be_read_is_told(kept: StreamServer) -> None:
    kept.fill("r", 3)
    with pytest.raises(OffsetGone, match="messages 3 to 3 were dropped"):
        begin(kept, queues="q,r", startingOffsets='{"q": 3, "r": 9}')


def test_a_read_begins_and_ends_by_time(kept: StreamServer) -> None:
    assert begin(kept, startingTimestamp="0") == {"q": 4}
    assert begin(kept, startingTimestamp="7000") == {"q": 6}
    assert begin(kept, startingTimestamp="10000") == {"q": 9}
    assert end(kept, endingTimestamp="7000") == {"q": 6}
    assert end(kept, endingTimestamp="99000") == {"q": 10}


def test_a_time_after_all_messages_is_an_error_or_the_end(kept: StreamServer) -> None:
    with pytest.raises(InvalidOption, match="no message of stream 'q' arrived at 10001 or later"):
        begin(kept, startingTimestamp="10001")
    late = {"startingTimestamp": "10001", "startingTimestampStrategy": "latest"}
    assert begin(kept, **late) == {"q": 10}


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
