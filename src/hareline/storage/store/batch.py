"""Batches of records, made of what has gathered, with a place in the journal.

All that one callback of the loop did is in one batch, and so are all entries of a message, which
has one record; a batch that is full takes only messages, and the rest follows. With sequences of
producers what has gathered is kept or lost as a whole, however many batches it takes.         [hot]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.message import UNWRITTEN, Message
from hareline.storage.interface import StoredEntry
from hareline.storage.journal.format.frame import (
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    FREE,
    PART,
    PRODUCERS,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    RETURN,
    SETTLE,
)
from hareline.storage.journal.format.message import DELIVERY_COUNT_MAX, ENTRY
from hareline.storage.journal.format.positions import OFFSET_BITS, SEGMENT_BYTES_MAX
from hareline.storage.journal.format.records import (
    CHECKPOINT_HEAD,
    CHECKPOINT_QUEUE,
    CLEAN_TIME,
    COVERED,
    FREED,
    RETURNED,
    RUN,
    TRANSACTION,
    encode_items,
)
from hareline.storage.journal.upkeep import Freed
from hareline.storage.journal.writer import JournalWriter, Write
from hareline.storage.store.compaction import Compactor, MovedRecord
from hareline.storage.store.ledger import (
    SETTLED,
    DurableLedger,
    DurableTransaction,
    Gathered,
    HeldRuns,
    SettledRun,
    joined,
    runs_of,
)
from hareline.storage.store.liveness import Liveness, SegmentBooks
from hareline.storage.store.message_records import MESSAGE_OVERHEAD, options_of
from hareline.storage.store.packing import Packer, TakenEntries, unpack, was_delivered

OnWritten = Callable[[Write], None]

_RECORDS_MAX: Final = 6  # CHECKPOINT, RETURN, SETTLE, COVER, FREE, COMMIT

#: Octets after which a batch takes no more messages, so that it fits into a segment; the rest goes
#: into the next ones. Publishers pause long before, and so does a commit, which says of what is
#: divided that it belongs together.
BATCH_BYTES: Final = 1 << 29


class BatchContents:
    """Contents of one batch, before it has a place."""

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
        self.runs: list[tuple[DurableLedger, list[SettledRun]]] = []
        self.held: list[HeldRuns] = []
        self.returned: list[tuple[DurableLedger, list[StoredEntry]]] = []
        #: ledgers whose watermark is to be written
        self.covers: list[DurableLedger] = []
        self.moved: list[MovedRecord] = []
        self.freed: list[SegmentBooks] = []
        #: payloads of PRODUCERS records
        self.sequences: list[bytes] = []

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to write."""
        return not (
            self.entries or self.has_settled or self.moved or self.committed or self.sequences
        )

    @property
    def has_settled(self) -> bool:
        """True if anything has happened to entries and segments that are in the journal."""
        return bool(self.runs or self.held or self.returned or self.covers or self.freed)


class BatchBuilder:
    """``keeps_settled``: entries that were settled before they were written are written all the
    same, for a replay. ``void_position``: see ``format.records.Checkpoint``.

    ``inferred_counts``: queue id, offset and delivery count of entries whose count recovery
    inferred and no record says; they go into the next batch. ``released``: ids of large bodies, for
    each entry that the batch settles. ``is_part``: the last batch does not have all that had
    gathered.
    """

    __slots__ = (
        "_compactor",
        "_gathered",
        "_keeps_settled",
        "_ledgers",
        "_liveness",
        "_packer",
        "_split",
        "_writer",
        "forwarded_bytes",
        "inferred_counts",
        "is_part",
        "released",
        "void_position",
    )

    def __init__(
        self,
        writer: JournalWriter,
        gathered: Gathered,
        compactor: Compactor,
        *,
        keeps_settled: bool,
    ) -> None:
        self._writer = writer
        self._gathered = gathered
        self._liveness: Liveness = gathered.liveness
        self._ledgers = gathered.by_id
        self._compactor = compactor
        self._keeps_settled = keeps_settled
        self._split: DurableTransaction | None = None
        self.void_position = 0
        self.forwarded_bytes = 0  # of what freed segments said and had to be written again
        self.inferred_counts: list[tuple[int, int, int]] = []
        self._packer = Packer(keeps_settled=keeps_settled)
        self.is_part = False
        self.released: list[int] = []

    def build(
        self, ticket: int, now_ms: int, on_written: OnWritten, *, is_first: bool, is_last: bool
    ) -> tuple[Write, list[Freed]] | None:
        """The next batch, and which segments it frees; None if there is nothing to write.

        ``is_first``: of this run of the broker, written even with nothing in it. ``is_last``: the
        batch ends with CLEAN.
        """
        writer, packer = self._writer, self._packer
        room = writer.room()
        contents = self._take_messages(ticket, room)
        is_packed = not contents.is_measured
        packer.begin(writer.next_position, writer.seed)
        if is_packed and contents.entries:
            self._pack_unmeasured(contents)
        self._take_rest(contents, ticket)
        self.is_part = contents.is_part
        if contents.is_empty and not is_first and not is_last and not self.inferred_counts:
            self._compactor.after_batch()
            return None
        contents.bound += len(self.inferred_counts) * RETURNED.size + RECORD_OVERHEAD * (
            _RECORDS_MAX + 1
        )
        contents.bound += CLEAN_TIME.size
        is_rolled = contents.bound > room
        if is_rolled:
            if is_packed:
                for taken in contents.entries:
                    unpack(taken)
            self._begin_segment(contents.bound, now_ms)
            packer.begin(writer.next_position, writer.seed)
        books = self._liveness.segments[writer.number]
        if is_rolled:
            if is_first:
                self.void_position = self._compactor.void_position = writer.next_position
            self._checkpoint()
            for payload in self._gathered.sequences.whole_lists():
                packer.add(PRODUCERS, payload)
        sync_first: list[Callable[[], None]] = []
        if contents.entries:
            if is_rolled or not is_packed:
                self._pack(contents)
            sync_first = self._messages(contents, books)
        if contents.moved:
            self._moved(contents.moved, books)
        if contents.has_settled or self.inferred_counts:
            self._settled(contents, books)
        if contents.parts or contents.committed:
            self._transaction_records(contents)
        for payload in () if is_rolled else contents.sequences:  # or else the whole lists have them
            packer.add(PRODUCERS, payload)
        if is_last:
            packer.add(CLEAN, CLEAN_TIME.pack(now_ms))
        write = writer.write_of(
            packer.parts, packer.octets, packer.records, ticket, now_ms, on_written, sync_first
        )
        packer.begin(writer.next_position, writer.seed)  # lets go of bodies
        self._compactor.after_batch()
        return write, [
            Freed(each.number, each.end, each.size_bytes, each.sealed_ms) for each in contents.freed
        ]

    def _begin_segment(self, bound: int, now_ms: int) -> None:
        """Make room for so many octets in a new segment."""
        writer, segments = self._writer, self._liveness.segments
        last, end = writer.number, writer.end
        live = [(books.number, books.end or end) for books in segments.values()]
        first = RECORD_OVERHEAD + CHECKPOINT_HEAD.size + CHECKPOINT_QUEUE.size * len(self._ledgers)
        first += TRANSACTION.size * len(self._gathered.unwritten)
        first += self._gathered.sequences.whole_bound()
        writer.make_room(bound, first, live, now_ms)
        if last:
            self._liveness.seal(last, end, now_ms)
        self._liveness.begin(writer.number, writer.size_bytes)

    # -------------------------------------------------------------- collecting

    def _take_messages(self, ticket: int, room: int) -> BatchContents:
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

    def _take_rest(self, contents: BatchContents, ticket: int) -> None:
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
        if self._gathered.held:
            self._take_held(contents)
        contents.moved = self._compactor.take()
        if contents.moved:
            sizes = [len(record.body) + RECORD_PREFIX.size for record in contents.moved]
            contents.bound += sum(sizes)
        liveness = self._liveness
        if liveness.has_dead and not self._compactor.is_active:
            contents.freed = liveness.choose_freed()
            contents.bound += len(contents.freed) * FREED.size
            contents.bound += liveness.forward_bound(contents.freed)
        if self._gathered.sequences:
            contents.sequences = self._gathered.sequences.take()
            contents.bound += sum([RECORD_OVERHEAD + len(each) for each in contents.sequences])
        if self._split is not None:
            self._split.finish()
            self._split = None
        self._take_transactions(contents, ticket)

    def _keep_together(self, contents: BatchContents) -> None:
        """Let the messages of a full batch count only with those of the last one that follows.

        That has the sequences of producers, which may be above those of messages still to come.
        """
        if self._split is None:
            self._split = self._gathered.begin_transaction()
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
        for transaction in list(self._gathered.unwritten.values()):
            if transaction.is_finished and not contents.is_part:
                self._gathered.end_with(transaction, ticket)
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
        if self._keeps_settled or ledger.writes_all:
            contents.bound += RUN.size * len(added)
        if firsts:
            contents.entries.append(TakenEntries(ledger, firsts))

    def _is_left_out(self, entry: StoredEntry, ledger: DurableLedger) -> bool:
        """True for an entry that was settled before it was written, and so never is."""
        if entry.state != SETTLED or self._keeps_settled or ledger.writes_all:
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
                is_run = self._keeps_settled or ledger.writes_all
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
            liveness = self._liveness
            for position, offset in ledger.moved_runs:
                runs.append((liveness.current(position) >> OFFSET_BITS, offset, offset + 1))
                liveness.forget_moves(position, ledger.queue_id)
            ledger.moved_runs = []
        joined_runs = joined(runs)
        contents.runs.append((ledger, joined_runs))
        contents.bound += len(joined_runs) * RUN.size
        source = self._compactor.source
        if source:
            for home, first, end in joined_runs:
                if home == source:
                    self._compactor.on_settled(ledger.queue_id, first, end)

    def _take_held(self, contents: BatchContents) -> None:
        """Take what finished transactions have settled."""
        held, self._gathered.held = self._gathered.held, []
        for runs in held:
            ledger = runs.ledger
            if ledger.is_forgotten:
                continue
            contents.held.append(runs)
            contents.bound += RUN.size * len(runs.packed)
            if runs.home == self._compactor.source:
                for first, end in runs.runs():
                    self._compactor.on_settled(ledger.queue_id, first, end)

    # -------------------------------------------------------------- records

    def _pack_unmeasured(self, contents: BatchContents) -> None:
        """Pack new entries for the last segment; those that are too many for a batch have to wait.

        Their octets are known only now; if there is no room for them, they are packed once more.
        """
        self._pack(contents)
        contents.bound += self._packer.octets
        (taken,) = contents.entries
        if taken.settled:
            contents.bound += RUN.size * len(taken.settled)
        if not taken.entries:  # all were left out
            contents.entries = []

    def _pack(self, contents: BatchContents) -> None:
        """Pack new entries for the place behind the records that the batch has."""
        for taken in contents.entries:
            rest = self._packer.pack(taken, contents.others, contents.limit)
            if rest:
                contents.is_part = True
                taken.ledger.added = rest

    def _messages(self, contents: BatchContents, books: SegmentBooks) -> list[Callable[[], None]]:
        """Note in the books what was packed; returns syncs of the large bodies of these."""
        number = books.number
        for taken in contents.entries:
            ledger = taken.ledger
            self._count(ledger, len(taken.entries), taken.new_end, books)
            if taken.settled:  # and written for a replay only
                contents.runs.append((ledger, [(number, each, each + 1) for each in taken.settled]))
        for others in contents.others.values():
            for ledger, entry in others:
                is_settled = entry.state == SETTLED and entry.offset not in ledger.leaving
                is_new = not (is_settled or was_delivered(ledger, entry))
                self._count(ledger, 1, entry.offset + 1 if is_new else 0, books)
                if is_settled:
                    contents.runs.append((ledger, [(number, entry.offset, entry.offset + 1)]))

        bodies = self._gathered.bodies
        if bodies is None:
            return []
        for body, listed in self._packer.large:
            for queue_id, offset, _, _ in listed:
                self._ledgers[queue_id].books.large[offset] = body.large_id
                bodies.keep(body.large_id)
        return [body.sync for body, _ in self._packer.large]

    def _count(self, ledger: DurableLedger, count: int, new_end: int, books: SegmentBooks) -> None:
        """Note new entries; ``new_end``: above those that were packed as never delivered."""
        books.total += count
        ledger.books.add(books, count)
        ledger.written_as_new_end = max(ledger.written_as_new_end, new_end)

    def _moved(self, moved: list[MovedRecord], books: SegmentBooks) -> None:
        for record in moved:
            self._compactor.moved(record, self._packer.add_body(record.body), books)

    def _settled(self, contents: BatchContents, books: SegmentBooks) -> None:
        """Add RETURN, SETTLE, COVER and FREE, each one record for all there is."""
        number = books.number
        returns = [RETURNED.pack(*fields) for fields in self.inferred_counts]
        for queue_id, offset, count in self.inferred_counts:
            if queue_id in self._ledgers:
                self._ledgers[queue_id].books.note_return(offset, count, books)
        self.inferred_counts = []
        for ledger, entries in contents.returned:
            queue_id = ledger.queue_id
            for entry in entries:
                count = min(entry.delivery_count, DELIVERY_COUNT_MAX)
                ledger.books.note_return(entry.offset, count, books)
                returns.append(RETURNED.pack(queue_id, entry.offset, count))
        runs = []
        for held in contents.held:
            runs += held.packed
            self.released += held.ledger.books.settle_runs(
                held.home, held.count, held.triples, number
            )
        for ledger, settled in contents.runs:
            queue_id, of_queue = ledger.queue_id, ledger.books
            for home, first, end in settled:
                runs.append(RUN.pack(queue_id, first, end - first))
                self.released += of_queue.settle(home, first, end, number)
        if contents.freed:
            self._forward(contents.freed, number, runs, returns)
        if returns:
            self._packer.add(RETURN, b"".join(returns))
        if runs:
            self._packer.add(SETTLE, b"".join(runs))
        if contents.covers:
            covers = [(ledger.queue_id, ledger.redelivery_watermark) for ledger in contents.covers]
            self._packer.add(COVER, encode_items(COVERED, covers))
        if contents.freed:
            self._packer.add(FREE, encode_items(FREED, [(each.number,) for each in contents.freed]))

    def _forward(
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

    def _transaction_records(self, contents: BatchContents) -> None:
        """Add PART for each transaction that goes on, and COMMIT for all that end."""
        for transaction in contents.parts:
            runs, transaction.parts = transaction.parts, []
            transaction.is_divided = True
            self._packer.add(PART, TRANSACTION.pack(transaction.number) + encode_items(RUN, runs))
        if contents.committed:
            numbers = [(number,) for number in contents.committed]
            self._packer.add(COMMIT, encode_items(TRANSACTION, numbers))

    def _checkpoint(self) -> None:
        """Add what comes first in every segment, so that no older one is kept for it."""
        pack = CHECKPOINT_QUEUE.pack
        queues = [
            pack(ledger.queue_id, ledger.next_offset, ledger.redelivery_watermark)
            for ledger in self._ledgers.values()
        ]
        head = CHECKPOINT_HEAD.pack(self.void_position, len(queues))
        is_open = [
            TRANSACTION.pack(transaction.number)
            for transaction in self._gathered.unwritten.values()
            if transaction.is_divided
        ]
        self._packer.add(CHECKPOINT, b"".join((head, *queues, *is_open)))
