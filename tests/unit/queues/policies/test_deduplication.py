"""Ids by which a queue knows a duplicate: of the messages in it, or of the last so many."""

from __future__ import annotations

from typing import Any

import pytest

from hareline import events
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import DUPLICATE, REFUSED, TAKEN
from hareline.queues.policies.deduplication import DEFAULT_HEADER, IdCache, IdsInQueue
from hareline.queues.policies.overflow import Overflow
from hareline.wire.table import LongLong, Short, Table
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue


class KnowingQueue(TimedQueue):
    """``queue`` looks at ids: with a cache, or those of the messages in it."""

    def __init__(
        self, *, header: str | None = None, size: int | None = None, ttl_ms: int | None = None
    ) -> None:
        super().__init__()
        self.ids: IdsInQueue | IdCache
        if size is ttl_ms is None:
            self.ids = IdsInQueue("q", self.environment, header)
        else:
            self.ids = IdCache("q", self.environment, header, size, ttl_ms)
        self.queue.install(deduplication=self.ids)

    def put(self, value: object, **headers: Any) -> int:
        """Publish a message with this id."""
        table = Table({DEFAULT_HEADER: value, **headers})
        return self.queue.put(make_message(b"m", headers=table))

    def acquire(self) -> QueueEntry:
        (entry,) = self.queue.acquire(1)
        return entry


# ------------------------------------------------------------------------------------ what an id is


def test_an_id_is_a_value_of_one_type_and_integers_of_all_widths_are_one() -> None:
    stand = KnowingQueue()
    distinct = ["1", 1, 1.0, True, b"1", Table(), ""]
    assert [stand.put(value) for value in distinct] == [TAKEN] * len(distinct)
    assert [stand.put(value) for value in distinct] == [DUPLICATE] * len(distinct)
    assert stand.put(LongLong(1)) == stand.put(Short(1)) == DUPLICATE


@pytest.mark.row("S13")
def test_the_message_id_counts_where_the_default_header_is_missing() -> None:
    stand = KnowingQueue()
    plain = make_message(b"m", message_id="a")
    assert stand.queue.put(plain) == TAKEN
    assert plain.extras is None  # nothing decoded is kept
    assert stand.queue.put(make_message(b"m", message_id="a")) == DUPLICATE
    assert stand.put("a") == DUPLICATE
    assert stand.put("b", message_id="a") == TAKEN


def test_a_header_that_is_named_is_the_only_one() -> None:
    stand = KnowingQueue(header="order")
    for _ in range(2):
        assert stand.put("a") == TAKEN
        assert stand.queue.put(make_message(b"m", message_id="a")) == TAKEN
    assert stand.put("b", order=7) == TAKEN
    assert stand.put("c", order=7) == DUPLICATE


def test_messages_without_an_id_are_no_duplicates() -> None:
    stand = KnowingQueue()
    assert [stand.queue.put(make_message(b"m")) for _ in range(2)] == [TAKEN, TAKEN]
    assert stand.ids.id_count == 0


# ---------------------------------------------------------------------- ids of what is in the queue


@pytest.mark.parametrize("way", ["ack", "no-ack", "reject", "purge", "expiry", "settled in place"])
def test_an_id_is_free_when_its_message_has_left(way: str) -> None:
    stand = KnowingQueue()
    if way == "expiry":
        stand.expire(message_ttl_ms=100)
    stand.put("a")
    queue = stand.queue
    if way == "ack":
        queue.settle(stand.acquire())
    elif way == "no-ack":
        queue.settle_delivered([stand.acquire()])
    elif way == "reject":
        queue.reject([stand.acquire()])
    elif way == "purge":
        queue.purge()
    elif way == "expiry":
        stand.timers.advance(101)
    else:
        queue.settle_in_place(list(queue.order))
    assert stand.ids.id_count == 0
    assert stand.put("a") == TAKEN
    assert stand.put("a") == DUPLICATE


@pytest.mark.row("S13")
def test_a_message_that_a_consumer_has_or_gives_back_is_in_the_queue() -> None:
    stand = KnowingQueue()
    stand.put("a")
    entry = stand.acquire()
    assert stand.put("a") == DUPLICATE
    stand.queue.release([entry])
    assert stand.put("a") == DUPLICATE
    assert (stand.queue.ready_count, stand.ids.id_count) == (1, 1)


def test_a_duplicate_is_no_message_too_many_and_one_that_is_refused_leaves_no_id() -> None:
    stand = KnowingQueue()
    overflow = Overflow(
        stand.queue,
        stand.environment,
        max_length=1,
        max_length_bytes=None,
        policy="reject-publish",
    )
    stand.queue.install(overflow=overflow)
    assert [stand.put(each) for each in "aab"] == [TAKEN, DUPLICATE, REFUSED]
    stand.queue.purge()
    assert stand.put("b") == TAKEN


def test_a_message_that_is_pushed_out_frees_its_id() -> None:
    stand = KnowingQueue()
    overflow = Overflow(
        stand.queue, stand.environment, max_length=1, max_length_bytes=None, policy="drop-head"
    )
    stand.queue.install(overflow=overflow)
    assert [stand.put(each) for each in "aba"] == [TAKEN] * 3
    assert stand.ids.id_count == 1


# ------------------------------------------------------------------------------------------ a cache


@pytest.mark.row("S13")
def test_a_cache_knows_the_last_ids_whatever_became_of_their_messages() -> None:
    stand = KnowingQueue(size=2)
    stand.put("a")
    stand.queue.purge()
    assert [stand.put(each) for each in "abca"] == [DUPLICATE, TAKEN, TAKEN, TAKEN]
    assert stand.put("c") == DUPLICATE
    assert stand.put("b") == TAKEN  # the oldest had left


def test_a_cache_forgets_after_its_time_or_that_of_the_message() -> None:
    stand = KnowingQueue(size=10, ttl_ms=1_000)
    for value, headers in (
        ("a", {}),
        ("long", {"x-cache-ttl": 5_000}),
        ("never", {"x-cache-ttl": -1}),
        ("text", {"x-cache-ttl": "9"}),
    ):
        stand.put(value, **headers)
    stand.timers.advance(999)
    assert stand.put("a") == DUPLICATE  # which begins no time of its own
    stand.timers.advance(1)
    assert [stand.put(each) for each in ("a", "long", "never", "text")] == [
        TAKEN,
        DUPLICATE,
        TAKEN,
        TAKEN,
    ]
    stand.timers.advance(4_000)
    assert stand.put("long") == TAKEN


def test_a_smaller_cache_is_reached_step_by_step() -> None:
    stand = KnowingQueue(size=10)
    for number in range(10):
        stand.put(number)
    assert isinstance(stand.ids, IdCache)
    stand.ids.set_bounds(3, None)
    for number in range(10, 17):
        stand.put(number)
    assert stand.ids.id_count == 3
    assert stand.put(13) == TAKEN
    assert stand.put(16) == DUPLICATE


# ------------------------------------------------------------------------------------------ counted


def test_duplicates_are_counted_and_reported_once_a_minute() -> None:
    stand = KnowingQueue()
    for _ in range(4):
        stand.put("a")
    assert stand.reports.count(events.DUPLICATES) == 1
    stand.timers.advance(60_000)
    stand.put("a")
    assert stand.reports.count(events.DUPLICATES) == 2
    assert stand.ids.duplicate_count == stand.environment.duplicate_counts["queue"] == 4
