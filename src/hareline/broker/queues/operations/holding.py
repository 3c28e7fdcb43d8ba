"""Messages that are not valid yet, or delayed by their exchange: shown, cancelled, made due now.

Called by ``management``. They are found by the queue's hold, in the order of their times, a share
at a time, since there may be a million of them.

Invariant: a message that is cancelled is settled without a word to anyone; one that is made due
goes the way that it would have gone at its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from hareline.broker.queues.books import settle_in_place
from hareline.broker.queues.entry import HELD, QueueEntry
from hareline.broker.queues.operations.moving import Outcome
from hareline.broker.queues.queue import Queue

LOOKED_AT_ONCE: Final = 2_048
MADE_DUE_AT_ONCE: Final = 64

Due = tuple[int, int, QueueEntry]  # the instant in epoch milliseconds, offset, entry


def held(
    queue: Queue, found: list[Due], *, count: int, after: tuple[int, int] | None = None
) -> Iterator[None]:
    """Fill ``found`` with the ``count`` messages that are due first, behind a time and offset."""
    schedule = [] if queue.hold is None else queue.hold.schedule()
    for start in range(0, len(schedule), LOOKED_AT_ONCE):
        share = [
            (due_ms, entry.offset, entry)
            for due_ms, entry in schedule[start : start + LOOKED_AT_ONCE]
            if entry.state == HELD and (after is None or (due_ms, entry.offset) > after)
        ]
        found[:] = nsmallest(count, [*found, *share])
        yield


def cancel_held(queue: Queue, offsets: frozenset[int] | None, outcome: Outcome) -> Iterator[None]:
    """Settle held messages; ``offsets`` None: all."""
    for entries in _chosen(queue, offsets, LOOKED_AT_ONCE):
        if entries:
            settle_in_place(queue, entries)
            _note(queue, entries, outcome)
        yield


def make_held_due(queue: Queue, offsets: frozenset[int] | None, outcome: Outcome) -> Iterator[None]:
    """Make held messages ready now, or have their exchange send them on."""
    for entries in _chosen(queue, offsets, MADE_DUE_AT_ONCE):
        if entries and queue.hold is not None:
            queue.hold.make_due(entries)
            _note(queue, entries, outcome)
        yield


def _chosen(
    queue: Queue, offsets: frozenset[int] | None, at_once: int
) -> Iterator[list[QueueEntry]]:
    """Shares of the held entries that are meant, the first to be due first."""
    schedule = [] if queue.hold is None else queue.hold.schedule()
    chosen = [each for each in schedule if offsets is None or each[1].offset in offsets]
    chosen.sort(key=_time_and_offset)
    for start in range(0, len(chosen), at_once):
        share = chosen[start : start + at_once]
        yield [entry for _, entry in share if entry.state == HELD and not queue.is_deleted]


def _time_and_offset(due: tuple[int, QueueEntry]) -> tuple[int, int]:
    return due[0], due[1].offset


def _note(queue: Queue, entries: list[QueueEntry], outcome: Outcome) -> None:
    for entry in entries:
        outcome.count(entry)
    if queue.environment is not None:
        outcome.ticket = queue.environment.store.ticket
