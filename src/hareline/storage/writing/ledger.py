"""One durable queue's part of the durable store: what has happened to its entries.

The queue calls in here for every entry; nothing is encoded until ``writing.batch`` collects what
has gathered. Acks of consecutive deliveries are one run, extended by one addition each.       [hot]

Invariant: what is gathered here is in the batch whose ticket is the store's at the time of the
call; a ledger with anything gathered stands in ``Gathered.ledgers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hareline.storage.interface import SPOOLED, MessageStore, QueueLedger, StoredEntry
from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.recovery.state import RecoveredQueue
from hareline.storage.space.liveness import Liveness

if TYPE_CHECKING:
    from hareline.storage.contents.large import LargeBodies
    from hareline.storage.writing.divided import DurableTransaction, HeldRuns

SETTLED: Final = 2  # broker.queues.entry.SETTLED
ACQUIRED: Final = 1  # broker.queues.entry.ACQUIRED

#: How far a COVER goes beyond what it is needed for. What lies below it is redelivered after a
#: crash though nobody may have had it, so a queue begins with little; one that is drained quickly
#: gets more, and its deliveries hardly ever wait for a cover: half-way the next one is written.
COVER_AHEAD_MIN: Final = 32
COVER_AHEAD_MAX: Final = 4096
_QUICK_TICKETS: Final = 16  # a cover that was used up within so many batches was too small

_NO_SEGMENT: Final = -2  # not one of any position, TRANSIENT and UNWRITTEN included
_NO_OFFSET: Final = -1


class Gathered:
    """The ledgers that have something for the next batch, and what they ask the store.

    ``by_id``: every ledger that is not forgotten. ``transactions``: by number, those of which
    something is still to be written, COMMIT at last. ``entered``: the one whose work is being done.
    ``held``: what those have settled that are finished.
    """

    __slots__ = (
        "bodies",
        "by_id",
        "entered",
        "held",
        "ledgers",
        "liveness",
        "store",
        "transactions",
    )

    def __init__(
        self, store: MessageStore, liveness: Liveness, bodies: LargeBodies | None = None
    ) -> None:
        self.store = store
        self.liveness = liveness
        self.bodies = bodies
        self.ledgers: list[DurableLedger] = []
        self.by_id: dict[int, DurableLedger] = {}
        self.transactions: dict[int, DurableTransaction] = {}
        self.entered: DurableTransaction | None = None
        self.held: list[HeldRuns] = []

    @property
    def is_commit_due(self) -> bool:
        """Whether there is something to write of finished transactions, though of no ledger."""
        return bool(self.held) or any(one.is_finished for one in self.transactions.values())


class DurableLedger(QueueLedger):
    """``next_offset``: above every offset that was written. ``cover``: offsets below it may have
    been delivered, says a COVER that is written or gathered.

    ``live``: segment number to the number of entries. ``returns``: offset to (delivery count,
    segment where the RETURN record stands). ``large``: offset to the id of a large body.

    Gathered for the next batch: ``added``, ``counted`` of which are known to how much waits,
    ``runs`` (segment, first, end), ``moved_runs`` (position, offset) of settled entries whose
    record was moved, ``returned``, ``is_cover_due``.

    ``delivered_unwritten``: above every offset that was written as one that nobody has had.
    ``leaving``: of settled entries that are to be written all the same, as their dead letters are
    still to come.
    """

    __slots__ = (
        "_ahead",
        "_cover_before",
        "_cover_ticket",
        "_gathered",
        "_run_end",
        "_run_first",
        "_run_segment",
        "added",
        "counted",
        "cover",
        "delivered_unwritten",
        "is_cover_due",
        "is_forgotten",
        "is_gathered",
        "large",
        "leaving",
        "live",
        "moved_runs",
        "name",
        "next_offset",
        "queue_id",
        "returned",
        "returns",
        "runs",
    )

    def __init__(self, queue_id: int, name: str, gathered: Gathered) -> None:
        super().__init__()
        self.queue_id = queue_id
        self.name = name
        self._gathered = gathered
        self.added: list[StoredEntry] = []
        self.counted = 0
        self.runs: list[tuple[int, int, int]] = []
        self.moved_runs: list[tuple[int, int]] = []
        self.returned: list[StoredEntry] = []
        self._run_segment = _NO_SEGMENT
        self._run_first = _NO_OFFSET
        self._run_end = _NO_OFFSET
        self.is_gathered = False
        self.is_forgotten = False
        self.next_offset = 0
        self.live: dict[int, int] = {}
        self.returns: dict[int, tuple[int, int]] = {}
        self.large: dict[int, int] = {}
        self.leaving: set[int] = set()
        self.delivered_unwritten = 0
        self.cover = 0
        self.is_cover_due = False
        self._ahead = COVER_AHEAD_MIN
        self._cover_before = 0  # the cover that is durable
        self._cover_ticket = 0  # when ``cover`` is

    def add(self, entry: StoredEntry) -> None:
        if self.is_gathered or self._gather():
            self.added.append(entry)

    def settle(self, entry: StoredEntry) -> None:
        offset = entry.offset
        position = entry.message.position
        if offset == self._run_end and position >> OFFSET_BITS == self._run_segment:
            self._run_end = offset + 1
        elif 0 < position < SPOOLED:
            self._begin_run(offset, position)
        elif position < 0 and self._gathered.entered is not None:
            self._gathered.entered.keep(self, entry)

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
        if self.delivered_unwritten <= self._cover_before:
            return
        highest = _NO_OFFSET
        for entry in entries:
            # what is not written yet will be written as delivered
            if entry.offset > highest and 0 < entry.message.position < SPOOLED:
                highest = entry.offset
        if highest >= self._cover_before - self._ahead // 2:
            self._cover(highest, len(entries))

    def on_released(self, entries: Sequence[StoredEntry]) -> None:
        if self.is_forgotten:
            return
        for entry in entries:
            if 0 < entry.message.position < SPOOLED:
                self.returned.append(entry)
        if not self.is_gathered and self.returned:
            self._gather()

    def forget(self) -> None:
        self.is_forgotten = True
        self.is_gathered = False
        self.clear()
        self.leaving.clear()
        self._gathered.by_id.pop(self.queue_id, None)
        liveness = self._gathered.liveness
        for number, count in self.live.items():
            liveness.take(number, count)
        self.live = {}
        self.returns = {}
        liveness.forget_queue(self.queue_id)
        if self.large and self._gathered.bodies is not None:
            for large_id in self.large.values():
                self._gathered.bodies.release(large_id)
        self.large = {}
        self._gathered.store.ask_for_turn()  # there may be segments to free

    def restore(self, found: RecoveredQueue) -> None:
        """Take over what a replay found, before anything else happens here."""
        self.next_offset = self.delivered_unwritten = found.next_offset
        self.live = found.live
        self.returns = found.returns
        self.large = found.large
        self.take_runs(found.undone, [])

    # ---------------------------------------------------------------- for the batch

    def close_run(self) -> None:
        """Put the run that is being extended to the others."""
        if self._run_segment != _NO_SEGMENT:
            self.runs.append((self._run_segment, self._run_first, self._run_end))
            self._run_segment = _NO_SEGMENT
            self._run_end = _NO_OFFSET

    def take_runs(
        self, runs: list[tuple[int, int, int]], moved_runs: list[tuple[int, int]]
    ) -> None:
        """These entries are settled with the next batch."""
        if (runs or moved_runs) and (self.is_gathered or self._gather()):
            self.runs += runs
            self.moved_runs += moved_runs

    def leave(self, number: int, count: int) -> None:
        """So many of its entries have their home in this segment no more."""
        left = self.live[number] - count
        assert left >= 0, f"{self!r} has {left} entries in segment {number}"
        if left:
            self.live[number] = left
        else:
            del self.live[number]

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
        """There is something for the next batch; False if this ledger is closed for good."""
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
        if number in self._gathered.liveness.moves:  # each its own way
            self.moved_runs.append((position, offset))
            return
        self._run_segment = number
        self._run_first = offset
        self._run_end = offset + 1

    def _cover(self, highest: int, count: int) -> None:
        """``count`` entries up to ``highest`` are delivered though they were written as new."""
        store = self._gathered.store
        if store.failure or self.is_forgotten:
            return
        is_settled = self._cover_ticket <= store.durable_ticket
        if is_settled:
            self._cover_before = self.cover
        if highest >= self.cover or (is_settled and highest >= self.cover - self._ahead // 2):
            is_quick = store.ticket - self._cover_ticket <= _QUICK_TICKETS
            ahead = max(self._ahead * 2, count * 2) if is_quick else self._ahead // 2
            self._ahead = min(max(ahead, COVER_AHEAD_MIN), COVER_AHEAD_MAX)
            self.cover = highest + 1 + self._ahead
            self._cover_ticket = store.ticket
            self.is_cover_due = True
            if not self.is_gathered:
                self._gather()
        if highest >= self._cover_before:
            self.deliver_ticket = self._cover_ticket

    def __repr__(self) -> str:
        return f"<Ledger of {self.name!r} ({self.queue_id})>"
