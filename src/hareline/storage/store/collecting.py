"""Which of the things that have gathered go into the next batch, and how many octets they may take.

``storage.store.batch`` calls ``take_messages`` when the disk is ready for more, has the messages
packed, and calls ``take_rest``. Entries that were settled before they came here are left out,
unless a replay or a dead letter needs them. A batch that is full takes only messages; the rest goes
into the next ones.                                                                            [hot]

Invariant: all that one callback of the loop did is in one batch, unless that is full; and all
entries of one message are in the batch that has its record. With sequences of producers what has
gathered is kept or lost as a whole, however many batches it takes.
"""

from __future__ import annotations

from typing import Final

from hareline.message import UNWRITTEN, Message
from hareline.storage.interface import StoredEntry
from hareline.storage.journal.format.frame import RECORD_OVERHEAD, RECORD_PREFIX
from hareline.storage.journal.format.message import ENTRY
from hareline.storage.journal.format.positions import OFFSET_BITS, SEGMENT_BYTES_MAX
from hareline.storage.journal.format.records import COVERED, FREED, RETURNED, RUN, TRANSACTION
from hareline.storage.store.compaction import Compactor, MovedRecord
from hareline.storage.store.divided import (
    DurableTransaction,
    HeldRuns,
    Transactions,
    runs_of,
)
from hareline.storage.store.ledger import SETTLED, DurableLedger, Gathered
from hareline.storage.store.liveness import SegmentBooks
from hareline.storage.store.message_records import MESSAGE_OVERHEAD, options_of
from hareline.storage.store.packing import TakenEntries
from hareline.storage.store.sequences import MovedSequences, moved_bound

#: ledger, home, first, end
Run = tuple[DurableLedger, int, int, int]

#: Octets after which a batch takes no more messages, so that it fits into a segment; the rest goes
#: into the next ones. Publishers pause long before, and so does a commit, which says of what is
#: divided that it belongs together (``storage.store.divided``).
BATCH_BYTES: Final = 1 << 29


class BatchContents:
    """What one batch is made of, before it has a place."""

    __slots__ = (
        "bound",
        "committed",
        "covers",
        "entries",
        "firsts",
        "freed",
        "held",
        "is_measured",
        "is_part",
        "ledgers",
        "limit",
        "moved",
        "others",
        "parts",
        "returned",
        "runs",
        "sequences",
    )

    def __init__(self) -> None:
        #: octets of the records, at most; without messages that are not measured
        self.bound = 0
        #: the octets of the messages are in ``bound`` before they are packed; if not, the batch is
        #: full when more than ``limit`` are
        self.is_measured = False
        self.limit = BATCH_BYTES
        #: all with something for this batch, or for the next one if there is too much
        self.ledgers: list[DurableLedger] = []
        #: transactions that go on beyond this batch, and numbers of those that end with it
        self.parts: list[DurableTransaction] = []
        self.committed: list[int] = []
        #: what has gathered is more than one batch may have: only messages so far, and not all
        self.is_part = False
        #: of each ledger that has any
        self.entries: list[TakenEntries] = []
        #: message to its first entry, of those that may have others
        self.firsts: dict[Message, StoredEntry] = {}
        #: message to its entries in further queues
        self.others: dict[Message, list[tuple[DurableLedger, StoredEntry]]] = {}
        self.runs: list[Run] = []
        self.held: list[HeldRuns] = []
        self.returned: list[tuple[DurableLedger, list[StoredEntry]]] = []
        #: ledgers whose watermark is to be written
        self.covers: list[DurableLedger] = []
        self.moved: list[MovedRecord] = []
        self.freed: list[SegmentBooks] = []
        self.sequences: list[MovedSequences] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (
            self.entries or self.has_settled or self.moved or self.committed or self.sequences
        )

    @property
    def has_settled(self) -> bool:
        """Whether anything has happened to entries and segments that are in the journal."""
        return bool(self.runs or self.held or self.returned or self.covers or self.freed)


class Collector:
    """``keeps_settled``: entries that were settled before they were written are written all the
    same, for a replay.
    """

    __slots__ = (
        "_compactor",
        "_gathered",
        "_split",
        "_transactions",
        "keeps_settled",
    )

    def __init__(
        self,
        gathered: Gathered,
        transactions: Transactions,
        compactor: Compactor,
        *,
        keeps_settled: bool,
    ) -> None:
        self._gathered = gathered
        self._transactions = transactions
        self._compactor = compactor
        self._split: DurableTransaction | None = None
        self.keeps_settled = keeps_settled

    def take_messages(self, ticket: int, room: int) -> BatchContents:
        """Take the new entries that have gathered, as many as a batch with this ticket may have.

        ``room``: octets in the last segment. What one queue has added is not measured if it seems
        to fit in there, so that it is looked at only once, when it is packed.
        """
        contents = BatchContents()
        has_room = self._gathered.new_bytes <= room
        self._gathered.new_bytes = 0
        # without those that are forgotten
        contents.ledgers = [ledger for ledger in self._gathered.ledgers if ledger.is_gathered]
        adding = [ledger for ledger in contents.ledgers if ledger.added]
        # a queue gets a message once, so only several of them can share one
        may_share = len(adding) > 1
        if may_share or not has_room:
            contents.is_measured = True
            contents.limit = SEGMENT_BYTES_MAX
        for ledger in adding:
            added, ledger.added = ledger.added, []
            ledger.counted = 0
            ledger.note_written(ticket, added[0].offset)
            ledger.next_offset = max(ledger.next_offset, added[-1].offset + 1)
            if not contents.is_measured:
                contents.entries.append(TakenEntries(ledger, added))
                continue
            self._measure(ledger, added, contents, may_share=may_share)
            if contents.is_part:
                self._take_others(contents, ticket)
                break
        return contents

    def take_rest(self, contents: BatchContents, ticket: int) -> None:
        """Take all else that has happened; it comes behind all messages."""
        if contents.is_part:
            self._gathered.ledgers = contents.ledgers
            if self._gathered.sequences:
                self._keep_together(contents)
            self._take_transactions(contents, ticket)
            return
        self._gathered.ledgers = []
        for ledger in contents.ledgers:
            ledger.is_gathered = False
            ledger.close_run()
            if ledger.runs or ledger.moved_runs:
                self._take_runs(ledger, contents)
            if ledger.returned:
                returned = [entry for entry in ledger.returned if entry.state != SETTLED]
                if returned:
                    contents.returned.append((ledger, returned))
                    contents.bound += len(returned) * RETURNED.size
                ledger.returned = []
            if ledger.is_cover_due:
                contents.covers.append(ledger)
                contents.bound += COVERED.size
                ledger.is_cover_due = False
        if self._transactions.held:
            self._take_held(contents)
        contents.moved = self._compactor.take()
        if contents.moved:
            sizes = [len(record.body) + RECORD_PREFIX.size for record in contents.moved]
            contents.bound += sum(sizes)
        if not self._compactor.is_active:
            liveness = self._gathered.liveness
            contents.freed = liveness.choose_freed()
            contents.bound += len(contents.freed) * FREED.size
            contents.bound += liveness.forward_bound(contents.freed)
        if self._gathered.sequences:
            contents.sequences = self._gathered.sequences.take()
            contents.bound += moved_bound(contents.sequences)
        if self._split is not None:
            self._split.finish()
            self._split = None
        self._take_transactions(contents, ticket)

    def _keep_together(self, contents: BatchContents) -> None:
        """Let the messages of a full batch count only with those of the last one that follows.

        That has the sequences of producers, which may be above those of messages still to come.
        """
        if self._split is None:
            self._split = self._transactions.begin()
        parts = self._split.parts
        for taken in contents.entries:
            self._split.note_first(taken.ledger, taken.entries[0].offset)
            parts += runs_of(taken.ledger.queue_id, taken.entries)
        for others in contents.others.values():
            for ledger, entry in others:
                self._split.note_first(ledger, entry.offset)
                parts += runs_of(ledger.queue_id, [entry])

    def _take_transactions(self, contents: BatchContents, ticket: int) -> None:
        """Note which transactions go on beyond this batch, and which end with it."""
        unwritten = self._transactions.unwritten
        for transaction in list(unwritten.values()):
            if transaction.is_finished and not contents.is_part:
                del unwritten[transaction.number]
                self._transactions.end_with(transaction, ticket)
                contents.committed.append(transaction.number)
                contents.bound += TRANSACTION.size
            elif transaction.parts:
                contents.parts.append(transaction)
                contents.bound += RECORD_OVERHEAD + TRANSACTION.size
                contents.bound += RUN.size * len(transaction.parts)

    # -------------------------------------------------------------- messages

    def _measure(
        self,
        ledger: DurableLedger,
        added: list[StoredEntry],
        contents: BatchContents,
        *,
        may_share: bool,
    ) -> None:
        """Take new entries, by message, until the batch is full; all octets of them are known then.

        ``may_share``: the messages may be in other queues too.
        """
        firsts: list[StoredEntry] = []
        first_of = contents.firsts.setdefault
        bound = 0
        limit = BATCH_BYTES - contents.bound
        for entry in added:
            if bound > limit:
                contents.is_part = True
                ledger.added = added[added.index(entry) :]
                break
            if entry.state == SETTLED and self._is_left_out(entry, ledger):
                continue
            message = entry.message
            if message.position != UNWRITTEN:  # written for another queue at another time
                message = entry.message = message.unwritten()  # type: ignore[misc] # a slot of QueueEntry
            elif may_share and first_of(message, entry) is not entry:  # another queue has it too
                contents.others.setdefault(message, []).append((ledger, entry))
                bound += ENTRY.size
                continue
            firsts.append(entry)
            address = message.address
            bound += len(message.content) + len(address.octets)
            if message.extras is not None or address.blind_keys:
                bound += len(options_of(message)[1])
        contents.bound += bound + (MESSAGE_OVERHEAD + RECORD_PREFIX.size) * len(firsts)
        if self.keeps_settled or ledger.writes_all:
            contents.bound += RUN.size * len(added)
        if firsts:
            contents.entries.append(TakenEntries(ledger, firsts))

    def _is_left_out(self, entry: StoredEntry, ledger: DurableLedger) -> bool:
        """Whether the entry was settled before it was written, so that it never is."""
        if entry.state != SETTLED or self.keeps_settled or ledger.writes_all:
            return False
        return entry.offset not in ledger.leaving

    def _take_others(self, contents: BatchContents, ticket: int) -> None:
        """Take the entries of messages in a full batch that other queues have added."""
        for ledger in contents.ledgers:
            rest: list[StoredEntry] = []
            for entry in ledger.added:
                message = entry.message
                if message not in contents.firsts:
                    rest.append(entry)
                    continue
                if self._is_left_out(entry, ledger):
                    continue
                contents.others.setdefault(message, []).append((ledger, entry))
                is_run = self.keeps_settled or ledger.writes_all
                contents.bound += ENTRY.size + (RUN.size if is_run else 0)
                ledger.note_written(ticket, entry.offset)
                ledger.next_offset = max(ledger.next_offset, entry.offset + 1)
            ledger.added = rest
            ledger.counted = 0

    # -------------------------------------------------------------- settled entries

    def _take_runs(self, ledger: DurableLedger, contents: BatchContents) -> None:
        """Take runs of settled entries by their present home; adjacent ones become one."""
        runs, ledger.runs = ledger.runs, []
        if ledger.moved_runs:
            liveness = self._gathered.liveness
            for position, offset in ledger.moved_runs:
                runs.append((liveness.current(position) >> OFFSET_BITS, offset, offset + 1))
                liveness.forget_moves(position, ledger.queue_id)
            ledger.moved_runs = []
        runs.sort()
        source = self._compactor.source
        before = len(contents.runs)
        home, first, end = runs[0]
        for next_home, next_first, next_end in runs[1:]:
            if next_first == end and next_home == home:
                end = next_end
                continue
            contents.runs.append((ledger, home, first, end))
            home, first, end = next_home, next_first, next_end
        contents.runs.append((ledger, home, first, end))
        contents.bound += (len(contents.runs) - before) * RUN.size
        if source:
            for _, home, first, end in contents.runs[before:]:
                if home == source:
                    self._compactor.on_settled(ledger.queue_id, first, end)

    def _take_held(self, contents: BatchContents) -> None:
        """Take what finished transactions have settled."""
        held, self._transactions.held = self._transactions.held, []
        for runs in held:
            ledger = runs.ledger
            if ledger.is_forgotten:
                continue
            contents.held.append(runs)
            contents.bound += RUN.size * len(runs.packed)
            if runs.home == self._compactor.source:
                for first, end in runs.runs():
                    self._compactor.on_settled(ledger.queue_id, first, end)
