"""Which ordering, lane and policies a queue has that is made of arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest

from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.making import (
    QueueDefaults,
    level_reader,
    make_delay_queue,
    make_order,
    make_queue,
)
from hareline.message import Table
from hareline.queues.core.kinds import NO_DELIVERY_LIMIT, DeathReason
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.queues.declare.table import QueueArguments
from hareline.queues.dispatch.plain import PlainLane
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.priority import PriorityOrder
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.policies.delay import Delay
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue

GROUP = {"x-message-group-key": "g"}
SELECTOR = {"x-default-filters": {"f": {"x-filter-jms-selector": ["a = 1"]}}}


def parse(arguments: Mapping[str, object]) -> QueueArguments:
    return parse_queue_arguments(Table(arguments), queue="q", vhost="/")


@pytest.fixture
def place() -> TimedQueue:
    return TimedQueue()


def make(place: TimedQueue, default_exchange: str | None = None, **arguments: Any) -> Queue:
    """``arguments``: with underscores in place of the hyphens, and without the leading x."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return make_of(place, named, default_exchange)


def make_of(
    place: TimedQueue, arguments: Mapping[str, object], default_exchange: str | None = None
) -> Queue:
    return make_queue(
        "q",
        parse(arguments),
        place.turn,
        place.environment,
        QueueDefaults(default_exchange),
        is_durable=False,
        is_auto_delete=False,
        owner=None,
        on_unused=None,
        on_expired=lambda queue: None,
    )


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        ({}, FifoOrder),
        ({"x-max-priority": 5}, PriorityOrder),
        ({"x-qpid-priorities": 5}, PriorityOrder),
        ({"x-sort-key": "k"}, SortedOrder),
        ({"x-last-value-key": "k"}, LastValueOrder),
        ({"x-non-destructive": True}, LogOrder),
        ({"x-queue-type": "stream"}, LogOrder),
        ({"x-last-value-key": "k", "x-non-destructive": True}, LogOrder),
    ],
)
def test_the_ordering_that_is_asked_for(arguments: dict[str, object], order: type) -> None:
    parsed = parse(arguments)
    assert type(make_order(parsed)) is order
    assert (level_reader(parsed) is not None) == (order is PriorityOrder)


def test_last_values_have_one_book_in_either_ordering(place: TimedQueue) -> None:
    assert make(place, last_value_key="k").last_values is not None
    assert make(place, last_value_key="k", non_destructive=True).last_values is not None
    assert make(place).last_values is None


@pytest.mark.parametrize(
    ("arguments", "lane"),
    [
        ({}, PlainLane),
        (GROUP, SelectiveLane),
        (SELECTOR, SelectiveLane),
        ({"x-non-destructive": True}, ReadingLane),
        ({"x-non-destructive": True, **GROUP}, ReadingLane),
    ],
    ids=["plain", "groups", "selector", "reading", "reading groups"],
)
def test_the_lane_that_is_needed(
    place: TimedQueue, arguments: dict[str, object], lane: type
) -> None:
    assert type(make_of(place, arguments).lane) is lane


def test_policies_are_there_only_where_they_are_asked_for(place: TimedQueue) -> None:
    plain = make(place)
    parts = ("expiry", "hold", "overflow", "dead_letters", "lease")
    assert [getattr(plain, part) for part in parts] == [None] * 5
    assert not plain.needs_admission
    full = make(
        place,
        message_ttl=1000,
        hold_on_publish=True,
        max_length=5,
        dead_letter_exchange="dlx",
        expires=1000,
    )
    assert all(getattr(full, part) is not None for part in parts)
    assert full.needs_admission
    full.delete()


def test_the_limits_of_a_stream_are_no_overflow(place: TimedQueue) -> None:
    stream = make(place, queue_type="stream", max_length_bytes=100)
    assert stream.overflow is None
    assert isinstance(stream.lane, ReadingLane)
    assert stream.lane.retention is not None


@pytest.mark.parametrize(
    ("arguments", "limit", "is_shown"),
    [
        ({}, NO_DELIVERY_LIMIT, False),
        ({"x-delivery-limit": 3}, 3, True),
        ({"x-delivery-limit": -1}, NO_DELIVERY_LIMIT, False),
        ({"maximumDeliveryAttempts": 3}, 2, True),
        ({"maximumDeliveryAttempts": 0}, NO_DELIVERY_LIMIT, False),
        ({"x-queue-type": "quorum"}, 20, True),
        ({"x-queue-type": "quorum", "x-delivery-limit": -1}, NO_DELIVERY_LIMIT, True),
    ],
)
def test_how_often_an_entry_may_come_back(
    place: TimedQueue, arguments: dict[str, object], limit: int, *, is_shown: bool
) -> None:
    queue = make_of(place, arguments)
    assert (queue.delivery_limit, queue.shows_delivery_count) == (limit, is_shown)


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        ({"x-dead-letter-exchange": "dlx"}, {"rejected", "expired", "maxlen", "delivery_limit"}),
        ({"alternateExchange": "dlx"}, {"rejected", "delivery_limit", "deleted"}),
        ({"x-dlq-auto": True}, {"rejected", "delivery_limit", "deleted"}),
        (
            {"alternateBinding": '{"destination": "d"}', "expiryPolicy": "ROUTE_TO_ALTERNATE"},
            {"rejected", "delivery_limit", "deleted", "expired"},
        ),
        (
            {"x-dead-letter-exchange": "dlx", "expiryPolicy": "DELETE"},
            {"rejected", "maxlen", "delivery_limit"},
        ),
    ],
)
def test_arguments_say_which_deaths_are_published(
    place: TimedQueue, arguments: dict[str, object], reasons: set[str]
) -> None:
    letters = make_of(place, arguments).dead_letters
    assert letters is not None
    assert {reason for reason in get_args(DeathReason) if letters.wants(reason)} == reasons


def test_without_a_target_there_are_no_dead_letters(place: TimedQueue) -> None:
    assert make(place, max_length=5).dead_letters is None
    assert make(place, default_exchange="amq.dead").dead_letters is not None


def test_transient_messages_are_dead_lettered_unless_that_is_refused(place: TimedQueue) -> None:
    routed: list[str] = []

    def route(exchange: str, keys: list[str], message: object) -> tuple[tuple[()], tuple[()]]:
        routed.append(exchange)
        return (), ()

    place.environment = replace(place.environment, route=route)
    taking = {"x-dead-letter-exchange": ""}
    for arguments in (taking, {**taking, "x-dead-letter-transient": False}):
        letters = make_of(place, arguments).dead_letters
        assert letters is not None
        letters.publish_message(make_message(b"m"), "rejected")
    assert routed == [""]


@pytest.mark.parametrize(("queue_type", "left"), [("stream", 1), ("classic", 0)])
def test_messages_with_a_time_to_live_stay_in_a_stream(
    place: TimedQueue, queue_type: str, left: int
) -> None:
    queue = make_of(place, {"x-queue-type": queue_type})
    queue.put(make_message(b"m", expiration="10").expiring_at(place.clock.now_ms + 10))
    place.pass_time(20)
    assert queue.ready_count == left


def test_a_delay_queue_belongs_to_its_exchange(place: TimedQueue) -> None:
    exchange = DelayedExchange("d", is_durable=True, arguments={"x-delayed-type": "fanout"})
    queue = make_delay_queue(exchange, place.turn, place.environment, lambda *_: ((), ()))
    assert exchange.delay_queue is queue
    assert (queue.name, queue.owner, queue.is_durable) == ("amq.delayed.d", exchange, True)
    assert isinstance(queue.hold, Delay)
    assert queue.is_timeless
    queue.put(make_message(b"m"))
    assert (queue.ready_count, queue.held_count) == (0, 1), "all are held"
