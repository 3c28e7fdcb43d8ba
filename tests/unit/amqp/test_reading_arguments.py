"""What a consumer may say about reading, and what a stream asks of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hareline.amqp.consumer_arguments import (
    KNOWN_OF_READING,
    ConsumerArguments,
    read_consumer_arguments,
)
from hareline.errors import PreconditionFailed
from hareline.queues.core.start_position import FIRST, LAST, NEXT, StartPosition
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.wire.methods import commands
from hareline.wire.table import Table, Timestamp

from .peer import Peer, SteppedBroker

NOW_MS = 1_700_000_000_000
PAGE = Path(__file__).parents[3] / "docs" / "non-destructive-queues.md"
PLAIN: dict[str, object] = {}
NON_DESTRUCTIVE: dict[str, object] = {"x-non-destructive": True}
STREAM: dict[str, object] = {"x-queue-type": "stream"}


def read(queue: dict[str, object], arguments: dict[str, object]) -> ConsumerArguments:
    return read_consumer_arguments(
        Table(arguments),
        parse_queue_arguments(Table(queue), queue="q", vhost="/"),
        queue="q",
        vhost="/",
        now_ms=NOW_MS,
    )


# ------------------------------------------------------------------------------ where it begins


@pytest.mark.parametrize(
    ("queue", "start"), [(PLAIN, FIRST), (NON_DESTRUCTIVE, FIRST), (STREAM, NEXT)]
)
def test_a_consumer_that_says_nothing(queue: dict[str, object], start: StartPosition) -> None:
    wish = read(queue, {})
    assert wish == ConsumerArguments(start=start)
    assert wish.since_ms == 0


@pytest.mark.row("A17")
@pytest.mark.parametrize("queue", [NON_DESTRUCTIVE, STREAM], ids=["qpid", "stream"])
def test_a_reader_begins_where_it_asks(queue: dict[str, object]) -> None:
    assert read(queue, {"x-stream-offset": "last"}).start == LAST
    assert read(queue, {"x-stream-offset": Timestamp(5)}).start == StartPosition("time", 5000)
    assert read(queue, {"x-qpid-replay-period": 60}).start == StartPosition("time", NOW_MS - 60_000)


@pytest.mark.row("A17")
@pytest.mark.parametrize(
    ("period", "since_ms"),
    [(0, NOW_MS), ("60", NOW_MS - 60_000), (10**18, 0), (-5, NOW_MS + 5000)],
)
def test_for_a_consumer_that_takes_a_replay_period_is_a_bound(
    period: object, since_ms: int
) -> None:
    assert read(PLAIN, {"x-qpid-replay-period": period}) == ConsumerArguments(since_ms=since_ms)


@pytest.mark.row("A17")
def test_for_a_reader_only_a_start_in_the_future_is_a_bound() -> None:
    ahead = StartPosition("time", NOW_MS + 5000)
    wish = read(NON_DESTRUCTIVE, {"x-qpid-replay-period": "-5"})
    assert wish == ConsumerArguments(start=ahead, since_ms=NOW_MS + 5000)
    assert read(PLAIN, {"x-browse": True, "x-qpid-replay-period": -5}).since_ms == NOW_MS + 5000
    stream_offset = {"x-stream-offset": Timestamp(NOW_MS // 1000 + 5)}
    assert read(STREAM, dict(stream_offset)) == ConsumerArguments(start=ahead)


@pytest.mark.row("A18")
def test_a_default_filter_may_begin_in_the_future() -> None:
    queue = {
        **NON_DESTRUCTIVE,
        "x-default-filters": {"later": {"x-qpid-replay-period": ["-10"]}},
    }
    assert read(queue, {}).since_ms == NOW_MS + 10_000


@pytest.mark.row("A18")
def test_a_default_filter_counts_for_those_that_take_as_well() -> None:
    queue = {"x-default-filters": {"recent": {"x-qpid-replay-period": ["10"]}}}
    assert read(dict(queue), {}).since_ms == NOW_MS - 10_000


@pytest.mark.row("A18")
def test_a_default_filter_gives_way_to_the_consumer_s_own_start() -> None:
    filters = {"x-qpid-replay-period": {"x-qpid-replay-period": ["10"]}}
    queue = {**NON_DESTRUCTIVE, "x-default-filters": filters}
    assert read(queue, {}).start == StartPosition("time", NOW_MS - 10_000)
    assert read(queue, {"x-stream-offset": "last"}).start == LAST
    assert read(queue, {"x-qpid-replay-period": 0}).start == NEXT


# ------------------------------------------------------------------------------------- browsers


@pytest.mark.row("A14")
@pytest.mark.parametrize("name", ["x-filter-no-consume", "x-browse"])
def test_a_browser_says_that_it_is_one(name: str) -> None:
    assert read(PLAIN, {name: True}) == ConsumerArguments(is_browser=True)
    assert read(PLAIN, {name: False}) == ConsumerArguments()
    browser = read(PLAIN, {name: True, "x-filter-auto-close": True, "x-qpid-replay-period": 5})
    assert browser == ConsumerArguments(
        is_browser=True, closes_at_end=True, start=StartPosition("time", NOW_MS - 5000)
    )


def test_where_all_are_readers_a_browser_is_one_of_them() -> None:
    wish = read(NON_DESTRUCTIVE, {"x-browse": True, "x-filter-auto-close": True})
    assert wish == ConsumerArguments(closes_at_end=True)


def test_one_that_takes_may_close_at_the_end_as_well() -> None:
    wish = read(PLAIN, {"x-filter-auto-close": True})
    assert wish == ConsumerArguments(closes_at_end=True)


# ------------------------------------------------------------------------------ stream filters


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ({"x-stream-filter": "eu"}, {"eu"}),
        ({"x-stream-filter": ["eu", "us", "eu"]}, {"eu", "us"}),
        ({"x-stream-filter": "eu", "x-stream-match-unfiltered": False}, {"eu"}),
        ({"x-stream-filter": "eu", "x-stream-match-unfiltered": True}, {"eu", ""}),
        ({"x-stream-match-unfiltered": True}, None),
        ({}, None),
    ],
)
def test_a_stream_s_consumer_names_filter_values(
    arguments: dict[str, object], values: set[str] | None
) -> None:
    assert read(STREAM, arguments).stream_filter == values


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("x-stream-filter", 5, "{unacceptable_type,long}"),
        ("x-stream-filter", None, "{unacceptable_type,void}"),
        ("x-stream-filter", Table(a=1), "{unacceptable_type,table}"),
        ("x-stream-filter", ["eu", True], "{unacceptable_type,bool}"),
        ("x-stream-filter", [["eu"]], "{unacceptable_type,array}"),
        ("x-stream-filter", [], '"expected at least one filter value"'),
        ("x-stream-match-unfiltered", "true", "{unacceptable_type,longstr}"),
    ],
)
def test_any_other_stream_filter_is_refused(name: str, value: object, problem: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read(STREAM, {name: value})
    # differs: stream-filter-type
    assert caught.value.explanation == f"invalid arg '{name}' for queue 'q' in vhost '/': {problem}"


@pytest.mark.parametrize("name", ["x-filter-no-consume", "x-browse", "x-filter-auto-close"])
@pytest.mark.parametrize(("value", "kind"), [("true", "longstr"), (1, "long"), (None, "void")])
def test_a_switch_is_a_boolean(name: str, value: object, kind: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read(PLAIN, {name: value})
    assert caught.value.explanation == (
        f"invalid arg '{name}' for queue 'q' in vhost '/': {{unacceptable_type,{kind}}}"
    )


# -------------------------------------------------------------------------- over a connection


def stream(peer: Peer, **arguments: Any) -> None:
    peer.declare("q", durable=True, arguments={"x-queue-type": "stream", **arguments})


def test_a_stream_s_consumer_needs_a_limit(peer: Peer) -> None:
    stream(peer)
    assert peer.refused(1, commands.Basic.Consume, queue="q") == (
        406,
        "PRECONDITION_FAILED - consumer prefetch count is not set for stream queue 'q' in "
        "vhost '/'",
    )


@pytest.mark.parametrize(
    "qos", [{"prefetch_count": 5}, {"prefetch_count": 5, "global_": True}], ids=["own", "global"]
)
def test_any_limit_will_do(peer: Peer, qos: dict[str, object]) -> None:
    stream(peer)
    peer.call(1, commands.Basic.Qos, **qos)
    peer.call(1, commands.Basic.Consume, queue="q", consumer_tag="t")


def test_a_limit_of_its_own_will_do(peer: Peer) -> None:
    stream(peer)
    peer.call(
        1, commands.Basic.Consume, queue="q", consumer_tag="t", arguments={"x-prefetch-count": 5}
    )


def test_no_limit_helps_a_consumer_that_does_not_acknowledge(peer: Peer) -> None:
    stream(peer)
    peer.call(1, commands.Basic.Qos, prefetch_count=5)
    assert peer.refused(1, commands.Basic.Consume, queue="q", no_ack=True) == (
        540,
        "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues queue 'q' in "
        "vhost '/'",
    )


@pytest.mark.parametrize(
    ("method", "name"),
    [(commands.Basic.Get, "basic.get"), (commands.Queue.Purge, "queue.purge")],
)
def test_a_stream_has_no_get_and_no_purge(peer: Peer, method: Any, name: str) -> None:
    stream(peer)
    assert peer.refused(1, method, queue="q") == (
        540,
        f"NOT_IMPLEMENTED - {name} not supported by stream queues queue 'q' in vhost '/'",
    )


@pytest.mark.parametrize("name", ["x-stream-filter", "x-stream-match-unfiltered"])
def test_only_streams_have_stream_filters(peer: Peer, name: str) -> None:
    peer.declare("q", arguments=NON_DESTRUCTIVE)
    code, text = peer.refused(
        1, commands.Basic.Consume, queue="q", arguments={name: "x", "x-stream-offset": "first"}
    )
    assert code == 406
    assert text.startswith(f"PRECONDITION_FAILED - invalid arg '{name}' for queue 'q'")


def test_get_without_acknowledgement_leaves_the_books_right(
    peer: Peer, broker: SteppedBroker
) -> None:
    peer.declare("q", arguments=NON_DESTRUCTIVE)
    peer.fill("q", b"1", b"2")
    for _ in range(3):
        got = peer.call(1, commands.Basic.Get, queue="q", no_ack=True)
        assert got.message_count == 2
    assert broker.queue("q").unacked_count == 0
    assert broker.queue("q").ready_count == 2


def test_a_closed_channel_gives_back_what_it_read(peer: Peer, broker: SteppedBroker) -> None:
    peer.declare("q", arguments=NON_DESTRUCTIVE)
    peer.fill("q", b"1", b"2", b"3")
    peer.consume("q", "t")
    assert len(peer.receive()) == 4
    assert broker.queue("q").unacked_count == 3
    peer.call(1, commands.Channel.Close)
    assert broker.queue("q").unacked_count == 0
    assert broker.queue("q").ready_count == 3


def test_readings_settle_in_transactions_too(peer: Peer, broker: SteppedBroker) -> None:
    peer.declare("q", arguments=NON_DESTRUCTIVE)
    peer.fill("q", b"1", b"2", b"3")
    peer.call(1, commands.Tx.Select)
    peer.consume("q", "t")
    assert len(peer.receive()) == 4
    peer.send(1, commands.Basic.Ack, delivery_tag=1)
    peer.send(1, commands.Basic.Reject, delivery_tag=2, requeue=False)
    peer.send(1, commands.Basic.Reject, delivery_tag=3, requeue=True)
    peer.call(1, commands.Tx.Commit)
    assert broker.queue("q").unacked_count == 0
    assert broker.queue("q").ready_count == 3


@pytest.mark.row("A14")
def test_a_browser_that_reaches_the_end_gets_a_basic_cancel(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.send(
        1,
        commands.Basic.Consume,
        queue="q",
        consumer_tag="t",
        arguments={"x-filter-no-consume": True, "x-filter-auto-close": True},
    )
    names = [one.name for one in peer.receive()]
    assert names == ["basic.consume-ok", "basic.deliver", "basic.deliver", "basic.cancel"]


def test_a_consumer_that_finds_its_queue_empty_gets_a_basic_cancel(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.send(
        1,
        commands.Basic.Consume,
        queue="q",
        consumer_tag="t",
        arguments={"x-filter-auto-close": True},
    )
    names = [one.name for one in peer.receive()]
    assert names == ["basic.consume-ok", "basic.deliver", "basic.deliver", "basic.cancel"]


def test_the_page_lists_every_argument() -> None:
    rows = {
        line.split("|")[1].strip().strip("`")
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    }
    assert rows >= KNOWN_OF_READING
