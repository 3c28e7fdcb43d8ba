"""One durable queue's part of the durable store: what has happened to its entries.

The queue calls in here for every entry; nothing is encoded until ``storage.store.batch`` takes what
has gathered. Acks of consecutive deliveries are one run, extended by one addition each.

A transaction may take several turns, and so several batches. Each batch with entries of an
unfinished one names them in a PART record, and the last says COMMIT: without it a start drops them
all. Settlements and sequences are held until then. No compaction begins meanwhile, so the segments
of held runs stay what they are.                                                               [hot]
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hareline.storage.interface import (
    SPOOLED,
    MessageStore,
    QueueLedger,
    StoredEntry,
    StoreTransaction,
)
from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.journal.format.records import RUN
from hareline.storage.store.liveness import Liveness, SegmentBooks
from hareline.storage.store.sequences import GatheredSequences, HeldSequences
from hareline.storage.store.state import RecoveredQueue

if TYPE_CHECKING:
    from hareline.storage.store.large_bodies import LargeBodies

SETTLED: Final = 2  # queues.core.entry.SETTLED
ACQUIRED: Final = 1  # queues.core.entry.ACQUIRED

#: How far a COVER goes beyond what it is needed for. Entries below it are redelivered after a crash
#: even if no consumer had them, so a queue begins with little; one that is drained quickly gets
#: more, and its deliveries hardly ever wait for a COVER: half-way the next one is written.
COVER_AHEAD_MIN: Final = 32
COVER_AHEAD_MAX: Final = 4096
_QUICK_TICKETS: Final = 16  # a COVER that was used up within so many batches was too small

_NO_SEGMENT: Final = -2  # not one of any position, TRANSIENT and UNWRITTEN included
_NO_OFFSET: Final = -1

#: Settled entries: the segment that is their home, the first offset, and the one behind the last.
SettledRun = tuple[int, int, int]


class Gathered:
    """All that waits for the next batch, and what ledgers and transactions need of the store.

    ``ledgers``: those with something for the batch. ``by_id``: every ledger that is not forgotten.
    ``deleted``: those of queues that are deleted, of which the journal is still to give up what it
    has. ``new_bytes``: octets of the contents that were added since the last batch, as far as they
    are counted.

    ``transaction``: the one whose work is being done. ``unwritten``: by number, those that are
    unfinished, or whose COMMIT is not written. ``held``: what finished ones have settled.
    """

    __slots__ = (
        "_ending",
        "_transaction_count",
        "bodies",
        "by_id",
        "deleted",
        "held",
        "ledgers",
        "liveness",
        "new_bytes",
        "sequences",
        "store",
        "transaction",
        "unwritten",
    )

    def __init__(
        self, store: MessageStore, liveness: Liveness, bodies: LargeBodies | None = None
    ) -> None:
        self.store = store
        self.liveness = liveness
        self.bodies = bodies
        self.ledgers: list[DurableLedger] = []
        self.new_bytes = 0
        self.by_id: dict[int, DurableLedger] = {}
        self.deleted: list[DurableLedger] = []
        self.sequences = GatheredSequences(store)
        self.transaction: DurableTransaction | None = None
        self.unwritten: dict[int, DurableTransaction] = {}
        self.held: list[HeldRuns] = []
        self._transaction_count = 0
        self._ending: list[tuple[int, dict[DurableLedger, int]]] = []  # ticket, first offsets

    def begin_transaction(self) -> DurableTransaction:
        """Return a new one, with the next number."""
        self._transaction_count += 1
        transaction = DurableTransaction(self._transaction_count, self)
        self.unwritten[transaction.number] = transaction
        return transaction

    def end_with(self, transaction: DurableTransaction, ticket: int) -> None:
        """The batch with this ticket says COMMIT: from then on its entries survive a crash."""
        del self.unwritten[transaction.number]
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
            durable = self.store.durable_ticket
            self._ending = [each for each in self._ending if each[0] > durable]

    @property
    def is_commit_due(self) -> bool:
        """True if there is something to write of finished transactions, though of no ledger."""
        return bool(self.held) or any(one.is_finished for one in self.unwritten.values())

    def count_new_bytes(self) -> None:
        """Add to ``new_bytes`` what was added since this was last called."""
        for ledger in self.ledgers:
            new = ledger.added[ledger.counted :] if ledger.counted else ledger.added
            self.new_bytes += sum([len(entry.message.content) for entry in new])
            ledger.counted = len(ledger.added)

    def clear(self) -> None:
        """Forget what has gathered in all ledgers, and what finished transactions have settled."""
        self.new_bytes = 0
        self.held = []
        self.sequences.clear()
        ledgers, self.ledgers = self.ledgers, []
        for ledger in ledgers:
            ledger.is_gathered = False
            ledger.lose_added()
            ledger.clear()


class JournalBooks:
    """Books on one queue in the journal: entries by segment, delivery counts, large bodies.

    Over all queues, entries in ``live`` of a segment are ``SegmentBooks.live`` of it.
    ``live``: segment number to how many entries have their home there.

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


class DurableLedger(QueueLedger):
    """Events of the entries of one queue since the last batch, and what is known of it.

    ``books``: what the journal has of the queue. ``next_offset``: above every offset that was
    written. ``written_as_new_end``: above every offset that was written as never delivered; a
    delivery of one of these has to be covered. ``redelivery_watermark``: entries below it may have
    been delivered, says a COVER record that is written or gathered; after a crash they come back as
    redelivered.

    Gathered for the next batch: ``added``, ``counted`` of which are in the store's count of what
    waits, ``runs`` (segment, first, end), ``moved_runs`` (position, offset) of settled entries
    whose record was moved, ``returned``, ``is_cover_due``.

    ``written_ticket``: of the last batch that took new entries; ``written_first``: the lowest
    offset of these, and of those in earlier batches that were not durable at the time.

    ``leaving``: offsets of settled entries that are written all the same, as their dead letters are
    still to come.
    """

    __slots__ = (
        "_ahead",
        "_durable_watermark",
        "_gathered",
        "_lost_first",
        "_run_end",
        "_run_first",
        "_run_segment",
        "_watermark_ticket",
        "added",
        "books",
        "counted",
        "is_cover_due",
        "is_forgotten",
        "is_gathered",
        "leaving",
        "moved_runs",
        "name",
        "next_offset",
        "queue_id",
        "redelivery_watermark",
        "returned",
        "runs",
        "written_as_new_end",
        "written_first",
        "written_ticket",
    )

    def __init__(self, queue_id: int, name: str, gathered: Gathered) -> None:
        super().__init__()
        self.queue_id = queue_id
        self.name = name
        self._gathered = gathered
        self.books = JournalBooks(queue_id, gathered.liveness)
        self.added: list[StoredEntry] = []
        self.counted = 0
        self.runs: list[SettledRun] = []
        self.moved_runs: list[tuple[int, int]] = []
        self.returned: list[StoredEntry] = []
        self._run_segment = _NO_SEGMENT
        self._run_first = _NO_OFFSET
        self._run_end = _NO_OFFSET
        self.is_gathered = False
        self.is_forgotten = False
        self.next_offset = 0
        self.leaving: set[int] = set()
        self.written_ticket = 0
        self.written_first = 0
        self._lost_first = _NO_OFFSET  # of what gathered when the store had failed
        self.written_as_new_end = 0
        self.redelivery_watermark = 0
        self.is_cover_due = False
        self._ahead = COVER_AHEAD_MIN
        self._durable_watermark = 0  # the last one that is durable
        self._watermark_ticket = 0  # when ``redelivery_watermark`` is durable

    def counts(self) -> tuple[int, int]:
        return self.books.written_count, sum(self.books.live.values())

    def add(self, entry: StoredEntry) -> None:
        if self.is_gathered or self._gather():
            self.added.append(entry)

    def add_run(self, entries: Sequence[StoredEntry]) -> None:
        if entries and (self.is_gathered or self._gather()):
            self.added += entries

    def settle(self, entry: StoredEntry) -> None:
        offset = entry.offset
        position = entry.message.position
        if offset == self._run_end and position >> OFFSET_BITS == self._run_segment:
            self._run_end = offset + 1
        elif 0 < position < SPOOLED:
            self._begin_run(offset, position)
        elif position < 0 and self._gathered.transaction is not None:
            self._gathered.transaction.keep(self, entry)

    def hold_for_dead_letter(self, entry: StoredEntry) -> None:
        if entry.message.position < 0 and not self.is_forgotten:
            self.leaving.add(entry.offset)

    def release_hold(self, entry: StoredEntry) -> None:
        self.leaving.discard(entry.offset)
        self.settle(entry)

    def settle_paged(self, offsets: Sequence[int], positions: Sequence[int]) -> None:
        if not offsets:
            return
        first, count = offsets[0], len(offsets)
        number = positions[0] >> OFFSET_BITS
        if (
            offsets[-1] - first + 1 == count
            and min(positions) > 0
            and min(positions) >> OFFSET_BITS == max(positions) >> OFFSET_BITS == number
            and max(positions) < SPOOLED
            and number not in self._gathered.liveness.moves
        ):
            if first != self._run_end or number != self._run_segment:
                self._begin_run(first, positions[0])
            if not self.is_forgotten:
                self._run_end = first + count
            return
        for offset, position in zip(offsets, positions, strict=True):
            if offset == self._run_end and position >> OFFSET_BITS == self._run_segment:
                self._run_end = offset + 1
            elif 0 < position < SPOOLED:
                self._begin_run(offset, position)

    def on_acquired(self, entries: Sequence[StoredEntry]) -> None:
        if self.written_as_new_end <= self._durable_watermark:
            return
        highest = _NO_OFFSET
        for entry in entries:
            # what is not written yet will be written as delivered
            if entry.offset > highest and 0 < entry.message.position < SPOOLED:
                highest = entry.offset
        if highest >= self._durable_watermark - self._ahead // 2:
            self._raise_watermark(highest, len(entries))

    def on_released(self, entries: Sequence[StoredEntry]) -> None:
        if self.is_forgotten:
            return
        for entry in entries:
            if 0 < entry.message.position < SPOOLED:
                self.returned.append(entry)
        if not self.is_gathered and self.returned:
            self._gather()

    def durable_end(self, next_offset: int) -> int:
        end = self.added[0].offset if self.added else next_offset
        if self.written_ticket > self._gathered.store.durable_ticket:
            end = min(end, self.written_first)
        if self._lost_first != _NO_OFFSET:
            end = min(end, self._lost_first)
        uncommitted = self._gathered.first_uncommitted(self)
        return end if uncommitted is None else min(end, uncommitted)

    def forget(self) -> None:
        self.is_forgotten = True
        self.is_gathered = False
        self.clear()
        self.leaving.clear()
        self._gathered.deleted.append(self)
        self._gathered.store.ask_for_turn()  # there may be segments to free

    def forget_written(self) -> None:
        """Give up what the journal has of the queue: its deletion is durable."""
        self._gathered.by_id.pop(self.queue_id, None)
        released = self.books.clear()
        self._gathered.liveness.forget_queue(self.queue_id)
        if self._gathered.bodies is not None:
            for large_id in released:
                self._gathered.bodies.release(large_id)

    def restore(self, found: RecoveredQueue) -> None:
        """Take over what recovery found, before anything else happens here."""
        self.next_offset = self.written_as_new_end = found.next_offset
        self.books.restore(found)
        self.take_runs(found.undone, [])

    # ---------------------------------------------------------------- for the batch

    def close_run(self) -> None:
        """Add the run that is being extended to ``runs``."""
        if self._run_segment != _NO_SEGMENT:
            self.runs.append((self._run_segment, self._run_first, self._run_end))
            self._run_segment = _NO_SEGMENT
            self._run_end = _NO_OFFSET

    def take_runs(self, runs: list[SettledRun], moved_runs: list[tuple[int, int]]) -> None:
        """These entries are settled with the next batch."""
        if (runs or moved_runs) and (self.is_gathered or self._gather()):
            self.runs += runs
            self.moved_runs += moved_runs

    def note_written(self, ticket: int, first: int) -> None:
        """Entries from this offset on are in the batch that is made with this ticket."""
        is_durable = self.written_ticket <= self._gathered.store.durable_ticket
        self.written_first = first if is_durable else min(first, self.written_first)
        self.written_ticket = ticket

    def lose_added(self) -> None:
        """The new entries that have gathered are never written: the store has failed."""
        if self.added and self._lost_first == _NO_OFFSET:
            self._lost_first = self.added[0].offset

    def clear(self) -> None:
        """Forget what has gathered."""
        self.added = []
        self.counted = 0
        self.runs = []
        self.moved_runs = []
        self.returned = []
        self.is_cover_due = False
        self._run_segment = _NO_SEGMENT
        self._run_end = _NO_OFFSET

    # ---------------------------------------------------------------- below

    def _gather(self) -> bool:
        """Note that there is something for the next batch; False if the queue is deleted."""
        if self.is_forgotten:
            return False
        self.is_gathered = True
        if not self._gathered.ledgers:  # an ack marks nothing that would make a turn come
            self._gathered.store.ask_for_turn()
        self._gathered.ledgers.append(self)
        return True

    def _begin_run(self, offset: int, position: int) -> None:
        if not (self.is_gathered or self._gather()):
            return
        self.close_run()
        number = position >> OFFSET_BITS
        if number in self._gathered.liveness.moves:  # its records went to different places
            self.moved_runs.append((position, offset))
            return
        self._run_segment = number
        self._run_first = offset
        self._run_end = offset + 1

    def _raise_watermark(self, highest: int, count: int) -> None:
        """``count`` entries up to ``highest`` are delivered though they were written as new."""
        store = self._gathered.store
        if store.failure or self.is_forgotten:
            return
        is_durable = self._watermark_ticket <= store.durable_ticket
        watermark = self.redelivery_watermark
        if is_durable:
            self._durable_watermark = watermark
        if highest >= watermark or (is_durable and highest >= watermark - self._ahead // 2):
            is_quick = store.ticket - self._watermark_ticket <= _QUICK_TICKETS
            ahead = max(self._ahead * 2, count * 2) if is_quick else self._ahead // 2
            self._ahead = min(max(ahead, COVER_AHEAD_MIN), COVER_AHEAD_MAX)
            self.redelivery_watermark = highest + 1 + self._ahead
            self._watermark_ticket = store.ticket
            self.is_cover_due = True
            if not self.is_gathered:
                self._gather()
        if highest >= self._durable_watermark:
            self.deliver_ticket = self._watermark_ticket

    def __repr__(self) -> str:
        return f"<Ledger of {self.name!r} ({self.queue_id})>"


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


class DurableTransaction(StoreTransaction):
    """``parts``: entries it has added and no PART record names yet: queue id, first offset, count.

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
        "firsts",
        "is_divided",
        "is_finished",
        "number",
        "parts",
    )

    def __init__(self, number: int, gathered: Gathered) -> None:
        self.number = number
        self._gathered = gathered
        self._marks: dict[DurableLedger, tuple[int, int, int]] = {}
        self._held: dict[tuple[DurableLedger, int], HeldRuns] = {}
        self._moved: list[tuple[DurableLedger, list[tuple[int, int]]]] = []
        self._kept: list[tuple[DurableLedger, StoredEntry]] = []
        self.firsts: dict[DurableLedger, int] = {}
        self._sequences: HeldSequences = {}
        self.parts: list[tuple[int, int, int]] = []
        self.is_divided = False
        self.is_finished = False

    def enter(self) -> None:
        self._gathered.transaction = self
        self._gathered.sequences.held = self._sequences
        for ledger in self._gathered.ledgers:
            ledger.close_run()
            self._marks[ledger] = (len(ledger.added), len(ledger.runs), len(ledger.moved_runs))

    def note_first(self, ledger: DurableLedger, offset: int) -> None:
        """An entry of this offset, or several from it on, belong to this transaction."""
        self.firsts[ledger] = min(offset, self.firsts.get(ledger, offset))

    def leave(self) -> None:
        self._gathered.transaction = None
        self._gathered.sequences.held = None
        marks, self._marks = self._marks, {}
        for ledger in self._gathered.ledgers:
            added, runs, moved_runs = marks.get(ledger, (0, 0, 0))
            if len(ledger.added) > added:
                self.note_first(ledger, ledger.added[added].offset)
                self.parts += runs_of(ledger.queue_id, ledger.added[added:])
            ledger.close_run()
            if len(ledger.runs) > runs:
                for home, first, end in joined(ledger.runs[runs:]):
                    held = self._held.get((ledger, home))
                    if held is None:
                        held = self._held[ledger, home] = HeldRuns(ledger, home)
                    held.add(first, end)
                del ledger.runs[runs:]
            if len(ledger.moved_runs) > moved_runs:
                self._moved.append((ledger, ledger.moved_runs[moved_runs:]))
                del ledger.moved_runs[moved_runs:]

    def keep(self, ledger: DurableLedger, entry: StoredEntry) -> None:
        """Have this entry written, though it is settled before.

        A crash that undoes the transaction must bring it back.
        """
        ledger.hold_for_dead_letter(entry)
        self._kept.append((ledger, entry))

    def finish(self) -> None:
        self.is_finished = True
        for ledger, entry in self._kept:
            ledger.release_hold(entry)
        self._kept = []
        self._gathered.held += self._held.values()
        self._held = {}
        for ledger, moved_runs in self._moved:
            ledger.take_runs([], moved_runs)
        self._moved = []
        for sequence, sequences in self._sequences.items():
            sequences.release(sequence)
        self._sequences.clear()
        if not self.is_divided:  # all of it is in the batch that gathers now
            self._gathered.unwritten.pop(self.number, None)
        self._gathered.store.ask_for_turn()


def joined(runs: list[SettledRun]) -> list[SettledRun]:
    """Sort the runs, of which there is one at least; adjacent ones become one."""
    runs.sort()
    result = []
    home, first, end = runs[0]
    for next_home, next_first, next_end in runs[1:]:
        if next_first == end and next_home == home:
            end = next_end
            continue
        result.append((home, first, end))
        home, first, end = next_home, next_first, next_end
    result.append((home, first, end))
    return result


def runs_of(queue_id: int, entries: list[StoredEntry]) -> list[tuple[int, int, int]]:
    """Return queue id, first offset and count of entries, in the order they were added in."""
    first, last = entries[0].offset, entries[-1].offset
    if last - first + 1 == len(entries):
        return [(queue_id, first, len(entries))]
    runs: list[tuple[int, int, int]] = []
    end = first
    for entry in entries:
        if entry.offset != end:
            runs.append((queue_id, first, end - first))
            first = entry.offset
        end = entry.offset + 1
    runs.append((queue_id, first, end - first))
    return runs


def _within(offsets: Mapping[int, object], first: int, end: int) -> list[int]:
    """Those from ``first`` to before ``end``, found by the shorter way."""
    if end - first < len(offsets):
        return [offset for offset in range(first, end) if offset in offsets]
    return [offset for offset in offsets if first <= offset < end]
