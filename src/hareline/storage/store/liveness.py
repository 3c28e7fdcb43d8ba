"""Live entries of each segment, what settles its other entries, and the segments that can go.

Counted once a batch, never for a message. An entry's *home* is the segment of the record that
counts for it; where compaction has moved that, ``Moves`` leads there. Invariant: ``settled`` of a
segment T has for each other segment S all runs about entries of T in SETTLE records of S.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from hareline.storage.interface import SPOOLED
from hareline.storage.journal.format.positions import OFFSET_BITS, OFFSET_MASK
from hareline.storage.journal.format.records import RETURNED, RUN
from hareline.storage.store.state import RecoveredState

#: Key in ``SegmentBooks.settled`` of runs that stand in no record: older copies of moved entries.
NOWHERE: Final = 0
#: Segments freed at once at most: the work for each grows with the number of segments.
FREED_MAX: Final = 64


class SegmentBooks:
    """One segment. ``end``: where its last batch ends; 0 while it is the tail.

    ``weight_bytes``: octets for each entry, to estimate what live ones take. ``sealed_ms``: when
    its last batch was written, as far as it is known. ``returned``: queue id to the offsets that
    its RETURN records name, some of which may be settled or named again elsewhere since.
    """

    __slots__ = ("end", "live", "number", "returned", "sealed_ms", "settled", "size_bytes", "total")

    def __init__(self, number: int, size_bytes: int) -> None:
        self.number = number
        self.size_bytes = size_bytes
        self.end = 0
        self.sealed_ms = 0
        self.live = 0
        self.total = 0
        self.settled: dict[int, array[int]] = {}
        self.returned: dict[int, array[int]] = {}

    @property
    def weight_bytes(self) -> int:
        return self.end // self.total if self.total else 0

    def add_settled(self, source: int, queue_id: int, first: int, count: int) -> None:
        """Note that a record in segment ``source`` settles these entries of this segment."""
        runs = self.settled.get(source)
        if runs is None:
            runs = self.settled[source] = array("Q")
        runs.extend((queue_id, first, count))

    def add_settled_runs(self, source: int, triples: array[int]) -> None:
        """Note many runs as ``add_settled`` does: queue id, first offset and count of each."""
        runs = self.settled.get(source)
        if runs is None:
            self.settled[source] = triples
        else:
            runs.extend(triples)

    def add_returned(self, queue_id: int, offset: int) -> None:
        """Note that a RETURN record in this segment names this entry."""
        offsets = self.returned.get(queue_id)
        if offsets is None:
            offsets = self.returned[queue_id] = array("Q")
        offsets.append(offset)

    def __repr__(self) -> str:
        return f"<Segment {self.number}, {self.live} of {self.total} entries live>"


class Moves:
    """New places of the records of one segment: offsets in its file, ascending, to new positions.

    ``live``: queue id to the number of entries that still may be asked for by the old position.
    """

    __slots__ = ("live", "offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.positions = array("Q")
        self.live: dict[int, int] = {}

    def add(self, offset: int, position: int, queue_ids: Iterable[int]) -> None:
        self.offsets.append(offset)
        self.positions.append(position)
        for queue_id in queue_ids:
            self.live[queue_id] = self.live.get(queue_id, 0) + 1

    def find(self, offset: int) -> int:
        """Return the new position, 0 if this record has not moved."""
        index = bisect_left(self.offsets, offset)
        if index == len(self.offsets) or self.offsets[index] != offset:
            return 0
        return self.positions[index]

    def settle(self, queue_id: int) -> bool:
        """Count one entry less; True if none is left that has an old position."""
        left = self.live.get(queue_id, 0) - 1
        if left > 0:
            self.live[queue_id] = left
        else:
            self.live.pop(queue_id, None)
        return not self.live


class Liveness:
    """``segments``: those of the journal by number, ascending; the last is the tail.

    ``sealed_bytes``: octets of all but the tail; ``live_bytes``: an estimate of what is live in
    them. ``has_dead``: a sealed segment has lost its last entry and can be freed.
    ``emptied``: those whose live records a compaction has moved. Each still has copies of entries
    that count elsewhere: it must not outlive the records that settle those, so it is freed before,
    or with, any other.
    ``pinned``: segments that are read from outside; none of them is freed.

    A segment without live entries may hold the only records which settle or return entries of an
    older one. Freeing it *forwards* these: they are written again, in the batch with the FREE
    record. ``forward_limit_bytes``: what that may cost; a segment that costs more waits until the
    older ones of which it says something are gone.
    """

    __slots__ = (
        "emptied",
        "forward_limit_bytes",
        "has_dead",
        "live_bytes",
        "moves",
        "pinned",
        "sealed_bytes",
        "segments",
    )

    def __init__(self, forward_limit_bytes: int = 0) -> None:
        self.forward_limit_bytes = forward_limit_bytes
        self.segments: dict[int, SegmentBooks] = {}
        self.moves: dict[int, Moves] = {}
        self.sealed_bytes = 0
        self.live_bytes = 0
        self.has_dead = False
        self.emptied: set[int] = set()
        self.pinned: dict[int, int] = {}  # number to how many reads from outside use it

    def restore(self, state: RecoveredState) -> None:
        """Take over what recovery found; nothing was here before."""
        for found in state.segments:
            books = self.begin(found.number, found.size_bytes)
            books.total = found.total
            books.settled = state.settled.get(found.number, {})
        for queue_id, queue in state.queues.items():
            for number, count in queue.live.items():
                self.segments[number].live += count
            for offset, (_, number) in queue.returns.items():
                if number:
                    self.segments[number].add_returned(queue_id, offset)
        for found in state.segments:
            self.seal(found.number, found.end, found.created_ms)

    @property
    def share(self) -> float:
        """The share of live octets in the sealed segments; 1.0 if there are none."""
        return self.live_bytes / self.sealed_bytes if self.sealed_bytes else 1.0

    def current(self, position: int, end: int = SPOOLED) -> int:
        """Return where the record that was written at this position stands now.

        ``end``: moves to there, or behind it, are not followed.
        """
        while (moves := self.moves.get(position >> OFFSET_BITS)) is not None:
            moved = moves.find(position & OFFSET_MASK)
            if not moved or moved >= end:
                break
            position = moved
        return position

    def begin(self, number: int, size_bytes: int) -> SegmentBooks:
        """Add a new tail."""
        books = self.segments[number] = SegmentBooks(number, size_bytes)
        return books

    def seal(self, number: int, end: int, sealed_ms: int) -> None:
        """Note where the tail ends, which gets no more batches."""
        books = self.segments[number]
        books.end = end
        books.sealed_ms = sealed_ms
        self.sealed_bytes += end
        self.live_bytes += books.weight_bytes * books.live
        if not books.live:
            self.has_dead = True

    def take(self, number: int, count: int) -> None:
        """Count entries less that are settled, or have another home now."""
        books = self.segments[number]
        books.live -= count
        assert books.live >= 0, books
        if books.end:
            self.live_bytes -= books.weight_bytes * count
            if not books.live:
                self.has_dead = True

    def forget_moves(self, position: int, queue_id: int) -> None:
        """Drop what leads from this position to the new one of a settled entry."""
        while (moves := self.moves.get(position >> OFFSET_BITS)) is not None:
            moved = moves.find(position & OFFSET_MASK)
            if not moved:
                return
            number = position >> OFFSET_BITS
            # a segment that is still there may get more moves
            if moves.settle(queue_id) and number not in self.segments:
                del self.moves[number]
            position = moved

    def forget_queue(self, queue_id: int) -> None:
        """Drop the moves of a deleted queue's entries."""
        for number, moves in list(self.moves.items()):
            moves.live.pop(queue_id, None)
            if not moves.live and number not in self.segments:
                del self.moves[number]

    def remove(self, number: int) -> SegmentBooks:
        """Remove a freed segment; returns its books."""
        books = self.segments.pop(number)
        self.emptied.discard(number)
        self.sealed_bytes -= books.end
        self.live_bytes -= books.weight_bytes * books.live
        moves = self.moves.get(number)
        if moves is not None and not moves.live:
            del self.moves[number]
        return books

    def pin(self, numbers: Iterable[int]) -> None:
        """Keep these segments from being freed until ``unpin``."""
        for number in numbers:
            self.pinned[number] = self.pinned.get(number, 0) + 1

    def unpin(self, numbers: Iterable[int]) -> bool:
        """Undo one ``pin`` of each; True if there may be something to free now."""
        for number in numbers:
            count = self.pinned.pop(number) - 1
            if count:
                self.pinned[number] = count
                continue
            books = self.segments.get(number)
            if books is not None and books.end and not books.live:
                self.has_dead = True
        return self.has_dead

    def sealed(self) -> list[SegmentBooks]:
        """Return all but the tail, ascending."""
        return [books for books in self.segments.values() if books.end]

    def choose_freed(self) -> list[SegmentBooks]:
        """Return the segments to free with this batch; those that cost too much wait."""
        if not self.has_dead:
            return []
        emptied, pinned = self.emptied, self.pinned
        dead = [books for books in self.sealed() if not books.live]
        if pinned:
            # none may go before one whose records were moved
            is_blocked = not emptied.isdisjoint(pinned)
            dead = [] if is_blocked else [books for books in dead if books.number not in pinned]
        dead.sort(key=lambda books: books.number not in emptied)
        count_max = max(FREED_MAX, len(emptied))
        is_more = len(dead) > count_max
        dead = dead[:count_max]
        limit = self.forward_limit_bytes
        while dead:
            leaving = {books.number for books in dead}
            cheap = [
                books
                for books in dead
                if books.number in emptied or self._cost(books, leaving) <= limit
            ]
            if len(cheap) == len(dead):
                break
            dead = cheap  # what the others say of those that stay costs more now
        # without progress the rest is not tried again until a segment lost its last entry
        self.has_dead = is_more and bool(dead)
        return dead

    def forward_bound(self, freed: list[SegmentBooks]) -> int:
        """Return how many octets it takes at most to forward what these say."""
        leaving = {books.number for books in freed}
        return sum(self._cost(books, leaving) for books in freed)

    def _cost(self, books: SegmentBooks, leaving: set[int]) -> int:
        """Return how many octets it may cost at most to forward what these books' segment says."""
        number = books.number
        items = sum(
            len(about.settled.get(number, ()))
            for about in self.segments.values()
            if about.number not in leaving
        )
        returns = sum(map(len, books.returned.values()))
        return items // 3 * RUN.size + returns * RETURNED.size
