"""What has gathered becomes one batch of records, encoded and with a place in the journal.

``writing.durable`` calls ``build`` when the disk is ready for more; ``writing.collecting`` has
taken what goes into the batch. Entries that a consumer has are written as delivered. The books of
``space.liveness`` and ``writing.books`` are kept here, once for a batch; what is to be freed,
forwarded or moved goes along.                                                                 [hot]

Invariant: a message has one record however many queues have it, and learns its position by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32

from hareline.message import LargeBody
from hareline.storage.interface import StoredEntry
from hareline.storage.journal.format.frame import (
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    FREE,
    MESSAGE,
    PART,
    PRODUCERS,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    RETURN,
    SETTLE,
    encode_record,
)
from hareline.storage.journal.format.message import DELIVERY_COUNT_MAX, WAS_DELIVERED
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
from hareline.storage.space.compaction import Compactor, MovedRecord
from hareline.storage.space.freeing import Freeing
from hareline.storage.space.liveness import Liveness, SegmentBooks
from hareline.storage.writing.collecting import BatchContents, Collector
from hareline.storage.writing.divided import Transactions
from hareline.storage.writing.ledger import ACQUIRED, SETTLED, DurableLedger, Gathered
from hareline.storage.writing.message_records import PLAIN_HEAD, EntryFields, record_head
from hareline.storage.writing.sequences import moved_payload

OnWritten = Callable[[Write], None]

_RECORDS_MAX: Final = 6  # CHECKPOINT, RETURN, SETTLE, COVER, FREE, COMMIT


class BatchBuilder:
    """``void_position``: see ``format.records.Checkpoint``.

    ``inferred_counts``: queue id, offset and delivery count of entries whose count recovery
    inferred and no record says; they go into the next batch. ``released``: ids of large bodies, for
    each entry that the batch settles. ``is_part``: the last batch does not have all that had
    gathered.
    """

    __slots__ = (
        "_collector",
        "_compactor",
        "_freeing",
        "_gathered",
        "_large",
        "_ledgers",
        "_liveness",
        "_parts",
        "_records",
        "_transactions",
        "_writer",
        "inferred_counts",
        "is_part",
        "released",
        "void_position",
    )

    def __init__(
        self,
        writer: JournalWriter,
        gathered: Gathered,
        transactions: Transactions,
        freeing: Freeing,
        compactor: Compactor,
        *,
        keeps_settled: bool,
    ) -> None:
        """``keeps_settled``: see ``Collector``."""
        self._writer = writer
        self._gathered = gathered
        self._transactions = transactions
        self._liveness: Liveness = gathered.liveness
        self._ledgers = gathered.by_id
        self._freeing = freeing
        self._compactor = compactor
        self._collector = Collector(
            gathered, transactions, freeing, compactor, keeps_settled=keeps_settled
        )
        self.void_position = 0
        self.inferred_counts: list[tuple[int, int, int]] = []
        self._parts: list[bytes] = []
        self._records = 0
        self._large: list[Callable[[], None]] = []
        self.is_part = False
        self.released: list[int] = []

    def build(
        self, ticket: int, now_ms: int, on_written: OnWritten, *, is_first: bool, is_last: bool
    ) -> tuple[Write, list[Freed]] | None:
        """The next batch, and which segments it frees; None if there is nothing to write.

        ``is_first``: of this run of the broker, written even with nothing in it. ``is_last``: the
        batch ends with CLEAN.
        """
        contents = self._collector.collect(ticket)
        self.is_part = contents.is_part
        if contents.is_empty and not is_first and not is_last and not self.inferred_counts:
            self._compactor.after_batch()
            return None
        contents.bound += len(self.inferred_counts) * RETURNED.size + RECORD_OVERHEAD * (
            _RECORDS_MAX + 1
        )
        is_rolled = self._make_room(contents.bound + CLEAN_TIME.size, now_ms)
        books = self._liveness.segments[self._writer.number]
        self._parts = []
        self._records = 0
        if is_rolled:
            if is_first:
                self.void_position = self._compactor.void_position = self._writer.next_position
            self._checkpoint()
            for payload in self._gathered.sequences.whole_lists():
                self._add(PRODUCERS, payload)
        self._messages(contents, books)
        self._moved(contents.moved, books)
        self._settled(contents, books)
        self._transaction_records(contents)
        for moved in () if is_rolled else contents.sequences:  # or else the whole lists have them
            self._add(PRODUCERS, moved_payload(moved))
        if is_last:
            self._add(CLEAN, CLEAN_TIME.pack(now_ms))
        large, self._large = self._large, []
        write = self._writer.write_of(self._parts, self._records, ticket, now_ms, on_written, large)
        self._parts = []
        self._compactor.after_batch()
        return write, [
            Freed(each.number, each.end, each.size_bytes, each.sealed_ms) for each in contents.freed
        ]

    def _make_room(self, bound: int, now_ms: int) -> bool:
        """Make room for so many octets in the last segment, or in a new one; True for a new one."""
        writer, segments = self._writer, self._liveness.segments
        if bound <= writer.room():
            return False
        last, end = writer.number, writer.end
        live = [(books.number, books.end or end) for books in segments.values()]
        first = RECORD_OVERHEAD + CHECKPOINT_HEAD.size + CHECKPOINT_QUEUE.size * len(self._ledgers)
        first += TRANSACTION.size * len(self._transactions.unwritten)
        first += self._gathered.sequences.whole_bound()
        writer.make_room(bound, first, live, now_ms)
        if last:
            self._liveness.seal(last, end, now_ms)
        self._liveness.begin(writer.number, writer.size_bytes)
        return True

    # -------------------------------------------------------------- records

    def _messages(self, contents: BatchContents, books: SegmentBooks) -> None:
        """Add one record for each message, which learns its position by it."""
        others = contents.others
        parts = self._parts
        writer = self._writer
        seed = writer.seed
        position = writer.next_position + sum(map(len, parts))
        pack_head, pack_prefix = PLAIN_HEAD.pack, RECORD_PREFIX.pack
        for ledger, entries in contents.entries:
            queue_id = ledger.queue_id
            last_new = -1  # offset
            settled: list[int] = []
            for entry in entries:
                message = entry.message
                content = message.content
                address = message.address
                count = entry.delivery_count
                state = entry.state
                # an entry that leaves before it is written may have been delivered
                is_leaving = state == SETTLED and entry.offset in ledger.leaving
                if state == ACQUIRED or count or is_leaving:
                    flags = WAS_DELIVERED
                    count = count if count <= DELIVERY_COUNT_MAX else DELIVERY_COUNT_MAX
                else:
                    flags = 0
                    last_new = entry.offset
                if state == SETTLED and not is_leaving:
                    settled.append(entry.offset)
                if (
                    message.extras is None
                    and not address.blind_keys
                    and (not others or message not in others)
                ):
                    head = (
                        pack_head(
                            MESSAGE,
                            0,
                            message.arrival_ms,
                            message.channel,
                            message.header_size,
                            message.size,
                            1,
                            queue_id,
                            entry.offset,
                            count,
                            flags,
                        )
                        + address.octets
                    )
                else:
                    listed: list[EntryFields] = [(queue_id, entry.offset, count, flags)]
                    for other in others.get(message, ()):
                        listed += (self._other(other, books, contents),)
                    head = record_head(message, listed)
                    if message.large is not None:
                        self._keep_large(message.large, listed)
                length = len(head) + len(content)
                parts += (pack_prefix(length, crc32(content, crc32(head, seed))), head, content)
                message.position = position
                position += RECORD_PREFIX.size + length
            self._records += len(entries)
            books.total += len(entries)
            self._count(ledger, len(entries), last_new, books)
            self._settle_at_once(ledger, settled, books, contents)

    def _keep_large(self, body: LargeBody, entries: list[EntryFields]) -> None:
        """Have the body synced before the record that refers to it is durable."""
        bodies = self._gathered.bodies
        if bodies is None:
            return
        self._large.append(body.sync)
        for queue_id, offset, _, _ in entries:
            self._ledgers[queue_id].books.large[offset] = body.large_id
            bodies.keep(body.large_id)

    def _other(
        self,
        other: tuple[DurableLedger, StoredEntry],
        books: SegmentBooks,
        contents: BatchContents,
    ) -> EntryFields:
        """How a further entry of a message is listed in its record; counted in the books."""
        ledger, entry = other
        books.total += 1
        count = entry.delivery_count
        is_leaving = entry.state == SETTLED and entry.offset in ledger.leaving
        was_delivered = entry.state == ACQUIRED or count > 0 or is_leaving
        is_settled = entry.state == SETTLED and not is_leaving
        last_new = -1 if was_delivered or is_settled else entry.offset
        self._count(ledger, 1, last_new, books)
        if is_settled:
            self._settle_at_once(ledger, [entry.offset], books, contents)
        return ledger.queue_id, entry.offset, count, WAS_DELIVERED if was_delivered else 0

    def _count(self, ledger: DurableLedger, count: int, last_new: int, books: SegmentBooks) -> None:
        ledger.books.add(books, count)
        if last_new >= ledger.written_as_new_end:
            ledger.written_as_new_end = last_new + 1

    def _settle_at_once(
        self,
        ledger: DurableLedger,
        offsets: list[int],
        books: SegmentBooks,
        contents: BatchContents,
    ) -> None:
        """Settle entries that are written for a replay only."""
        for offset in offsets:
            contents.runs.append((ledger, books.number, offset, offset + 1))

    def _moved(self, moved: list[MovedRecord], books: SegmentBooks) -> None:
        position = self._writer.next_position + sum(map(len, self._parts)) if moved else 0
        seed = self._writer.seed
        for record in moved:
            body = record.body
            self._parts += (RECORD_PREFIX.pack(len(body), crc32(body, seed)), body)
            self._compactor.moved(record, position, books)
            position += RECORD_PREFIX.size + len(body)
        self._records += len(moved)

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
        for ledger, home, first, end in contents.runs:
            runs.append(RUN.pack(ledger.queue_id, first, end - first))
            self.released += ledger.books.settle(home, first, end, number)
        if contents.freed:
            self._freeing.forward(contents.freed, number, runs, returns)
        if returns:
            self._add(RETURN, b"".join(returns))
        if runs:
            self._add(SETTLE, b"".join(runs))
        if contents.covers:
            covers = [(ledger.queue_id, ledger.redelivery_watermark) for ledger in contents.covers]
            self._add(COVER, encode_items(COVERED, covers))
        if contents.freed:
            self._add(FREE, encode_items(FREED, [(each.number,) for each in contents.freed]))

    def _transaction_records(self, contents: BatchContents) -> None:
        """Add PART for each transaction that goes on, and COMMIT for all that end."""
        for transaction in contents.parts:
            runs, transaction.parts = transaction.parts, []
            transaction.is_divided = True
            self._add(PART, TRANSACTION.pack(transaction.number) + encode_items(RUN, runs))
        if contents.committed:
            numbers = [(number,) for number in contents.committed]
            self._add(COMMIT, encode_items(TRANSACTION, numbers))

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
            for transaction in self._transactions.unwritten.values()
            if transaction.is_divided
        ]
        self._add(CHECKPOINT, b"".join((head, *queues, *is_open)))

    def _add(self, kind: int, payload: bytes) -> None:
        self._parts += encode_record(kind, (payload,), self._writer.seed)
        self._records += 1
