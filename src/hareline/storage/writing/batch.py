"""What has gathered becomes one batch of records.

``writing.durable`` calls ``build`` when the disk is ready for more. Entries that were settled
before they came here are never written, and those that somebody has are written as delivered. The
books of ``space.liveness`` are kept here, once for a batch; what is to be freed, forwarded or
moved goes along.                                                                              [hot]

Invariant: all that one callback of the loop did is in one batch, and a message has one record
however many queues have got it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from zlib import crc32

from hareline.message import UNWRITTEN, LargeBody
from hareline.storage.interface import StoredEntry
from hareline.storage.journal.format.frame import (
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    FREE,
    MESSAGE,
    PART,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    RETURN,
    SETTLE,
    encode_record,
)
from hareline.storage.journal.format.message import DELIVERY_COUNT_MAX, ENTRY, WAS_DELIVERED
from hareline.storage.journal.format.positions import OFFSET_BITS
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
from hareline.storage.writing.divided import DurableTransaction, HeldRuns
from hareline.storage.writing.ledger import ACQUIRED, SETTLED, DurableLedger, Gathered
from hareline.storage.writing.message_records import (
    MESSAGE_OVERHEAD,
    PLAIN_HEAD,
    EntryFields,
    is_plain,
    options_of,
    record_head,
)

#: ledger, home, first, end
Run = tuple[DurableLedger, int, int, int]
OnWritten = Callable[[Write], None]

#: Octets after which a batch takes no more messages, so that it fits into a segment; the rest goes
#: into the next ones. Publishers pause long before, and so does a commit, which says of what is
#: divided that it belongs together (``writing.divided``).
BATCH_BYTES: Final = 1 << 29

#: While a batch is built, ``Message.position`` of the message of group g is this minus g.
_FIRST_GROUP: Final = UNWRITTEN - 1
_RECORDS_MAX: Final = 6  # CHECKPOINT, RETURN, SETTLE, COVER, FREE, COMMIT


class Contents:
    """What one batch is made of, before it has a place."""

    __slots__ = (
        "bound",
        "committed",
        "covers",
        "entries",
        "freed",
        "groups",
        "held",
        "is_part",
        "moved",
        "others",
        "parts",
        "returned",
        "runs",
    )

    def __init__(self) -> None:
        self.bound = 0
        #: transactions that go on beyond this batch, and numbers of those that end with it
        self.parts: list[DurableTransaction] = []
        self.committed: list[int] = []
        #: what has gathered is more than one batch may have: only messages so far, and not all
        self.is_part = False
        #: for each ledger the entries that are the first of their message
        self.entries: list[tuple[DurableLedger, list[StoredEntry]]] = []
        self.groups = 0
        #: group to the entries of the same message in other queues
        self.others: dict[int, list[tuple[DurableLedger, StoredEntry]]] = {}
        self.runs: list[Run] = []
        self.held: list[HeldRuns] = []
        self.returned: list[tuple[DurableLedger, list[StoredEntry]]] = []
        self.covers: list[DurableLedger] = []
        self.moved: list[MovedRecord] = []
        self.freed: list[SegmentBooks] = []

    @property
    def is_empty(self) -> bool:
        return not (
            self.groups
            or self.runs
            or self.held
            or self.returned
            or self.covers
            or self.moved
            or self.freed
            or self.committed
        )


class BatchBuilder:
    """``keeps_settled``: entries that were settled before they were written are written all the
    same, for a replay. ``void_position``: see ``format.Checkpoint``.

    ``inferred_counts``: delivery counts that recovery inferred and no record says; it goes into the
    next batch. ``released``: ids of large bodies, for each entry that the batch settles.
    ``is_part``: the batch that was built last has not all that had gathered.
    """

    __slots__ = (
        "_compactor",
        "_freeing",
        "_gathered",
        "_large",
        "_ledgers",
        "_liveness",
        "_parts",
        "_records",
        "_writer",
        "inferred_counts",
        "is_part",
        "keeps_settled",
        "released",
        "void_position",
    )

    def __init__(
        self,
        writer: JournalWriter,
        gathered: Gathered,
        ledgers: dict[int, DurableLedger],
        freeing: Freeing,
        compactor: Compactor,
        *,
        keeps_settled: bool,
    ) -> None:
        self._writer = writer
        self._gathered = gathered
        self._liveness: Liveness = gathered.liveness
        self._ledgers = ledgers
        self._freeing = freeing
        self._compactor = compactor
        self.keeps_settled = keeps_settled
        self.void_position = 0
        self.inferred_counts: list[tuple[int, int, int]] = []  # queue id, offset, delivery count
        self._parts: list[bytes] = []
        self._records = 0
        self._large: list[Callable[[], None]] = []
        self.is_part = False
        self.released: list[int] = []

    def build(
        self, ticket: int, now_ms: int, on_written: OnWritten, *, is_first: bool, is_last: bool
    ) -> tuple[Write, list[Freed]] | None:
        """The next batch, and which segments it frees; None if there is nothing to write.

        ``is_first``: of this run of the broker, written even with nothing in it. ``is_last``: ends
        with CLEAN.
        """
        contents = self._collect()
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
        self._messages(contents, books)
        self._moved(contents.moved, books)
        self._settled(contents, books)
        self._transactions(contents)
        if is_last:
            self._add(CLEAN, CLEAN_TIME.pack(now_ms))
        large, self._large = self._large, []
        write = self._writer.write_of(self._parts, self._records, ticket, now_ms, on_written, large)
        self._parts = []
        self._compactor.after_batch()
        return write, [
            Freed(each.number, each.end, each.size_bytes, each.sealed_ms) for each in contents.freed
        ]

    # -------------------------------------------------------------- what there is

    def _collect(self) -> Contents:
        contents = Contents()
        ledgers = [ledger for ledger in self._gathered.ledgers if ledger.is_gathered]
        for ledger in ledgers:  # the others are forgotten
            if ledger.added:
                self._collect_added(ledger, contents)
                if contents.is_part:  # whatever else has happened comes behind all messages
                    self._gathered.ledgers = ledgers
                    self._collect_others(ledgers, contents)
                    self._collect_transactions(contents)
                    return contents
        self._gathered.ledgers = []
        for ledger in ledgers:
            ledger.is_gathered = False
            ledger.close_run()
            if ledger.runs or ledger.moved_runs:
                self._collect_runs(ledger, contents)
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
            self._collect_held(contents)
        contents.moved = self._compactor.take()
        contents.bound += sum([len(record.body) + RECORD_PREFIX.size for record in contents.moved])
        self._freeing.is_blocked = self._compactor.is_active
        contents.freed = self._freeing.choose()
        contents.bound += len(contents.freed) * FREED.size
        if contents.freed:
            contents.bound += self._freeing.bound(contents.freed)
        self._collect_transactions(contents)
        return contents

    def _collect_transactions(self, contents: Contents) -> None:
        """Which transactions go on beyond this batch, and which come to their end with it."""
        transactions = self._gathered.transactions
        for transaction in list(transactions.values()):
            if transaction.is_finished and not contents.is_part:
                del transactions[transaction.number]
                contents.committed.append(transaction.number)
                contents.bound += TRANSACTION.size
            elif transaction.parts:
                contents.parts.append(transaction)
                contents.bound += RECORD_OVERHEAD + TRANSACTION.size
                contents.bound += RUN.size * len(transaction.parts)

    def _collect_added(self, ledger: DurableLedger, contents: Contents) -> None:
        """Entries of messages without a record yet, by message; a bound of what they will take."""
        added, ledger.added = ledger.added, []
        ledger.counted = 0
        ledger.next_offset = max(ledger.next_offset, added[-1].offset + 1)
        keeps_settled = self.keeps_settled
        firsts: list[StoredEntry] = []
        group = contents.groups
        bound = 0
        limit = BATCH_BYTES - contents.bound
        for entry in added:
            if bound > limit:
                contents.is_part = True
                ledger.added = added[added.index(entry) :]
                break
            if entry.state == SETTLED and self._is_void(entry, ledger):
                continue
            message = entry.message
            position = message.position
            if position < UNWRITTEN:  # another queue has it too
                others = contents.others.setdefault(_FIRST_GROUP - position, [])
                others.append((ledger, entry))
                bound += ENTRY.size
                continue
            if position != UNWRITTEN:  # written for another queue at another time
                message = entry.message = message.unwritten()
            message.position = _FIRST_GROUP - group
            group += 1
            firsts.append(entry)
            bound += len(message.content) + len(message.address.octets)
            if not is_plain(message):
                bound += len(options_of(message)[1])
        contents.bound += bound + (MESSAGE_OVERHEAD + RECORD_PREFIX.size) * len(firsts)
        if keeps_settled:
            contents.bound += RUN.size * len(added)
        contents.groups = group
        if firsts:
            contents.entries.append((ledger, firsts))

    def _is_void(self, entry: StoredEntry, ledger: DurableLedger) -> bool:
        """Whether it was settled before it came to be written, so that nothing of it ever is."""
        if entry.state != SETTLED or self.keeps_settled:
            return False
        return entry.offset not in ledger.leaving

    def _collect_others(self, ledgers: list[DurableLedger], contents: Contents) -> None:
        """What of the rest belongs to messages in this batch: a message has one record."""
        for ledger in ledgers:
            rest: list[StoredEntry] = []
            for entry in ledger.added:
                position = entry.message.position
                if position >= UNWRITTEN:
                    rest.append(entry)
                    continue
                if self._is_void(entry, ledger):
                    continue
                contents.others.setdefault(_FIRST_GROUP - position, []).append((ledger, entry))
                contents.bound += ENTRY.size + (RUN.size if self.keeps_settled else 0)
                ledger.next_offset = max(ledger.next_offset, entry.offset + 1)
            ledger.added = rest
            ledger.counted = 0

    def _collect_runs(self, ledger: DurableLedger, contents: Contents) -> None:
        """Runs of settled entries by their present home, those that adjoin made one."""
        runs, ledger.runs = ledger.runs, []
        if ledger.moved_runs:
            liveness = self._liveness
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

    def _collect_held(self, contents: Contents) -> None:
        """What transactions that are finished have settled."""
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

    def _make_room(self, bound: int, now_ms: int) -> bool:
        """The tail, or a new one, takes a batch of that many octets; True for a new one."""
        writer, segments = self._writer, self._liveness.segments
        if bound <= writer.room():
            return False
        last, end = writer.number, writer.end
        live = [(books.number, books.end or end) for books in segments.values()]
        first = RECORD_OVERHEAD + CHECKPOINT_HEAD.size + CHECKPOINT_QUEUE.size * len(self._ledgers)
        first += TRANSACTION.size * len(self._gathered.transactions)
        writer.make_room(bound, first, live, now_ms)
        if last:
            self._liveness.seal(last, end, now_ms)
        self._liveness.begin(writer.number, writer.size_bytes)
        return True

    # -------------------------------------------------------------- records

    def _messages(self, contents: Contents, books: SegmentBooks) -> None:
        """One record for each message, which learns its position by it."""
        others = contents.others
        parts = self._parts
        writer = self._writer
        seed = writer.seed
        position = writer.next_position + sum(map(len, parts))
        pack_head, pack_prefix = PLAIN_HEAD.pack, RECORD_PREFIX.pack
        for ledger, entries in contents.entries:
            queue_id = ledger.queue_id
            delivered_unwritten = -1
            settled: list[int] = []
            for entry in entries:
                message = entry.message
                content = message.content
                address = message.address
                count = entry.delivery_count
                state = entry.state
                # who leaves without having been written may have been with somebody
                is_leaving = state == SETTLED and entry.offset in ledger.leaving
                if state == ACQUIRED or count or is_leaving:
                    flags = WAS_DELIVERED
                    count = count if count <= DELIVERY_COUNT_MAX else DELIVERY_COUNT_MAX
                else:
                    flags = 0
                    delivered_unwritten = entry.offset
                if state == SETTLED and not is_leaving:
                    settled.append(entry.offset)
                if (
                    message.extras is None
                    and not address.blind_keys
                    and (not others or _FIRST_GROUP - message.position not in others)
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
                    for other in others.get(_FIRST_GROUP - message.position, ()):
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
            self._count(ledger, len(entries), delivered_unwritten, books)
            self._settle_at_once(ledger, settled, books, contents)

    def _keep_large(self, body: LargeBody, entries: list[EntryFields]) -> None:
        """The record that refers to it must not be durable before it."""
        bodies = self._gathered.bodies
        if bodies is None:
            return
        self._large.append(body.sync)
        for queue_id, offset, _, _ in entries:
            self._ledgers[queue_id].large[offset] = body.large_id
            bodies.keep(body.large_id)

    def _other(
        self,
        other: tuple[DurableLedger, StoredEntry],
        books: SegmentBooks,
        contents: Contents,
    ) -> EntryFields:
        """A further entry of a message: how it is listed in the record."""
        ledger, entry = other
        books.total += 1
        count = entry.delivery_count
        is_leaving = entry.state == SETTLED and entry.offset in ledger.leaving
        was_delivered = entry.state == ACQUIRED or count > 0 or is_leaving
        is_settled = entry.state == SETTLED and not is_leaving
        delivered_unwritten = -1 if was_delivered or is_settled else entry.offset
        self._count(ledger, 1, delivered_unwritten, books)
        if is_settled:
            self._settle_at_once(ledger, [entry.offset], books, contents)
        return ledger.queue_id, entry.offset, count, WAS_DELIVERED if was_delivered else 0

    def _count(
        self, ledger: DurableLedger, count: int, delivered_unwritten: int, books: SegmentBooks
    ) -> None:
        number = books.number
        books.live += count
        ledger.live[number] = ledger.live.get(number, 0) + count
        if delivered_unwritten >= ledger.delivered_unwritten:
            ledger.delivered_unwritten = delivered_unwritten + 1

    def _settle_at_once(
        self,
        ledger: DurableLedger,
        offsets: list[int],
        books: SegmentBooks,
        contents: Contents,
    ) -> None:
        """These were written for a replay only."""
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

    def _settled(self, contents: Contents, books: SegmentBooks) -> None:
        """RETURN, SETTLE, COVER and FREE, each one record for all there is."""
        number = books.number
        returns = [RETURNED.pack(*fields) for fields in self.inferred_counts]
        for queue_id, offset, count in self.inferred_counts:
            if queue_id in self._ledgers:
                self._ledgers[queue_id].returns[offset] = (count, number)
                books.add_returned(queue_id, offset)
        self.inferred_counts = []
        for ledger, entries in contents.returned:
            queue_id = ledger.queue_id
            for entry in entries:
                count = min(entry.delivery_count, DELIVERY_COUNT_MAX)
                ledger.returns[entry.offset] = (count, number)
                books.add_returned(queue_id, entry.offset)
                returns.append(RETURNED.pack(queue_id, entry.offset, count))
        runs = []
        for held in contents.held:
            runs += held.packed
            self._book_held(held, number)
        for ledger, home, first, end in contents.runs:
            runs.append(RUN.pack(ledger.queue_id, first, end - first))
            self._book_run(ledger, home, first, end, number)
        if contents.freed:
            self._freeing.forward(contents.freed, number, runs, returns)
        if returns:
            self._add(RETURN, b"".join(returns))
        if runs:
            self._add(SETTLE, b"".join(runs))
        if contents.covers:
            covers = [(ledger.queue_id, ledger.cover) for ledger in contents.covers]
            self._add(COVER, encode_items(COVERED, covers))
        if contents.freed:
            self._add(FREE, encode_items(FREED, [(each.number,) for each in contents.freed]))

    def _transactions(self, contents: Contents) -> None:
        """PART for each transaction that goes on, and COMMIT for all that come to their end."""
        for transaction in contents.parts:
            runs, transaction.parts = transaction.parts, []
            transaction.is_divided = True
            self._add(PART, TRANSACTION.pack(transaction.number) + encode_items(RUN, runs))
        if contents.committed:
            numbers = [(number,) for number in contents.committed]
            self._add(COMMIT, encode_items(TRANSACTION, numbers))

    def _book_run(
        self, ledger: DurableLedger, home: int, first: int, end: int, number: int
    ) -> None:
        count = end - first
        ledger.leave(home, count)
        self._liveness.take(home, count)
        self._liveness.segments[home].add_settled(number, ledger.queue_id, first, count)
        if ledger.returns or ledger.large:
            self._forget_settled(ledger, first, end)

    def _book_held(self, held: HeldRuns, number: int) -> None:
        ledger, home, count = held.ledger, held.home, held.count
        ledger.leave(home, count)
        self._liveness.take(home, count)
        self._liveness.segments[home].add_settled_runs(number, held.triples)
        if ledger.returns or ledger.large:
            for first, end in held.runs():
                self._forget_settled(ledger, first, end)

    def _forget_settled(self, ledger: DurableLedger, first: int, end: int) -> None:
        for offset in _within(ledger.returns, first, end):
            del ledger.returns[offset]
        for offset in _within(ledger.large, first, end):
            self.released.append(ledger.large.pop(offset))

    def _checkpoint(self) -> None:
        """First in every segment: what no older segment need be kept for."""
        pack = CHECKPOINT_QUEUE.pack
        queues = [
            pack(ledger.queue_id, ledger.next_offset, ledger.cover)
            for ledger in self._ledgers.values()
        ]
        head = CHECKPOINT_HEAD.pack(self.void_position, len(queues))
        is_open = [
            TRANSACTION.pack(transaction.number)
            for transaction in self._gathered.transactions.values()
            if transaction.is_divided
        ]
        self._add(CHECKPOINT, b"".join((head, *queues, *is_open)))

    def _add(self, kind: int, payload: bytes) -> None:
        self._parts += encode_record(kind, (payload,), self._writer.seed)
        self._records += 1


def _within(offsets: Mapping[int, object], first: int, end: int) -> list[int]:
    """Those from ``first`` to before ``end``, looking at the fewer."""
    if end - first < len(offsets):
        return [offset for offset in range(first, end) if offset in offsets]
    return [offset for offset in offsets if first <= offset < end]
