"""Transactions whose work is spread over several turns, and so over several batches.

Each batch with entries of an unfinished one names them in a PART record, and the last says COMMIT:
without it a start drops them all. Settlements and sequences are held until then. No compaction
begins meanwhile, so the segments of held runs stay what they are.                             [hot]
"""

from __future__ import annotations

from array import array

from hareline.storage.interface import StoredEntry, StoreTransaction
from hareline.storage.journal.format.records import RUN
from hareline.storage.store.ledger import DurableLedger, Gathered
from hareline.storage.store.sequences import HeldSequences

Run = tuple[int, int, int]  # queue id, first offset, count


class HeldRuns:
    """Settled entries of one queue whose home is one segment, as they will be written.

    There may be as many runs as entries, so the work is done while the transaction gathers them:
    ``triples`` has queue id, first offset and count of each, ``packed`` the same as octets.
    ``count``: of the entries.
    """

    __slots__ = ("count", "home", "ledger", "packed", "triples")

    def __init__(self, ledger: DurableLedger, home: int) -> None:
        self.ledger = ledger
        self.home = home
        self.count = 0
        self.triples = array("Q")
        self.packed: list[bytes] = []

    def add(self, first: int, end: int) -> None:
        fields = (self.ledger.queue_id, first, end - first)
        self.count += end - first
        self.triples.extend(fields)
        self.packed.append(RUN.pack(*fields))

    def runs(self) -> list[tuple[int, int]]:
        """First offset and end of each."""
        firsts, counts = self.triples[1::3], self.triples[2::3]
        return [(first, first + count) for first, count in zip(firsts, counts, strict=True)]


class Transactions:
    """The transactions of a store of which something is still to be written.

    ``unwritten``: by number, those that are unfinished, or whose COMMIT is not written. ``held``:
    what finished ones have settled, for the next batch.
    """

    __slots__ = ("_count", "_ending", "gathered", "held", "unwritten")

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered
        gathered.first_uncommitted = self.first_uncommitted
        self._ending: list[tuple[int, dict[DurableLedger, int]]] = []  # ticket, first offsets
        self._count = 0
        self.unwritten: dict[int, DurableTransaction] = {}
        self.held: list[HeldRuns] = []

    def begin(self) -> DurableTransaction:
        """A new one, with the next number."""
        self._count += 1
        transaction = DurableTransaction(self._count, self)
        self.unwritten[transaction.number] = transaction
        return transaction

    def end_with(self, transaction: DurableTransaction, ticket: int) -> None:
        """The batch with this ticket says COMMIT: from then on its entries survive a crash."""
        self._forget_ended()
        self._ending.append((ticket, transaction.firsts))

    def first_uncommitted(self, ledger: DurableLedger) -> int | None:
        """The lowest offset that a transaction has added whose end is not durable, or None."""
        self._forget_ended()
        added = [transaction.firsts for transaction in self.unwritten.values()]
        added += [firsts for _, firsts in self._ending]
        return min([firsts[ledger] for firsts in added if ledger in firsts], default=None)

    def _forget_ended(self) -> None:
        if self._ending:
            durable = self.gathered.store.durable_ticket
            self._ending = [each for each in self._ending if each[0] > durable]

    @property
    def is_commit_due(self) -> bool:
        """True if there is something to write of finished transactions, though of no ledger."""
        return bool(self.held) or any(one.is_finished for one in self.unwritten.values())


class DurableTransaction(StoreTransaction):
    """``parts``: entries that it has added and that no PART record names yet.

    ``firsts``: the lowest offset it has added to each ledger, whose entries come in order.
    ``is_divided``: there are PART records. ``is_finished``: the next batch says COMMIT if so.
    """

    __slots__ = (
        "_gathered",
        "_held",
        "_kept",
        "_marks",
        "_moved",
        "_sequences",
        "_transactions",
        "firsts",
        "is_divided",
        "is_finished",
        "number",
        "parts",
    )

    def __init__(self, number: int, transactions: Transactions) -> None:
        self.number = number
        self._transactions = transactions
        self._gathered = transactions.gathered
        self._marks: dict[DurableLedger, tuple[int, int, int]] = {}
        self._held: dict[tuple[DurableLedger, int], HeldRuns] = {}
        self._moved: list[tuple[DurableLedger, list[tuple[int, int]]]] = []
        self._kept: list[tuple[DurableLedger, StoredEntry]] = []
        self.firsts: dict[DurableLedger, int] = {}
        self._sequences = HeldSequences()
        self.parts: list[Run] = []
        self.is_divided = False
        self.is_finished = False

    def enter(self) -> None:
        self._gathered.keep_unwritten = self._keep
        self._gathered.sequences.holder = self._sequences
        for ledger in self._gathered.ledgers:
            ledger.close_run()
            self._marks[ledger] = (len(ledger.added), len(ledger.runs), len(ledger.moved_runs))

    def note_first(self, ledger: DurableLedger, offset: int) -> None:
        """An entry of this offset, or several from it on, belong to this transaction."""
        self.firsts[ledger] = min(offset, self.firsts.get(ledger, offset))

    def leave(self) -> None:
        self._gathered.keep_unwritten = None
        self._gathered.sequences.holder = None
        marks, self._marks = self._marks, {}
        for ledger in self._gathered.ledgers:
            added, runs, moved_runs = marks.get(ledger, (0, 0, 0))
            if len(ledger.added) > added:
                self.note_first(ledger, ledger.added[added].offset)
                self.parts += runs_of(ledger.queue_id, ledger.added[added:])
            ledger.close_run()
            if len(ledger.runs) > runs:
                self._hold(ledger, ledger.runs[runs:])
                del ledger.runs[runs:]
            if len(ledger.moved_runs) > moved_runs:
                self._moved.append((ledger, ledger.moved_runs[moved_runs:]))
                del ledger.moved_runs[moved_runs:]

    def _hold(self, ledger: DurableLedger, runs: list[tuple[int, int, int]]) -> None:
        """Keep these runs until the end; adjacent ones become one."""
        runs.sort()
        home, first, end = runs[0]
        for next_home, next_first, next_end in runs[1:]:
            if next_first == end and next_home == home:
                end = next_end
                continue
            self._held_runs(ledger, home).add(first, end)
            home, first, end = next_home, next_first, next_end
        self._held_runs(ledger, home).add(first, end)

    def _held_runs(self, ledger: DurableLedger, home: int) -> HeldRuns:
        held = self._held.get((ledger, home))
        if held is None:
            held = self._held[ledger, home] = HeldRuns(ledger, home)
        return held

    def _keep(self, ledger: DurableLedger, entry: StoredEntry) -> None:
        """This entry is settled before it is written, and is to be written all the same.

        A crash that undoes the transaction must bring it back.
        """
        ledger.hold_for_dead_letter(entry)
        self._kept.append((ledger, entry))

    def finish(self) -> None:
        self.is_finished = True
        for ledger, entry in self._kept:
            ledger.release_hold(entry)
        self._kept = []
        self._transactions.held += self._held.values()
        self._held = {}
        for ledger, moved_runs in self._moved:
            ledger.take_runs([], moved_runs)
        self._moved = []
        self._sequences.release()
        if not self.is_divided:  # all of it is in the batch that gathers now
            self._transactions.unwritten.pop(self.number, None)
        self._gathered.store.ask_for_turn()


def runs_of(queue_id: int, entries: list[StoredEntry]) -> list[Run]:
    """Entries in the order in which they were added, as runs of offsets; mostly that is one."""
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
