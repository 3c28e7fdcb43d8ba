"""The ready entries of any queue in the order in which they are served, in shares of time.

``operations.browsing`` and ``operations.selecting`` walk; each share is some hundred entries, left
where they are, and between two shares the queue goes on as it likes. What comes, leaves or is
parked meanwhile may be shown or not; no entry is shown twice. Entries that the lane has parked are
merged in by their rank.

Invariant: a walk changes nothing that a consumer can see.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import Any, Final

from hareline.errors import StoreError
from hareline.message import Message, StoredMessage
from hareline.queues.core.entry import PARKED, READY, QueueEntry
from hareline.queues.orders.order import WALKED_AT_ONCE
from hareline.queues.queue import Queue

SORTED_AT_ONCE: Final = 2_048  # parked entries: a millisecond or two
READ_AT_ONCE_BYTES: Final = 1_048_576

_by_rank: Final = itemgetter(0)


def walk(
    queue: Queue, after: Any = None, *, is_backwards: bool = False
) -> Iterator[list[QueueEntry]]:
    """Shares of the ready entries behind a rank, or from the end and before it; some are empty."""
    order = queue.order
    shares = order.walk(after, is_backwards=is_backwards)
    parking = queue.lane.parking
    if not parking.count:
        yield from shares
        return
    blocks: list[list[tuple[Any, QueueEntry]]] = []
    for share in parked_shares(queue):
        ranked = [
            each
            for each in share
            if after is None or (each[0] < after if is_backwards else each[0] > after)
        ]
        ranked.sort(key=_by_rank, reverse=is_backwards)
        blocks.append(ranked)
        yield []
    parked = _each_once(merge(*blocks, key=_by_rank, reverse=is_backwards))
    yield from _merged(queue, shares, parked, is_backwards)


def parked_shares(queue: Queue) -> Iterator[list[tuple[Any, QueueEntry]]]:
    """Shares of what the lane has parked, with ranks, in no order; an entry may come twice.

    The lane's runs are copied as it goes. Where a consumer has brought another selector meanwhile,
    the entries are in other runs, so all are copied again, at once.
    """
    parking = queue.lane.parking
    clearings = parking.clearings
    copied: list[tuple[Any, QueueEntry]] = []
    left = SORTED_AT_ONCE
    for run in parking.runs():
        ranked = run.ranked()
        copied += ranked
        left -= 1 + len(ranked)
        if left <= 0:
            yield from _parked_in(copied)
            copied, left = [], SORTED_AT_ONCE
    yield from _parked_in(copied)
    now = queue.lane.parking
    if now is not parking or now.clearings != clearings:
        yield from _parked_in(now.ranked())


def _parked_in(copied: list[tuple[Any, QueueEntry]]) -> Iterator[list[tuple[Any, QueueEntry]]]:
    for start in range(0, max(1, len(copied)), SORTED_AT_ONCE):
        yield [each for each in copied[start : start + SORTED_AT_ONCE] if each[1].state == PARKED]


def _each_once(parked: Iterator[tuple[Any, QueueEntry]]) -> Iterator[tuple[Any, QueueEntry]]:
    """Sorted entries without repetitions, which stand side by side."""
    offset = -1
    for each in parked:
        if each[1].offset != offset:
            offset = each[1].offset
            yield each


def _merged(
    queue: Queue,
    shares: Iterator[list[QueueEntry]],
    parked: Iterator[tuple[Any, QueueEntry]],
    is_backwards: bool,
) -> Iterator[list[QueueEntry]]:
    rank_of = queue.order.rank
    following = next(parked, None)
    for share in shares:
        merged: list[QueueEntry] = []
        for entry in share:
            rank = rank_of(entry)
            while following is not None and (
                following[0] > rank if is_backwards else following[0] < rank
            ):
                if following[1].state == PARKED:
                    merged.append(following[1])
                following = next(parked, None)
            merged.append(entry)
        yield merged
    rest: list[QueueEntry] = []
    while following is not None:
        # one that went back to the ordering has been shown there, or is not shown
        if following[1].state == PARKED:
            rest.append(following[1])
        if len(rest) >= WALKED_AT_ONCE:
            yield rest
            rest = []
        following = next(parked, None)
    yield rest


def standing(queue: Queue, entry: QueueEntry) -> QueueEntry | None:
    """The object that stands in the queue for an entry of a walk; None: it has left, or a consumer
    has it."""
    if entry.state == READY:
        return queue.order.standing(entry)
    return entry if entry.state == PARKED else None


def read_together(queue: Queue, entries: list[QueueEntry]) -> Iterator[list[QueueEntry]]:
    """The entries in parts whose contents may be in memory at the same time."""
    part: list[QueueEntry] = []
    size = 0
    for entry in entries:
        part.append(entry)
        size += entry.message.size
        if size >= READ_AT_ONCE_BYTES or len(part) >= WALKED_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


def messages_of(queue: Queue, entries: list[QueueEntry]) -> list[Message | None]:
    """The messages of these entries, with their contents; None for one that cannot be read.

    That one stays: it is found and reported when it is its turn.
    """
    messages: list[Message | None] = [entry.message for entry in entries]
    stored = [
        (index, message.stored_at)
        for index, message in enumerate(messages)
        if isinstance(message, StoredMessage)
    ]
    store = None if queue.environment is None else queue.environment.store.content_store
    if not stored or store is None:
        return messages
    try:
        whole: list[Message | None] = list(store.read_run([position for _, position in stored]))
    except StoreError:
        whole = []
        for _, position in stored:
            try:
                whole.append(store.read(position))
            except StoreError:
                whole.append(None)
    for (index, _), message in zip(stored, whole, strict=True):
        before = messages[index]
        if message is not None and before is not None:
            message.extras = before.facts() or message.extras
        messages[index] = message
    return messages
