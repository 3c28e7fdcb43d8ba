"""Frees segments without live entries, and forwards what they say of other segments.

Called by ``storage.store.batch`` for every batch; there is something to do once in a segment's
life. A segment without live entries may still hold the only records which say that entries of an
older segment are settled, or came back. These are *forwarded*: written again at the tail, in the
same batch as the FREE record.

Segments that are read from outside are *pinned* and stay until that has ended.

Invariant: a segment is freed only with all that it says of live segments forwarded, and none while
a segment stays whose records have been moved (``Liveness.emptied``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.storage.journal.format.records import RETURNED, RUN
from hareline.storage.store.liveness import Liveness, SegmentBooks

if TYPE_CHECKING:
    from hareline.storage.store.ledger import DurableLedger

#: Segments freed at once at most: the work for each grows with the number of segments.
FREED_MAX: Final = 64


class Freeing:
    """Chooses segments to free and forwards what they say.

    ``forward_limit_bytes``: what a segment may cost to forward; one that costs more waits until
    the older ones of which it says something are gone. ``is_blocked``: a compaction is under way.
    """

    __slots__ = (
        "_ledgers",
        "_liveness",
        "forward_limit_bytes",
        "forwarded_bytes",
        "is_blocked",
    )

    def __init__(
        self, liveness: Liveness, ledgers: dict[int, DurableLedger], forward_limit_bytes: int
    ) -> None:
        self._liveness = liveness
        self._ledgers = ledgers
        self.forward_limit_bytes = forward_limit_bytes
        self.forwarded_bytes = 0
        self.is_blocked = False

    @property
    def is_due(self) -> bool:
        return self._liveness.has_dead and not self.is_blocked

    def choose(self) -> list[SegmentBooks]:
        """Return the segments to free with this batch; those that cost too much wait."""
        if not self.is_due:
            return []
        emptied, pinned = self._liveness.emptied, self._liveness.pinned
        dead = [books for books in self._liveness.sealed() if not books.live]
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
        self._liveness.has_dead = is_more and bool(dead)
        return dead

    def bound(self, freed: list[SegmentBooks]) -> int:
        """Return how many octets ``forward`` may add at most."""
        leaving = {books.number for books in freed}
        return sum(self._cost(books, leaving) for books in freed)

    def forward(
        self, freed: list[SegmentBooks], tail: int, runs: list[bytes], returns: list[bytes]
    ) -> None:
        """Add the packed items to forward to a batch in segment ``tail``, and free the segments."""
        leaving = {books.number for books in freed}
        pack_run, pack_returned = RUN.pack, RETURNED.pack
        before = len(runs) * RUN.size + len(returns) * RETURNED.size
        for about in self._liveness.segments.values():
            if about.number in leaving:
                continue
            for number in leaving & about.settled.keys():
                triples = iter(about.settled.pop(number))
                for queue_id, first, count in zip(triples, triples, triples, strict=True):
                    if queue_id in self._ledgers:
                        runs.append(pack_run(queue_id, first, count))
                        about.add_settled(tail, queue_id, first, count)
        tail_books = self._liveness.segments[tail]
        for books in freed:
            for queue_id, offsets in books.returned.items():
                ledger = self._ledgers.get(queue_id)
                if ledger is None:
                    continue
                for offset in offsets:
                    count, number = ledger.books.returns.get(offset, (0, 0))
                    if number == books.number:
                        returns.append(pack_returned(queue_id, offset, count))
                        ledger.books.note_return(offset, count, tail_books)
        self.forwarded_bytes += len(runs) * RUN.size + len(returns) * RETURNED.size - before
        for books in freed:
            self._liveness.remove(books.number)

    def _cost(self, books: SegmentBooks, leaving: set[int]) -> int:
        """Return how many octets it may cost at most to forward what these books' segment says."""
        number = books.number
        items = sum(
            len(about.settled.get(number, ()))
            for about in self._liveness.segments.values()
            if about.number not in leaving
        )
        returns = sum(map(len, books.returned.values()))
        return items // 3 * RUN.size + returns * RETURNED.size
