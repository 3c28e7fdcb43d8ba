"""The durable store: group commit, with one write and one sync at a time.

A turn calls ``write_pending``: if the disk is idle, all that has gathered becomes one batch, which
a thread writes and syncs while the next one gathers; then callbacks of its ticket are called.
A full disk blocks publishers and is tried again; any other error ends all writing.            [hot]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Set
from functools import partial
from heapq import heappop, heappush
from typing import Final

from hareline.storage.interface import MessageStore
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.positions import position_of
from hareline.storage.journal.syncer import Pause, Syncer, Task, bug_text, ignore
from hareline.storage.journal.upkeep import (
    Discarded,
    Freed,
    Retention,
    discard,
    ensure_spare,
    finish,
    prepare,
)
from hareline.storage.journal.writer import (
    JournalWriter,
    OnMeasured,
    Sync,
    SyncLater,
    Write,
    is_out_of_space,
)
from hareline.storage.store.batch import BatchBuilder
from hareline.storage.store.compaction import Compactor
from hareline.storage.store.content_store import JournalContentStore
from hareline.storage.store.large_bodies import LargeBodies
from hareline.storage.store.ledger import DurableLedger, DurableTransaction, Gathered
from hareline.storage.store.liveness import Liveness
from hareline.storage.store.pinned import PinnedPlaces
from hareline.storage.store.sequences import DurableSequences
from hareline.storage.store.spool import Spool
from hareline.storage.store.state import RecoveredState

SEGMENT_BYTES: Final = 67_108_864
#: Octets gathered and not handed over above which publishers pause.
BEHIND_BYTES: Final = 16_777_216
RETRY_S: Final = 0.25  # a batch that found no room
SPARE_RETRY_S: Final = 1.0
_MS_PER_S: Final = 1000


def _epoch_ms() -> int:
    return time.time_ns() // 1_000_000


def _never(_: int) -> bool:
    """Stands for a question that nobody answers."""
    return False


class DurableStore(MessageStore):
    """``start`` comes first, then ``open_queue`` for each durable queue.

    ``durable_ticket``: of the last batch that is as durable as ``sync`` promises ("always": synced;
    "interval" and "never": written). Without room for a new spare ``on_disk_full(True)`` is called,
    and what is on its way still fits; without room to write there is a ``refusal`` as well, until
    the batch could be written. After any other error there is a ``failure``, for good: callbacks
    are called, consumers and acks go on in memory.

    ``directory``: of the journal; ``spool_directory``: erased by ``start``. ``sync_interval_ms``:
    for sync "interval", how long after a write it is synced at the latest. ``retention_age_s``,
    ``retention_bytes``: how long and how much of what is freed is kept for a replay; 0 and 0 =
    nothing. ``linger_ms``: how long settlements wait for others to join them, 0 = not at all; a
    crash undoes those of that time, whose messages are then redelivered. ``on_disk_full``: the
    alarm comes or goes. ``on_failure``: once, the store has failed. ``on_segment``: the journal's
    newest segment is on the disk now. ``added_queues``: ids of queues whose definitions are not
    durable so far; no batch that has anything of them is written. ``is_deleting``: True for a queue
    whose deletion is not durable so far; the journal keeps what it has of it. ``report``: a
    sentence about something that went wrong and loses nothing. ``on_measured``: see
    ``journal.writer``.
    """

    __slots__ = (
        "_added_queues",
        "_bodies",
        "_builder",
        "_compactor",
        "_content_store",
        "_files",
        "_freed",
        "_gathered",
        "_has_lingered",
        "_has_started",
        "_is_closing",
        "_is_deleting",
        "_is_full",
        "_is_lingering",
        "_is_retry_due",
        "_is_sync_due",
        "_ledgers",
        "_leftovers",
        "_linger_s",
        "_liveness",
        "_now_ms",
        "_on_disk_full",
        "_on_failure",
        "_on_segment",
        "_report",
        "_retention",
        "_spool",
        "_sync_interval_s",
        "_syncer",
        "_wait_count",
        "_waiters",
        "_writer",
        "_writing",
        "freed_segments",
        "is_hung",
    )

    def __init__(
        self,
        directory: str,
        spool_directory: str,
        *,
        files: Files,
        syncer: Syncer,
        segment_bytes: int = SEGMENT_BYTES,
        sync: Sync = "always",
        sync_interval_ms: int = 1000,
        retention_age_s: int = 0,
        retention_bytes: int = 0,
        linger_ms: int = 0,
        bodies: LargeBodies | None = None,
        on_disk_full: Callable[[bool], None] = ignore,
        on_failure: Callable[[str], None] = ignore,
        on_segment: Callable[[int], None] = ignore,
        added_queues: Callable[[], Set[int]] = frozenset,
        is_deleting: Callable[[int], bool] = _never,
        report: Callable[[str], None] = ignore,
        on_measured: OnMeasured | None = None,
        now_ms: Callable[[], int] = _epoch_ms,
    ) -> None:
        """Touches no file."""
        self._files = files
        self._syncer = syncer
        self._bodies = bodies
        self._on_disk_full = on_disk_full
        self._on_failure = on_failure
        self._on_segment = on_segment
        self._added_queues = added_queues
        self._is_deleting = is_deleting
        self._report = report
        self._now_ms = now_ms
        self._sync_interval_s = sync_interval_ms / _MS_PER_S
        self._linger_s = linger_ms / _MS_PER_S
        self._liveness = Liveness(segment_bytes // 2)
        self._writer = JournalWriter(files, directory, segment_bytes, sync)
        self._writer.on_measured = on_measured
        self._spool = Spool(files, spool_directory)
        self._content_store = JournalContentStore(
            files, self._writer, self._liveness, self._spool, bodies
        )
        super().__init__(self._content_store)
        self._retention = Retention(files, directory, retention_age_s, retention_bytes)
        self._gathered = Gathered(self, self._liveness, bodies)
        self._ledgers = self._gathered.by_id
        self._compactor = Compactor(
            files, directory, syncer, self._liveness, self._ledgers, self._next_batch, report
        )
        self._builder = BatchBuilder(
            self._writer, self._gathered, self._compactor, keeps_settled=self._retention.is_on
        )
        self._writing: Write | None = None
        self._freed: list[Freed] = []  # by the batch that is being written
        self._waiters: list[tuple[int, int, Callable[[], None]]] = []
        self._wait_count = 0
        self._has_started = False
        self._is_closing = False
        self._is_lingering = False
        self._has_lingered = False
        self._is_sync_due = False
        self._is_full = False  # there is no spare, or a write found no room
        self._is_retry_due = False
        self._leftovers: list[tuple[str, int]] = []
        self.freed_segments = 0
        self.is_hung = False
        syncer.on_bug = self._fail

    # ------------------------------------------------------------------ start and end

    def start(self, state: RecoveredState) -> None:
        """Go on after recovery; takes ``state`` over. Raises OSError for the spool's directory.

        Begins a new segment, after which the COVER records and delivered flags of all earlier ones
        are void.
        """
        assert not self._has_started, "started twice"
        self._has_started = True
        self._spool.open()
        self._writer.next_number = state.next_segment
        self._liveness.restore(state)
        self._leftovers = state.leftovers
        if state.is_durable and state.segments:
            last = state.segments[-1]
            self._writer.durable_position = position_of(last.number, last.end)
        for queue_id, queue in state.queues.items():
            self._ledgers[queue_id] = ledger = DurableLedger(queue_id, "", self._gathered)
            ledger.restore(queue)
            for offset, (count, number) in queue.returns.items():
                if not number:
                    self._builder.inferred_counts.append((queue_id, offset, count))
        self._gathered.sequences.restore(state.producers)
        self._compactor.resume(state.interrupted)
        self._syncer.submit(
            Task(partial(prepare, self._writer, self._retention), self._on_prepared)
        )
        self._write(is_first=True)

    def close(self, timeout_s: float = math.inf) -> None:
        """An orderly end: all that has gathered is durable, and counts are exact in the journal.

        Waits for the disk; what it does not take now (no room) is lost as in a crash. If it does
        not answer in time, ``is_hung``: the thread is left in the middle of something.
        """
        until_s = time.monotonic() + timeout_s
        if self._has_started and not self._is_closing:
            self._is_closing = True
            self._compactor.close()
            self.write_pending()
            is_through = self._syncer.drain(until_s)
            is_idle = not self.failure and self._writing is None
            if is_through and is_idle and not self._awaits_definitions():
                self._write(is_last=True)
                is_through = self._syncer.drain(until_s)
            if is_through:
                end = partial(finish, self._writer, has_failed=bool(self.failure))
                self._syncer.submit(Task(end, self._on_finished))
        if not self._syncer.close(until_s):
            self.is_hung = True
            self._report("the disk does not answer; what it has not taken is lost as in a crash")
            return
        self._content_store.close()

    # ------------------------------------------------------------------ the path of a message

    def open_queue(self, queue_id: int, name: str) -> DurableLedger:
        ledger = self._ledgers.get(queue_id)
        if ledger is None:
            ledger = self._ledgers[queue_id] = DurableLedger(queue_id, name, self._gathered)
        ledger.name = name
        return ledger

    def open_sequences(self, vhost: str) -> DurableSequences:
        return self._gathered.sequences.open(vhost)

    def write_pending(self) -> bool:
        if self._gathered.deleted:
            self._forget_deleted()
        if self._writing is not None or self._awaits_definitions():
            if self._gathered.ledgers:
                self._gathered.count_new_bytes()
            return self.is_behind
        if self._waiters and (self._waiters[0][0] <= self.durable_ticket or self.failure):
            self._call_waiters()
        if self.failure:
            self._gathered.clear()
        elif (self._gathered.ledgers or self._waiters or self._has_upkeep) and not self._lingers():
            self._write()
        return self.is_behind

    def _awaits_definitions(self) -> bool:
        """True if what has gathered is of a queue that a crash might take along.

        Hardly ever: no route leads to such a queue (``broker.routing``).
        """
        added = self._added_queues()
        return bool(added) and any(
            ledger.queue_id in added and ledger.is_gathered for ledger in self._gathered.ledgers
        )

    def _forget_deleted(self) -> None:
        """Give up what the journal has of queues whose deletion is durable by now."""
        gathered = self._gathered
        deleted, gathered.deleted = gathered.deleted, []
        for ledger in deleted:
            if self._is_deleting(ledger.queue_id):
                gathered.deleted.append(ledger)
            else:
                ledger.forget_written()

    def _lingers(self) -> bool:
        """Let what has gathered wait for more, if it can; it is written after a ``Pause``."""
        if not self._linger_s or self._has_lingered or self._is_closing:
            return False
        if self._waiters or self._has_upkeep:
            return False
        for ledger in self._gathered.ledgers:
            if ledger.added or ledger.is_cover_due:
                return False
        if not self._is_lingering:
            self._is_lingering = True
            self._syncer.submit(Pause(self._on_lingered), self._linger_s)
        return True

    def _on_lingered(self) -> None:
        self._is_lingering = False
        if self._gathered.ledgers:
            self._has_lingered = True
            self._next_batch()

    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        self._wait_count += 1
        heappush(self._waiters, (ticket, self._wait_count, callback))
        self.ask_for_turn()

    def begin_transaction(self) -> DurableTransaction:
        return self._gathered.begin_transaction()

    @property
    def is_behind(self) -> bool:
        return self._gathered.new_bytes > BEHIND_BYTES

    # ------------------------------------------------------------------ for a replay

    @property
    def keeps_settled(self) -> bool:
        """True if retention is on."""
        return self._retention.is_on

    @property
    def readable_position(self) -> int:
        """All of the journal before it is as durable as what ``durable_ticket`` says."""
        return self._writer.readable_position

    def pinned_places(self, directory: str, large_directory: str) -> PinnedPlaces:
        """Return places at which a process beside the broker can read records."""
        writer, liveness = self._writer, self._liveness
        return PinnedPlaces(directory, large_directory, writer, liveness, self._next_batch)

    # ------------------------------------------------------------------ one batch

    @property
    def _has_upkeep(self) -> bool:
        compactor = self._compactor
        return (
            compactor.is_due
            or (self._liveness.has_dead and not compactor.is_active)
            or self._gathered.is_commit_due
        )

    def _write(self, *, is_first: bool = False, is_last: bool = False) -> None:
        """Hand over what has gathered; a ticket with nothing to write is durable at once."""
        ticket = self.ticket
        self.ticket = ticket + 1
        self._has_lingered = False
        try:
            built = self._builder.build(
                ticket, self._now_ms(), self._on_written, is_first=is_first, is_last=is_last
            )
        except Exception as error:  # a bug: what was collected is lost, and the books are wrong
            self._fail(bug_text("no batch could be made", error))
            return
        if built is not None:
            self._writing, self._freed = built
            if self._builder.is_part:  # what waits for this ticket waits for all of it
                self._writing.ticket = ticket - 1
                self.ticket = ticket
            self._syncer.submit(self._writing)
            return
        self.durable_ticket = ticket
        self._release_bodies()
        self._after_batch()

    def _on_written(self, write: Write) -> None:
        if write.error:
            self._writing = None
            self._fail(write.error)
            return
        if write.is_out_of_space:
            self._set_full(True)
            self.refuse(f"no room on disk to write {write.octets} octets")
            if not self._is_closing:
                self._syncer.submit(write, RETRY_S)
            return
        self._writing = None
        if self.failure:  # of something else, meanwhile
            return
        self.durable_ticket = write.ticket
        if write.roll is not None:
            self._liveness.segments[write.roll.header.number].size_bytes = write.roll.size_bytes
            if self._writer.sync == "always":  # else the machine's end may take the file along
                self._on_segment(write.roll.header.number)
        if self.refusal:
            self.refuse("")
        if self._builder.released:
            self._release_bodies()
        if self._freed or self._leftovers:
            self._discard()
        if write.roll is not None or self._is_full:
            self._make_spare()
        if self._writer.sync == "interval" and not self._is_sync_due:
            self._is_sync_due = True
            self._syncer.submit(SyncLater(self._writer, self._on_synced), self._sync_interval_s)
        self._after_batch()

    def _after_batch(self) -> None:
        """The disk is idle: call what waited, and arrange for the next batch."""
        self._call_waiters()
        if not (self._is_closing or self._gathered.unwritten):
            self._compactor.consider(has_room=not self._is_full)
        if self._gathered.ledgers or self._waiters or self._has_upkeep:
            self._next_batch()

    def _next_batch(self) -> None:
        """Ask for a turn, which delivers first: less is written, and more of it as delivered."""
        if self._writing is not None or self.failure:
            return
        if self._is_closing:
            self.write_pending()
        else:
            self.ask_for_turn()

    def _call_waiters(self) -> None:
        waiters = self._waiters
        while waiters and (waiters[0][0] <= self.durable_ticket or self.failure):
            heappop(waiters)[2]()

    def _release_bodies(self) -> None:
        bodies, self._builder.released = self._builder.released, []
        if self._bodies is not None:
            for large_id in bodies:
                self._bodies.release(large_id)

    # ------------------------------------------------------------------ upkeep

    def _discard(self) -> None:
        freed, self._freed = self._freed, []
        leftovers, self._leftovers = self._leftovers, []
        for segment in freed:
            self._content_store.forget_segment(segment.number)
        self.freed_segments += len(freed)
        work = partial(discard, self._writer, self._retention, freed, leftovers, self._now_ms())
        self._syncer.submit(Task(work, self._on_discarded))

    def _on_discarded(self, discarded: Discarded) -> None:
        if discarded.sync_error:
            self._fail(discarded.sync_error)
        for error in discarded.errors:
            self._report(error)
        if self._is_full and not self._is_closing:
            self._make_spare()

    def _on_synced(self, work: SyncLater) -> None:
        self._is_sync_due = False
        if work.error:
            self._fail(work.error)

    def _on_prepared(self, error: str) -> None:
        if error:
            self._fail(error)

    def _on_finished(self, error: str) -> None:
        if error:
            self._report(error)

    def _make_spare(self, delay_s: float = 0.0) -> None:
        """Have the thread make the next segment ahead of need, if there is no spare.

        So what was accepted still fits when the disk is full. With a delay this is a retry, of
        which there is one at a time.
        """
        self._is_retry_due = self._is_retry_due or bool(delay_s)
        make = partial(ensure_spare, self._writer, self._writer.next_number)
        self._syncer.submit(Task(make, partial(self._on_spare, bool(delay_s))), delay_s)

    def _on_spare(self, is_retry: bool, error: OSError | None) -> None:
        if is_retry:
            self._is_retry_due = False
        if error is None:
            self._set_full(False)
            return
        if not self._is_full:
            self._report(f"{self._writer.directory}: no spare segment: {error.strerror}")
        if is_out_of_space(error):
            self._set_full(True)
            if not self._is_closing and not self._is_retry_due:
                self._make_spare(SPARE_RETRY_S)

    def _set_full(self, is_full: bool) -> None:
        if is_full != self._is_full:
            self._is_full = is_full
            self._on_disk_full(is_full)

    # ------------------------------------------------------------------ failure

    def _fail(self, text: str) -> None:
        """Write nothing any more, and tell all that wait, now and once."""
        if self.failure:
            return
        self.failure = text
        self._compactor.close()
        self._gathered.clear()
        self._on_failure(text)
        self.refuse(text)
        self._call_waiters()
