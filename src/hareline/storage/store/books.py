"""What the journal has of one durable queue: entries by segment, delivery counts, large bodies.

Each ``storage.store.ledger`` has one. ``storage.store.batch`` writes into it what a batch adds and
settles, and ``storage.store.compaction`` what it moves; ``storage.store.liveness`` reads it.

Invariant: over all queues, the entries in ``live`` of a segment are ``SegmentBooks.live`` of it;
a method changes both.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from hareline.storage.store.liveness import Liveness, SegmentBooks
from hareline.storage.store.state import RecoveredQueue


class JournalBooks:
    """``live``: segment number to how many entries have their home there.

    ``returns``: offset to (delivery count, segment where the RETURN record stands). ``large``:
    offset to the id of a large body. ``written_count``: entries that this broker has written.
    """

    __slots__ = ("_liveness", "large", "live", "queue_id", "returns", "written_count")

    def __init__(self, queue_id: int, liveness: Liveness) -> None:
        self.queue_id = queue_id
        self._liveness = liveness
        self.live: dict[int, int] = {}
        self.returns: dict[int, tuple[int, int]] = {}
        self.large: dict[int, int] = {}
        self.written_count = 0

    def restore(self, found: RecoveredQueue) -> None:
        """Take over what recovery found, which the segments know already."""
        self.live = found.live
        self.returns = found.returns
        self.large = found.large

    def add(self, segment: SegmentBooks, count: int) -> None:
        """``count`` more entries have their home in this segment."""
        self.written_count += count
        self._enter(segment, count)

    def _enter(self, segment: SegmentBooks, count: int) -> None:
        segment.live += count
        self.live[segment.number] = self.live.get(segment.number, 0) + count

    def note_return(self, offset: int, delivery_count: int, segment: SegmentBooks) -> None:
        """A RETURN record in this segment says how often the entry came back."""
        self.returns[offset] = (delivery_count, segment.number)
        segment.add_returned(self.queue_id, offset)

    def settle(self, home: int, first: int, end: int, number: int) -> list[int]:
        """Entries of segment ``home`` leave, as a record in segment ``number`` says.

        Returns the ids of their large bodies.
        """
        self._leave(home, end - first)
        self._liveness.segments[home].add_settled(number, self.queue_id, first, end - first)
        return self._forget_range(first, end) if self.returns or self.large else []

    def settle_runs(self, home: int, count: int, triples: array[int], number: int) -> list[int]:
        """As ``settle``, for ``count`` entries in several runs.

        ``triples``: queue id, first offset and count of each run.
        """
        self._leave(home, count)
        self._liveness.segments[home].add_settled_runs(number, triples)
        released: list[int] = []
        if self.returns or self.large:
            for first, length in zip(triples[1::3], triples[2::3], strict=True):
                released += self._forget_range(first, first + length)
        return released

    def move(self, offset: int, source: int, segment: SegmentBooks) -> None:
        """An entry was written again, in this segment, with its delivery count."""
        self._leave(source, 1)
        self._enter(segment, 1)
        self.returns.pop(offset, None)

    def clear(self) -> list[int]:
        """The queue is deleted; returns the ids of its large bodies."""
        for number, count in self.live.items():
            self._liveness.take(number, count)
        released = list(self.large.values())
        self.live = {}
        self.returns = {}
        self.large = {}
        return released

    def _leave(self, home: int, count: int) -> None:
        left = self.live[home] - count
        assert left >= 0, f"{self!r} has {left} entries in segment {home}"
        if left:
            self.live[home] = left
        else:
            del self.live[home]
        self._liveness.take(home, count)

    def _forget_range(self, first: int, end: int) -> list[int]:
        """Forget what is known of these offsets; returns the ids of their large bodies."""
        for offset in _within(self.returns, first, end):
            del self.returns[offset]
        return [self.large.pop(offset) for offset in _within(self.large, first, end)]

    def __repr__(self) -> str:
        return f"<JournalBooks of {self.queue_id}>"


def _within(offsets: Mapping[int, object], first: int, end: int) -> list[int]:
    """Those from ``first`` to before ``end``, found by the shorter way."""
    if end - first < len(offsets):
        return [offset for offset in range(first, end) if offset in offsets]
    return [offset for offset in offsets if first <= offset < end]
