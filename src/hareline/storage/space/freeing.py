"""Which segments can go, and what they say that must be said again.

Called by ``writing.batch`` for every batch; there is something to do once in a segment's life. A
segment without living entries may still hold the only records that say that entries of an older
segment are settled, or came back: those are *forwarded*, written again at the tail, in the same
batch as the FREE record.

Invariant: a segment is freed only with all it says of living segments forwarded, and none while a
segment stays whose records have been moved (``Liveness.emptied``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.storage.journal.format.records import RETURNED, RUN
from hareline.storage.space.liveness import Liveness, SegmentBooks

if TYPE_CHECKING:
    from hareline.storage.writing.ledger import DurableLedger

#: So many at once at most: what is looked at for each grows with the number of segments.
FREED_MAX: Final = 64


class Freeing:
    """``forward_limit_bytes``: what a segment may cost to forward; one that would cost more waits
    until the older ones that it speaks of are gone. ``is_blocked``: a compaction is under way.
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
        """The segments to free with this batch; those that cost too much are left for later."""
        if not self.is_due:
            return []
        emptied = self._liveness.emptied
        dead = [books for books in self._liveness.sealed() if not books.live]
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
            dead = cheap  # who stays must be spoken of by the others
        # without any progress the others are not tried again until something has died
        self._liveness.has_dead = is_more and bool(dead)
        return dead

    def bound(self, freed: list[SegmentBooks]) -> int:
        """Octets that ``forward`` may add at most."""
        leaving = {books.number for books in freed}
        return sum(self._cost(books, leaving) for books in freed)

    def forward(
        self, freed: list[SegmentBooks], tail: int, runs: list[bytes], returns: list[bytes]
    ) -> None:
        """Add what must be said again, packed, to a batch in segment ``tail``, and free them."""
        leaving = {books.number for books in freed}
        pack_run, pack_returned = RUN.pack, RETURNED.pack
        before = len(runs) * RUN.size + len(returns) * RETURNED.size
        for about in self._liveness.segments.values():
            if about.number in leaving:
                continue
            for number in leaving & about.settled.keys():
                said = iter(about.settled.pop(number))
                for queue_id, first, count in zip(said, said, said, strict=True):
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
                    count, number = ledger.returns.get(offset, (0, 0))
                    if number == books.number:
                        returns.append(pack_returned(queue_id, offset, count))
                        ledger.returns[offset] = (count, tail)
                        tail_books.add_returned(queue_id, offset)
        self.forwarded_bytes += len(runs) * RUN.size + len(returns) * RETURNED.size - before
        for books in freed:
            self._liveness.remove(books.number)

    def _cost(self, books: SegmentBooks, leaving: set[int]) -> int:
        """Octets at most."""
        number = books.number
        items = sum(
            len(about.settled.get(number, ()))
            for about in self._liveness.segments.values()
            if about.number not in leaving
        )
        returns = sum(map(len, books.returned.values()))
        return items // 3 * RUN.size + returns * RETURNED.size
