"""A transaction whose work is spread over several turns, and so over several batches.

A batch is recovered whole or not at all, so whatever is done in one callback is atomic without
further work. For more than that, each batch that has entries of an unfinished transaction names
them in a PART record, and the batch that has the last of them says COMMIT: without it a start drops
them all. Settlements take little room, so they are held here until the end.                  [hot]

Invariant: while a transaction is unfinished no compaction begins, so PART records stand in the
segments of the entries that they name, and the segments of held runs stay what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.storage.store import StoreTransaction

if TYPE_CHECKING:
    from hareline.storage.ledger import DurableLedger, Gathered, StoredEntry

Run = tuple[int, int, int]  # queue id, first offset, count


class DurableTransaction(StoreTransaction):
    """``parts``: entries that it has added and that no PART record names yet.

    ``is_divided``: there are PART records. ``is_finished``: the next batch says COMMIT if so.
    """

    __slots__ = (
        "_gathered",
        "_held",
        "_kept",
        "_marks",
        "is_divided",
        "is_finished",
        "number",
        "parts",
    )

    def __init__(self, number: int, gathered: Gathered) -> None:
        self.number = number
        self._gathered = gathered
        self._marks: dict[DurableLedger, tuple[int, int, int]] = {}
        self._held: dict[
            DurableLedger, tuple[list[tuple[int, int, int]], list[tuple[int, int]]]
        ] = {}
        self._kept: list[tuple[DurableLedger, StoredEntry]] = []
        self.parts: list[Run] = []
        self.is_divided = False
        self.is_finished = False

    def enter(self) -> None:
        self._gathered.entered = self
        for ledger in self._gathered.ledgers:
            ledger.close_run()
            self._marks[ledger] = (len(ledger.added), len(ledger.runs), len(ledger.moved_runs))

    def leave(self) -> None:
        self._gathered.entered = None
        marks, self._marks = self._marks, {}
        for ledger in self._gathered.ledgers:
            added, runs, moved_runs = marks.get(ledger, (0, 0, 0))
            if len(ledger.added) > added:
                self.parts += _runs_of(ledger.queue_id, ledger.added[added:])
            ledger.close_run()
            if len(ledger.runs) > runs or len(ledger.moved_runs) > moved_runs:
                held_runs, held_moved_runs = self._held.setdefault(ledger, ([], []))
                held_runs += ledger.runs[runs:]
                held_moved_runs += ledger.moved_runs[moved_runs:]
                del ledger.runs[runs:]
                del ledger.moved_runs[moved_runs:]

    def keep(self, ledger: DurableLedger, entry: StoredEntry) -> None:
        """This entry was settled before it was written, and is to be written all the same.

        A crash that undoes the transaction must bring it back.
        """
        ledger.keep_leaving(entry)
        self._kept.append((ledger, entry))

    def finish(self) -> None:
        self.is_finished = True
        for ledger, entry in self._kept:
            ledger.settle_left(entry)
        self._kept = []
        for ledger, (runs, moved_runs) in self._held.items():
            ledger.take_runs(runs, moved_runs)
        self._held = {}
        if not self.is_divided:  # all of it is in the batch that gathers now
            self._gathered.transactions.pop(self.number, None)
        self._gathered.store.ask_for_turn()


def _runs_of(queue_id: int, entries: list[StoredEntry]) -> list[Run]:
    """What was added one after the other, as runs of offsets; mostly that is one."""
    first, last = entries[0].offset, entries[-1].offset
    if last - first + 1 == len(entries):
        return [(queue_id, first, len(entries))]
    runs: list[Run] = []
    end = first
    for entry in entries:
        if entry.offset != end:
            runs.append((queue_id, first, end - first))
            first = entry.offset
        end = entry.offset + 1
    runs.append((queue_id, first, end - first))
    return runs
