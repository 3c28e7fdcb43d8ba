"""The arguments of basic.consume: what is taken, what is refused, what a queue adds of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hareline.amqp.client import QPID
from hareline.amqp.consumer_arguments import (
    KNOWN,
    ConsumerArguments,
    inherited_filters,
    read_consumer_arguments,
)
from hareline.errors import PreconditionFailed
from hareline.queues.core.start_position import FIRST, NEXT, REPLAY_PERIOD
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.queues.declare.readers import SELECTOR, DefaultFilter
from hareline.queues.declare.table import QueueArguments
from hareline.selectors.selector import Selector
from hareline.wire.table import Short, SignedInt, Table, Timestamp
from tests.support.messages import make_message

PAGE = Path(__file__).resolve().parents[3] / "docs" / "consumers.md"


def read(
    arguments: dict[str, object], queue_arguments: QueueArguments | None = None
) -> ConsumerArguments:
    return read_consumer_arguments(
        arguments, queue_arguments or QueueArguments(raw={}), queue="q", vhost="/", now_ms=0
    )


def refusal(arguments: dict[str, object]) -> str:
    with pytest.raises(PreconditionFailed) as caught:
        read(arguments)
    return str(caught.value)


def with_filters(*filters: DefaultFilter) -> QueueArguments:
    return QueueArguments(raw={}, default_filters=filters)


def takes(selector: Selector | None, **headers: object) -> bool:
    assert selector is not None
    return selector.matches(make_message(headers=Table(headers)))


def test_without_arguments_a_consumer_is_like_any_other() -> None:
    assert read({}) == ConsumerArguments(
        priority=0, prefetch_count=None, refill_percent=100, selector=None
    )


def test_what_nobody_knows_is_ignored() -> None:
    assert read({"x-colour": "red", "x-prefetch": -1}) == ConsumerArguments()


@pytest.mark.parametrize("value", [0, 1, Short(7), SignedInt(-3)])
def test_a_priority_is_any_integer(value: int) -> None:
    assert read({"x-priority": value}).priority == value


@pytest.mark.parametrize(
    ("value", "place"),
    [("10", 1), (SignedInt(10), 1), ("-5", 0), ("+2147483647", 2), (2**31 - 1, 2)],
)
def test_a_priority_of_qpid_is_below_that_of_who_asks_for_none(value: object, place: int) -> None:
    """It may be text, of which ``place`` is the order; the highest is what others have."""
    others = [qpid_priority("-2147483648"), qpid_priority("9"), qpid_priority("2147483646")]
    own = qpid_priority(value)
    assert sum(other < own for other in others) == place + 1
    assert own <= 0
    assert (own == 0) == (place == 2)


def qpid_priority(value: object) -> int:
    return read_consumer_arguments(
        {"x-priority": value},
        QueueArguments(raw={}),
        queue="q",
        vhost="/",
        now_ms=0,
        dialect=QPID,
    ).priority


@pytest.mark.parametrize(
    ("value", "term"),
    [
        ("high", "\"expected integer, got 'high'\""),
        ("", "\"expected integer, got ''\""),
        ("1.5", "\"expected integer, got '1.5'\""),
        (True, '"expected integer, got bool"'),
        (None, '"expected integer, got void"'),
        ("2147483648", "{max_value_exceeded,2147483648}"),
    ],
)
def test_a_priority_of_qpid_that_is_no_number_is_refused(value: object, term: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        qpid_priority(value)
    assert str(caught.value) == f"invalid arg 'x-priority' for queue 'q' in vhost '/': {term}"


@pytest.mark.parametrize("value", [0, 1, SignedInt(500), 100_000])
def test_a_prefetch_count_is_any_count_and_0_is_one(value: int) -> None:
    assert read({"x-prefetch-count": value}).prefetch_count == value


@pytest.mark.parametrize("value", [1, 50, SignedInt(100)])
def test_a_refill_is_a_percentage(value: int) -> None:
    assert read({"x-prefetch-refill": value}).refill_percent == value


@pytest.mark.parametrize(
    ("name", "value", "term"),
    [
        ("x-priority", "high", '"expected integer, got longstr"'),
        ("x-priority", None, '"expected integer, got void"'),
        ("x-priority", Timestamp(1), '"expected integer, got timestamp"'),
        ("x-cancel-on-ha-failover", 1, "{unacceptable_type,long}"),
        ("x-prefetch-count", "5", '"expected integer, got longstr"'),
        ("x-prefetch-count", True, '"expected integer, got bool"'),
        ("x-prefetch-count", -1, "{value_negative,-1}"),
        ("x-prefetch-refill", 0.5, '"expected integer, got double"'),
        ("x-prefetch-refill", 0, "{value_zero,0}"),
        ("x-prefetch-refill", -50, "{value_negative,-50}"),
        ("x-prefetch-refill", 101, "{max_value_exceeded,101}"),
        ("x-min-priority", 256, "{max_value_exceeded,256}"),
        (SELECTOR, 1, "expected a string"),
        (SELECTOR, b"a = 1", "expected a string"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: object, term: str) -> None:
    assert refusal({name: value}) == f"invalid arg '{name}' for queue 'q' in vhost '/': {term}"


def test_the_width_on_the_wire_names_the_type() -> None:
    table = Table({"x-prefetch-count": Timestamp(9)})
    with pytest.raises(PreconditionFailed, match=r"expected integer, got timestamp"):
        read_consumer_arguments(table, QueueArguments(raw={}), queue="q", vhost="/", now_ms=0)


def test_a_selector_that_is_none_is_refused_with_what_is_wrong() -> None:
    assert refusal({SELECTOR: "size ="}) == (
        "invalid arg 'x-filter-jms-selector' for queue 'q' in vhost '/': invalid selector: "
        "expected a name, a value, NOT or (, at the end"
    )


@pytest.mark.parametrize("text", ["", "  ", "\t\n", None])
def test_a_blank_selector_is_none(text: str | None) -> None:
    assert read({SELECTOR: text}).selector is None


def test_a_selector_is_compiled() -> None:
    selector = read({SELECTOR: "size > 3"}).selector
    assert takes(selector, size=4)
    assert not takes(selector, size=3)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("x-stream-offset", ConsumerArguments(start=FIRST)),
        ("x-stream-filter", ConsumerArguments(start=NEXT, stream_filter=frozenset({"first"}))),
    ],
)
def test_arguments_of_streams_are_for_streams(name: str, asked: ConsumerArguments) -> None:
    assert refusal({name: "first"}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    )
    stream = QueueArguments(raw={}, queue_type="stream")
    assert read({name: "first"}, stream) == asked


def test_a_lowest_priority_holds_beside_every_selector() -> None:
    queue = with_filters(DefaultFilter("red", SELECTOR, "colour = 'red'"))
    selector = read({"x-min-priority": 5, SELECTOR: "size = 2 OR size = 3"}, queue).selector
    assert selector is not None
    for priority, size, colour, is_taken in (
        (5, 3, "red", True),
        (4, 3, "red", False),
        (None, 2, "red", False),
        (9, 4, "red", False),
        (9, 2, "blue", False),
    ):
        headers = Table({"size": size, "colour": colour})
        assert selector.matches(make_message(priority=priority, headers=headers)) is is_taken
    assert read({"x-min-priority": 0}).selector is None


# --------------------------------------------------------------------------- what a queue adds


@pytest.mark.row("A18")
def test_a_default_selector_is_inherited() -> None:
    queue = with_filters(DefaultFilter(SELECTOR, SELECTOR, "size > 3"))
    cases: list[dict[str, object]] = [{}, {SELECTOR: " "}, {SELECTOR: None}, {"x-priority": 1}]
    for arguments in cases:
        selector = read(arguments, queue).selector
        assert takes(selector, size=4)
        assert not takes(selector, size=3)


@pytest.mark.row("A18")
def test_a_consumers_own_selector_takes_the_place_of_the_default_of_that_name() -> None:
    queue = with_filters(DefaultFilter(SELECTOR, SELECTOR, "size > 3"))
    selector = read({SELECTOR: "size < 3"}, queue).selector
    assert takes(selector, size=2)


@pytest.mark.row("A18")
def test_defaults_under_other_names_hold_besides_the_consumers_own() -> None:
    queue = with_filters(
        DefaultFilter("small", SELECTOR, "size < 10 OR size > 100"),
        DefaultFilter("red", SELECTOR, "colour = 'red' OR colour = 'pink'"),
    )
    own = read({SELECTOR: "size = 2 OR size = 20"}, queue).selector
    assert takes(own, size=2, colour="pink")
    assert not takes(own, size=20, colour="pink")
    assert not takes(own, size=2, colour="blue")
    assert not takes(own, size=3, colour="red")
    inherited = read({}, queue).selector
    assert takes(inherited, size=3, colour="red")
    assert not takes(inherited, size=3, colour="blue")


def test_a_selector_that_the_queue_has_too_is_asked_once() -> None:
    queue = with_filters(DefaultFilter("mine", SELECTOR, "size > 3"))
    selector = read({SELECTOR: "size > 3"}, queue).selector
    assert selector is not None
    assert selector.text == "size > 3"


def test_a_broken_selector_is_refused_as_the_client_wrote_it() -> None:
    queue = with_filters(DefaultFilter("mine", SELECTOR, "size > 3"))
    with pytest.raises(PreconditionFailed, match=r"at character 6, near `\) OR \(b = 2`"):
        read({SELECTOR: "a = 1) OR (b = 2"}, queue)


@pytest.mark.row("A18")
def test_inherited_filters_are_those_of_the_type_that_the_consumer_did_not_replace() -> None:
    queue = with_filters(
        DefaultFilter(REPLAY_PERIOD, REPLAY_PERIOD, "0"),
        DefaultFilter("hour", REPLAY_PERIOD, "3600"),
        DefaultFilter(SELECTOR, SELECTOR, "size > 3"),
    )
    assert inherited_filters({}, queue, REPLAY_PERIOD) == ["0", "3600"]
    assert inherited_filters({REPLAY_PERIOD: 5}, queue, REPLAY_PERIOD) == ["3600"]
    assert inherited_filters({SELECTOR: "a = 1"}, queue, REPLAY_PERIOD) == ["0", "3600"]
    assert inherited_filters({SELECTOR: "a = 1"}, queue, SELECTOR) == []
    assert inherited_filters({}, QueueArguments(raw={}), SELECTOR) == []


def test_a_queue_is_not_made_with_a_default_selector_that_is_none() -> None:
    table = {"x-default-filters": {"f": {SELECTOR: ["size >"]}}}
    with pytest.raises(PreconditionFailed) as caught:
        parse_queue_arguments(table, queue="q", vhost="/")
    assert str(caught.value) == (
        "invalid arg 'x-default-filters' for queue 'q' in vhost '/': \"filter 'f' has an invalid "
        'selector: invalid selector: expected a name, a value, NOT or (, at the end"'
    )


# ---------------------------------------------------------------------------------- the page


def test_the_page_has_a_row_for_each_argument_that_is_read() -> None:
    rows = re.findall(r"^\| `(x-[\w-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) >= KNOWN
    assert len(rows) == len(set(rows))
