"""Micro-batches follow each other without gap or overlap, and their offsets survive as JSON."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.spark.errors import (
    IncarnationChanged,
    InvalidOption,
    OffsetGone,
    QueueGone,
    TailRegressed,
)
from hareline.spark.reading.following import Position, Positions, StreamFollower, from_json, to_json
from hareline.spark.reading.options import read_options
from tests.support.consumer_server import ConsumerServer, Scripted, consumer_server
from tests.support.stream_server import StreamServer

Read = list[tuple[str, int]]


def follower(server: StreamServer | ConsumerServer, **more: str) -> StreamFollower:
    given = {**server.options, "retries": "1", "longPollMs": "0", **more}
    given.setdefault("startingOffsets", "earliest")
    if not {"queue", "queues", "queuePattern"} & more.keys():
        given["queue"] = "q"
    if "startingTimestamp" in more:
        del given["startingOffsets"]
    return StreamFollower(read_options(given, is_stream=True, environment={}))


def kept(positions: Positions) -> Positions:
    """The positions as they come back from a checkpoint."""
    return from_json("/", json.loads(json.dumps(to_json("/", positions))))


def batches(
    following: StreamFollower, start: Positions, max_rows: int | None = None
) -> Iterator[tuple[Positions, Read]]:
    """The batches until there is nothing new: where each ends, and what it reads."""
    while True:
        end = kept(following.latest(start, max_rows, None))
        if end == start:
            return
        pieces = following.ranges(start, end)
        yield end, [(each.queue, at) for each in pieces for at in range(each.start, each.end)]
        start = end


def run(following: StreamFollower, start: Positions) -> tuple[Positions, Read]:
    """All batches at once."""
    read: Read = []
    for end, rows in batches(following, start):
        start, read = end, read + rows
    return start, read


def rows(queue: str, start: int, end: int) -> Read:
    return [(queue, at) for at in range(start, end)]


def test_a_new_query_begins_where_it_should_and_asks_once(server: StreamServer) -> None:
    stream = server.fill("q", 10)
    following = follower(server)
    assert following.initial() == {"q": Position(stream.incarnation, 0)}
    late = follower(server, startingOffsets="latest")
    assert late.initial()["q"].offset == 10
    server.fill("q", 5)
    assert late.initial()["q"].offset == 10
    assert follower(server, startingTimestamp="3000").initial()["q"].offset == 2


def test_each_batch_goes_on_where_the_last_one_ended(server: StreamServer) -> None:
    server.fill("q", 10)
    following = follower(server)
    end, read = run(following, following.initial())
    assert read == rows("q", 0, 10)
    server.fill("q", 3)
    assert run(following, end)[1] == rows("q", 10, 13)


def test_limits_make_small_batches(server: StreamServer) -> None:
    server.fill("a", 30)
    server.fill("b", 10)
    following = follower(server, queues="a,b")
    sizes = []
    read: Read = []
    for _, batch in batches(following, following.initial(), max_rows=8):
        sizes.append({queue: sum(each == queue for each, _ in batch) for queue in "ab"})
        read += batch
    assert sizes[0] == {"a": 6, "b": 2}
    assert all(sum(each.values()) == 8 for each in sizes)
    assert sorted(read) == rows("a", 0, 30) + rows("b", 0, 10)


def test_octets_limit_a_batch(server: StreamServer) -> None:
    server.fill("q", 100, size=50)
    following = follower(server)
    assert following.latest(following.initial(), None, 500)["q"].offset == 10
    assert following.latest(following.initial(), 4, 500)["q"].offset == 4


def test_what_is_there_is_read_and_no_more(server: StreamServer) -> None:
    server.fill("a", 10)
    following = follower(server, queuePattern="[ab]", startingOffsets="latest")
    following.end_here()
    server.fill("a", 5)
    server.fill("b", 5)
    begin = following.initial()
    assert begin["a"].offset == 10
    assert run(following, begin) == (begin, [])
    behind = {"a": begin["a"]._replace(offset=4)}
    assert run(following, behind)[1] == rows("a", 4, 10)


def test_a_repeated_batch_reads_the_same(server: StreamServer) -> None:
    server.fill("a", 10)
    before = follower(server, queuePattern=".*")
    start = before.initial()
    server.fill("b", 10)
    planned = [(end, read) for end, read in batches(before, start, max_rows=7)]
    server.fill("a", 100)
    after = follower(server, queuePattern=".*")
    for end, read in planned:
        again = after.ranges(start, end)
        assert [(each.queue, at) for each in again for at in range(each.start, each.end)] == read
        start = end
    assert after._client is not before._client


def test_queues_come_go_and_return(server: StreamServer) -> None:
    server.fill("a", 5)
    following = follower(server, queuePattern="[ab]")
    end, read = run(following, following.initial())
    stream = server.fill("b", 5)
    end, read = run(following, end)
    assert read == rows("b", 0, 5)
    del server.streams["b"]
    server.fill("a", 1)
    end, read = run(following, end)
    assert read == rows("a", 5, 6)
    assert end["b"].offset == 5
    server.streams["b"] = stream
    server.fill("b", 2)
    assert run(following, end)[1] == rows("b", 5, 7)


def test_a_queue_that_is_named_again_goes_on_where_it_was(server: StreamServer) -> None:
    server.fill("a", 5)
    server.fill("b", 5)
    both = follower(server, queues="a,b")
    end, _ = run(both, both.initial())
    server.fill("b", 5)
    end, read = run(follower(server, queues="a"), end)
    assert (read, end["b"].offset) == ([], 5)
    assert run(follower(server, queues="a,b"), end)[1] == rows("b", 5, 10)


def test_a_named_queue_that_goes_is_an_error_after_a_wait(
    server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.fill("q", 5)
    following = follower(server, requestTimeoutMs="100")
    start = following.initial()
    del server.streams["q"]
    asked = len(server.seen.paths)
    with caplog.at_level(logging.WARNING), pytest.raises(QueueGone, match="no stream 'q'"):
        following.latest(start, None, None)
    assert len(server.seen.paths) - asked > 1
    assert caplog.text.count("waiting for it to be declared again") == 1
    # One that was never there is not waited for.
    asked = len(server.seen.paths)
    with pytest.raises(QueueGone):
        follower(server).latest({}, None, None)
    assert len(server.seen.paths) - asked == 1


@pytest.mark.parametrize("queues", ["q", "q,r"])
def test_a_queue_that_is_declared_again_after_a_pause(server: StreamServer, queues: str) -> None:
    server.fill("r", 1)
    server.fill("q", 10)
    lax = follower(server, queues=queues, onIncarnationChange="restart")
    strict = follower(server, queues=queues)
    end, _ = run(lax, lax.initial())
    del server.streams["q"]
    server.when_gone = lambda: server.fill("q", 3)
    with pytest.raises(IncarnationChanged, match="after message 9"):
        strict.latest(end, None, None)
    del server.streams["q"]
    server.when_gone = lambda: server.fill("q", 4)
    assert run(lax, end)[1] == rows("q", 0, 4)


def test_over_amqp_a_queue_that_goes_is_not_waited_for() -> None:
    with consumer_server("hareline") as server:
        server.streams["q"] = Scripted().fill(0, 10)
        following = follower(server, transport="amqp", retries="1000")
        at, _ = run(following, following.initial())
        del server.streams["q"]
        with pytest.raises(QueueGone, match="no stream 'q'"):
            following.latest(at, None, None)
        following.close()


def test_truncation_is_an_error_or_skipped(server: StreamServer) -> None:
    server.fill("q", 10)
    end, _ = run(follower(server), follower(server).initial())
    server.fill("q", 10).truncate(15)
    with pytest.raises(OffsetGone, match=r"messages 10 to 14 were dropped.*failOnDataLoss=false"):
        run(follower(server), end)
    lax = follower(server, failOnDataLoss="false")
    # The whole range: the tasks say how much of it is gone.
    assert run(lax, end)[1] == rows("q", 10, 20)
    assert next(batches(lax, end, max_rows=2))[0]["q"].offset == 17


def test_all_truncated_leaves_nothing_to_read_twice(server: StreamServer) -> None:
    server.fill("q", 10)
    following = follower(server, failOnDataLoss="false")
    end = following.initial()
    server.streams["q"].truncate(10)
    end, _ = run(following, end)
    assert end["q"].offset == 0
    server.fill("q", 1)
    assert run(following, end)[0]["q"].offset == 11


def test_a_lost_tail_is_an_error_in_any_case(server: StreamServer) -> None:
    server.fill("q", 10)
    following = follower(server, failOnDataLoss="false")
    end, _ = run(following, following.initial())
    server.streams["q"].regress(7)
    with pytest.raises(TailRegressed, match="up to 9 were read, and now it ends before 7"):
        following.latest(end, None, None)


def test_a_stream_declared_again_is_an_error_or_read_from_its_first(
    server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.fill("q", 10)
    end, _ = run(follower(server), follower(server).initial())
    server.declare("q")
    server.fill("q", 12).truncate(2)
    with pytest.raises(IncarnationChanged, match=r"after message 9.*onIncarnationChange=restart"):
        follower(server).latest(end, None, None)
    with caplog.at_level(logging.WARNING):
        assert run(follower(server, onIncarnationChange="restart"), end)[1] == rows("q", 2, 12)
    assert "declared again" in caplog.text


def test_news_end_the_wait_for_one_stream(server: StreamServer) -> None:
    server.fill("q", 10)
    following = follower(server, longPollMs="20000")
    end, _ = _one(following, following.initial())
    timer = threading.Timer(0.02, server.fill, ("q", 5))
    timer.start()
    assert _one(following, end)[1] == rows("q", 10, 15)
    timer.join()


def test_news_end_the_wait_for_several_streams(server: StreamServer) -> None:
    server.fill("a", 10)
    server.fill("b", 10)
    following = follower(server, queues="a,b", longPollMs="20000")
    end, _ = _one(following, following.initial())
    # The one that moved last is waited for.
    timer = threading.Timer(0.02, server.fill, (following._last_moved, 5))
    timer.start()
    assert len(_one(following, end)[1]) == 5
    timer.join()


def test_a_wait_ends_without_news(server: StreamServer) -> None:
    following = follower(server, queuePattern="[ab]", longPollMs="1")
    assert following.latest({}, None, None) == {}
    server.fill("a", 1)
    end, _ = run(following, following.latest({}, None, None))
    assert following.latest(end, None, None) == end


def test_what_is_seen_is_where_the_streams_end(server: StreamServer) -> None:
    server.fill("q", 10)
    following = follower(server)
    following.latest(following.initial(), 1, None)
    asked = len(server.seen.paths)
    assert following.seen()["q"].offset == 10
    assert following.amounts() == {
        "q": {"rows": 1, "octets": 20, "lag_rows": 9, "lag_octets": 180},
    }
    assert len(server.seen.paths) == asked


def test_a_position_is_reported_once(server: StreamServer) -> None:
    stream = server.fill("q", 10)
    following = follower(server, readerName="me", pinRetention="true")
    end, _ = run(following, following.initial())
    following.report(end)
    following.report(end)
    assert server.seen.readers == {
        ("q", "me"): {"offset": 10, "incarnation": stream.incarnation, "pin": True}
    }
    assert sum("PUT" in path for path in server.seen.paths) == 1
    follower(server).report(end)
    assert len(server.seen.readers) == 1


def test_a_position_that_cannot_be_reported_is_logged(
    server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.fill("q", 10)
    following = follower(server, readerName="me")
    server.faults.no_readers = True
    with caplog.at_level(logging.WARNING):
        following.report(following.initial())
    assert "the position of reader 'me' was not reported" in caplog.text
    server.faults.no_readers = False
    following.report(following.initial())
    assert server.seen.readers


def test_a_stream_that_retention_has_emptied_goes_on_where_it_was() -> None:
    with consumer_server("hareline") as server:
        stream = server.streams["q"] = Scripted().fill(0, 10)
        server.streams["r"] = Scripted()
        following = follower(server, transport="amqp", queues="q,r")
        at, read = run(following, following.initial())
        assert read == rows("q", 0, 10)
        stream.messages.clear()
        assert run(following, at) == (at, [])
        stream.fill(10, 12)
        at, read = run(following, at)
        assert read == rows("q", 10, 12)
        stream.messages.clear()
        stream.fill(0, 5)  # declared again
        with pytest.raises(TailRegressed, match="up to 11 were read, and now it ends before 5"):
            run(following, at)
        following.close()


def test_streams_that_say_nothing_of_their_end_are_waited_for() -> None:
    with consumer_server("hareline") as server:
        server.streams["q"] = server.streams["r"] = Scripted()
        following = follower(server, transport="amqp", queues="q,r", longPollMs="300")
        start = {"q": Position("", 5), "r": Position("", 7)}
        before = time.monotonic()
        assert following.latest(start, None, None) == start
        assert time.monotonic() - before >= 0.3
        following.close()


def _one(following: StreamFollower, start: Positions) -> tuple[Positions, Read]:
    """The next batch."""
    return next(batches(following, start))


positions = st.dictionaries(
    st.text(), st.builds(Position, st.text(min_size=1), st.integers(0, 1 << 63))
)


@given(vhost=st.text(), there=positions)
def test_positions_come_back(vhost: str, there: dict[str, Position]) -> None:
    text = json.dumps(to_json(vhost, there))
    assert from_json(vhost, json.loads(text)) == there


@given(there=positions)
def test_the_order_of_streams_does_not_change_the_text(there: dict[str, Position]) -> None:
    backwards = dict(reversed(there.items()))
    assert json.dumps(to_json("/", there)) == json.dumps(to_json("/", backwards))


def test_the_text_is_that_of_the_page() -> None:
    assert json.dumps(to_json("/", {"b": Position("x", 2), "a": Position("y", 1)})) == (
        '{"v": 1, "q": {"//a": {"i": "y", "o": 1}, "//b": {"i": "x", "o": 2}}}'
    )


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        ({"v": 2, "q": {}}, "offsets of version 2"),
        ({"q": {}}, "offsets of version None"),
        ({"v": 1}, "did not write"),
        ({"v": 1, "q": {"/a": 5}}, "did not write"),
        ({"v": 1, "q": {"/a": {"i": "x"}}}, "did not write"),
        ({"v": 1, "q": {"other/a": {"i": "x", "o": 1}}}, "'other/a' and the url has .* ''"),
    ],
)
def test_a_foreign_checkpoint_is_refused(offset: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidOption, match=f"{why}.*another checkpointLocation"):
        from_json("", offset)
