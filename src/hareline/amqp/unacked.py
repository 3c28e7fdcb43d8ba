"""Deliveries of one channel that wait for an acknowledgement, and what settles them.   [hot]"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from hareline.queues.core.entry import EntryQueue, QueueEntry
from hareline.queues.core.kinds import REJECTED, RETURNED

NUMBERS_FOR_EACH: Final = 8  # tags are counted through if no more of them have been used


class UnackedDeliveries:
    """Entries by delivery tag.

    Tags only grow, so the dict is in their order by itself, until a rollback puts some back: then
    it is sorted when the order is asked for. ``_lowest`` is a tag below which nothing is left; a
    multiple ack walks up from there or over what is unacked, whichever is shorter, so each tag is
    stepped over once at most and acks of any kind cost amortised O(1).

    ``entries``: only what delivers may write to it. ``given_back``: how many deliveries have ended
    otherwise than by an acknowledgement; counted by what takes them. ``paged_tag``: contents up to
    this tag have left memory, or must not; written by ``amqp.unacked_watch``. ``taken_back_tag``:
    the highest tag of a delivery that the broker itself has taken back.
    """

    __slots__ = ("_is_mixed", "_lowest", "entries", "given_back", "paged_tag", "taken_back_tag")

    def __init__(self) -> None:
        self.entries: dict[int, QueueEntry] = {}
        self._lowest = 1
        self._is_mixed = False  # not in the order of the tags
        self.given_back = 0
        self.paged_tag = 0
        self.taken_back_tag = 0

    def take(self, tag: int) -> QueueEntry | None:
        return self.entries.pop(tag, None)

    def tags_up_to(self, tag: int) -> list[int]:
        """The tags that ``take_up_to`` would take."""
        if tag - self._lowest > 2 * len(self.entries):
            return [used for used in self.tags() if used <= tag]
        entries = self.entries
        return [used for used in range(self._lowest, tag + 1) if used in entries]

    def take_up_to(self, tag: int) -> list[QueueEntry]:
        """All entries with this or a lower tag, in tag order. ``tag`` must have been used."""
        lowest, self._lowest = self._lowest, tag + 1
        # long gaps, from single acks: walk the dict instead
        if tag - lowest > 2 * len(self.entries):
            return [self.entries.pop(lower) for lower in self.tags() if lower <= tag]
        pop = self.entries.pop
        taken = [pop(lower, None) for lower in range(lowest, tag + 1)]
        return [entry for entry in taken if entry is not None]

    def take_all(self) -> list[QueueEntry]:
        self._sort()
        taken = list(self.entries.values())
        if self.entries:
            self._lowest = next(reversed(self.entries)) + 1
        self.entries.clear()
        return taken

    def take_back(self, tags: list[int]) -> list[QueueEntry]:
        """The entries with these tags, whose consumer has lost them.

        What the client still says of them is no error (RabbitMQ 4.3).
        """
        taken = [self.entries.pop(tag) for tag in tags if tag in self.entries]
        self.given_back += len(taken)
        self.taken_back_tag = max(self.taken_back_tag, *tags)
        return taken

    def tags(self) -> list[int]:
        self._sort()
        return list(self.entries)

    def in_order(self) -> dict[int, QueueEntry]:
        """``entries``, the lowest tag first."""
        self._sort()
        return self.entries

    def in_shares(self, behind: int, count: int) -> Iterator[Sequence[int]]:
        """The tags behind one, ascending, ``count`` at a time; some of them may be settled.

        Deliveries may come and end between two shares.
        """
        entries = self.in_order()
        if not entries:
            return
        first, last = max(behind + 1, next(iter(entries))), next(reversed(entries))
        # a list of the tags of a million deliveries takes two shares at one go
        is_dense = last - first < NUMBERS_FOR_EACH * len(entries)
        tags = range(first, last + 1) if is_dense else self.tags()
        start = 0 if is_dense else bisect_right(tags, behind)
        for at in range(start, len(tags), count):
            yield tags[at : at + count]

    def _sort(self) -> None:
        if self._is_mixed:
            self._is_mixed = False
            self.entries = dict(sorted(self.entries.items()))

    def put_back(self, deliveries: list[tuple[int, QueueEntry]]) -> None:
        """Undo takes: a transaction was rolled back."""
        if not deliveries:
            return
        self.entries.update(deliveries)
        self._lowest = min(self._lowest, *(tag for tag, _ in deliveries))
        self.paged_tag = min(self.paged_tag, self._lowest - 1)
        self._is_mixed = True

    def __contains__(self, tag: int) -> bool:
        return tag in self.entries

    def __len__(self) -> int:
        return len(self.entries)


def settle_entries(entries: list[QueueEntry]) -> None:
    """Settle entries of any number of queues, one by one; consumers get their credit back."""
    for entry in entries:
        entry.queue.settle(entry)
        consumer = entry.consumer
        if consumer is not None:
            consumer.restore_credit(entry.message.size)


def reject_entries(entries: list[QueueEntry]) -> None:
    """Reject entries of any number of queues, one call for each queue."""
    for queue, rejected in _by_queue(entries):
        queue.reject(rejected)


def release_entries(
    entries: list[QueueEntry], *, is_counted: bool = True, cause: int = RETURNED
) -> None:
    """Release entries of any number of queues, one call for each queue."""
    for queue, released in _by_queue(entries):
        queue.release(released, is_counted=is_counted, cause=cause)


def release_rejected(entries: list[QueueEntry]) -> None:
    """Release entries that their client has rejected."""
    release_entries(entries, cause=REJECTED)


def _by_queue(entries: list[QueueEntry]) -> list[tuple[EntryQueue, list[QueueEntry]]]:
    """The entries of each queue, whose consumers have their credit back."""
    by_queue: dict[EntryQueue, list[QueueEntry]] = {}
    for entry in entries:
        consumer = entry.consumer
        if consumer is not None:
            consumer.restore_credit(entry.message.size)
        by_queue.setdefault(entry.queue, []).append(entry)
    return list(by_queue.items())
