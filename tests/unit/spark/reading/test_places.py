"""Where a read begins and ends is what the options say, or an error that names the stream."""

from __future__ import annotations

import logging

import pytest

from hareline.spark.errors import (
    InvalidOption,
    LoginRefused,
    NotAStream,
    OffsetGone,
    QueueGone,
)
from hareline.spark.reading.options import ReadOptions, read_options
from hareline.spark.reading.places import client_of, ends, needs_one, starts, streams_of
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
