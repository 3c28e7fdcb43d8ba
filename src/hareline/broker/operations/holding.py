"""Messages that are not valid yet, or delayed by their exchange: shown, cancelled, made due now.

Called by ``management``. They are found by the queue's hold, in the order of their times, a share
at a time, since there may be a million of them.

Invariant: a message that is cancelled is settled without a word to anyone; one that is made due
goes the way that it would have gone at its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, nsmallest
from typing import Final

from hareline.broker.operations.moving import Outcome
from hareline.queues.core.entry import HELD, QueueEntry
from hareline.queues.policies.delay import Delay
from hareline.queues.queue import Queue

LOOKED_AT_ONCE: Final = 2_048
CANCELLED_AT_ONCE: Final = 256
MADE_DUE_AT_ONCE: Final = 64

Due = tuple[int, int, QueueEntry]  # the instant in epoch milliseconds, offset, entry


def held(
    queue: Queue, found: list[Due], *, count: int, after: tuple[int, int] | None = None
) -> Iterator[None]:
    """Fill ``found`` with the ``count`` messages that are due first, behind a time and offset."""
    for share in _shares_of(_schedule(queue)):
        behind = [each for each in share if after is None or each[:2] > after]
        found[:] = nsmallest(count, [*found, *behind])
        yield


def cancel_held(
    queue: Queue,
    offsets: frozenset[int] | None,
    outcome: Outcome,
    schedule_ids: Sequence[str] = (),
) -> Iterator[None]:
    """Settle held messages, those of the schedules too; ``offsets`` None: all."""
    for entries in _chosen(queue, offsets, schedule_ids, CANCELLED_AT_ONCE):
        if entries:
            queue.settle_in_place(entries)
            _note(queue, entries, outcome)
        yield


def make_held_due(
    queue: Queue,
    offsets: frozenset[int] | None,
    outcome: Outcome,
    schedule_ids: Sequence[str] = (),
) -> Iterator[None]:
    """Make held messages ready now, or have their exchange send them on; as ``cancel_held``."""
    for entries in _chosen(queue, offsets, schedule_ids, MADE_DUE_AT_ONCE):
        if entries and queue.hold is not None:
            queue.hold.make_due(entries)
            _note(queue, entries, outcome)
        yield


def _chosen(
    queue: Queue, offsets: frozenset[int] | None, schedule_ids: Sequence[str], at_once: int
) -> Iterator[list[QueueEntry]]:
    """Shares of the held entries that are meant, the first to be due first; some are empty.

    Those of schedules come before. They are looked up in the step that takes them, since a firing
    gives the message of a schedule another offset.
    """
    hold = queue.hold
    if isinstance(hold, Delay):
        ids = list(dict.fromkeys(schedule_ids))
        for start in range(0, len(ids), at_once):
            yield hold.scheduled(ids[start : start + at_once])
    heap = _schedule(queue)
    if offsets is not None:
        meant: list[Due] = []
        for found in _shares_of(heap):
            meant += [each for each in found if each[1] in offsets]
            yield []
        heap = sorted(meant)  # no more than a request may name, and a heap
    while heap:
        share = [heappop(heap)[2] for _ in range(min(at_once, len(heap)))]
        yield [entry for entry in share if entry.state == HELD and not queue.is_deleted]


def _schedule(queue: Queue) -> list[Due]:
    return [] if queue.hold is None else queue.hold.schedule()


def _shares_of(heap: list[Due]) -> Iterator[list[Due]]:
    for start in range(0, len(heap), LOOKED_AT_ONCE):
        yield [each for each in heap[start : start + LOOKED_AT_ONCE] if each[2].state == HELD]


def _note(queue: Queue, entries: list[QueueEntry], outcome: Outcome) -> None:
    for entry in entries:
        outcome.count(entry)
    if queue.environment is not None:
        outcome.ticket = queue.environment.store.ticket
