"""Where a reader begins: what the two arguments may say, and what is said of anything else."""

from __future__ import annotations

import pytest

from hareline.errors import PreconditionFailed
from hareline.queues.core.start_position import (
    FIRST,
    LAST,
    NEXT,
    StartPosition,
    read_start,
)
from hareline.wire.table import Table, Timestamp

NOW_MS = 1_700_000_000_000
PLACE = "queue 'q' in vhost '/'"
HOUR_MS = 3_600_000


def start_of(arguments: dict[str, object], inherited: tuple[str, ...] = ()) -> StartPosition:
    return read_start(Table(arguments), list(inherited), place=PLACE, now_ms=NOW_MS, default=FIRST)


def refusal(arguments: dict[str, object]) -> str:
    with pytest.raises(PreconditionFailed) as caught:
        start_of(arguments)
    return caught.value.explanation


@pytest.mark.row("A17")
@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("first", FIRST),
        ("last", LAST),
        ("next", NEXT),
        (0, StartPosition("offset", 0)),
        (2**40, StartPosition("offset", 2**40)),
        (Timestamp(1_600_000_000), StartPosition("time", 1_600_000_000_000)),
        ("1h", StartPosition("time", NOW_MS - HOUR_MS)),
        ("30m", StartPosition("time", NOW_MS - HOUR_MS // 2)),
        ("10s", StartPosition("time", NOW_MS - 10_000)),
        ("7D", StartPosition("time", NOW_MS - 7 * 24 * HOUR_MS)),
        ("1M", StartPosition("time", NOW_MS - 30 * 24 * HOUR_MS)),
        ("1Y", StartPosition("time", NOW_MS - 365 * 24 * HOUR_MS)),
    ],
)
def test_a_stream_offset_is_read_as_rabbitmq_reads_it(value: object, start: StartPosition) -> None:
    assert start_of({"x-stream-offset": value}) == start


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("soon", '{invalid_offset_arg,"soon"}'),
        ("First", '{invalid_offset_arg,"First"}'),
        ("", '{invalid_offset_arg,""}'),
        ("0s", '{invalid_offset_arg,"0s"}'),
        ("5", '{invalid_offset_arg,"5"}'),
        ('"', '{invalid_offset_arg,"\\""}'),
        (-1, "{value_negative,-1}"),
        (True, "{invalid_offset_arg,bool}"),
        (1.5, "{invalid_offset_arg,double}"),
        (None, "{invalid_offset_arg,void}"),
        ([1], "{invalid_offset_arg,array}"),
    ],
)
def test_any_other_stream_offset_is_refused(value: object, problem: str) -> None:
    assert refusal({"x-stream-offset": value}) == (
        f"invalid arg 'x-stream-offset' for {PLACE}: {problem}"
    )


@pytest.mark.row("A17")
@pytest.mark.parametrize(
    ("value", "start"),
    [
        (0, NEXT),
        ("0", NEXT),
        (0.0, NEXT),
        (3600, StartPosition("time", NOW_MS - HOUR_MS)),
        ("3600", StartPosition("time", NOW_MS - HOUR_MS)),
        (0.5, StartPosition("time", NOW_MS - 500)),
        ("0.25", StartPosition("time", NOW_MS - 250)),
        (10**18, FIRST),
        ("+60", StartPosition("time", NOW_MS - 60_000)),
        (-60, StartPosition("time", NOW_MS + 60_000)),
        ("-0.5", StartPosition("time", NOW_MS + 500)),
        (-0.0, NEXT),
        (-1e300, StartPosition("time", NOW_MS + 10**18)),
    ],
)
def test_a_replay_period_is_seconds_before_now(value: object, start: StartPosition) -> None:
    assert start_of({"x-qpid-replay-period": value}) == start


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("an hour", "\"expected seconds, got 'an hour'\""),
        ("", "\"expected seconds, got ''\""),
        ("--1", "\"expected seconds, got '--1'\""),
        (True, '"expected seconds, got bool"'),
        (float("nan"), '"expected seconds, got nan"'),
        (float("inf"), '"expected seconds, got inf"'),
        (Timestamp(5), '"expected seconds, got timestamp"'),
        (None, '"expected seconds, got void"'),
    ],
)
def test_any_other_replay_period_is_refused(value: object, problem: str) -> None:
    assert refusal({"x-qpid-replay-period": value}) == (
        f"invalid arg 'x-qpid-replay-period' for {PLACE}: {problem}"
    )


def test_two_starts_contradict_each_other() -> None:
    assert refusal({"x-stream-offset": "first", "x-qpid-replay-period": 0}) == (
        "contradictory args 'x-stream-offset' and 'x-qpid-replay-period' for "
        f"{PLACE}: one start at most"
    )


def test_a_consumer_that_says_nothing_starts_where_its_queue_says() -> None:
    assert start_of({}) == FIRST


@pytest.mark.row("A18")
def test_a_default_replay_period_is_inherited() -> None:
    assert start_of({}, ("3600",)) == StartPosition("time", NOW_MS - HOUR_MS)


@pytest.mark.row("A18")
def test_of_several_default_replay_periods_the_shortest_holds() -> None:
    assert start_of({}, ("3600", "60", "600")) == StartPosition("time", NOW_MS - 60_000)
    assert start_of({}, ("3600", "0", "600")) == NEXT
    assert start_of({}, ("0", "0.0001")) == NEXT
    assert start_of({}, ("3600", "0", "-5")) == StartPosition("time", NOW_MS + 5000)


@pytest.mark.row("A18")
def test_a_start_of_its_own_comes_before_an_inherited_one() -> None:
    assert start_of({"x-stream-offset": 5}, ("0",)) == StartPosition("offset", 5)
