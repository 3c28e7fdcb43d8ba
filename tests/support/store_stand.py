"""A durable store on a disk that forgets, stepped by hand, without queues.

``StoreStand`` plays the queue's part: it makes entries, tells the ledger what happens to them, and
ends turns. ``reopen`` recovers what is on the disk, after a crash if there was one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from hareline.message import UNWRITTEN, Message
from hareline.queues.core.entry import ACQUIRED, READY, RETURNS_MAX, SETTLED
from hareline.storage.interface import StoredEntry
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import SETTLE
from hareline.storage.journal.format.records import decode_settle
from hareline.storage.journal.syncer import InlineSyncer
from hareline.storage.recovery.queue_contents import KnownQueue
from hareline.storage.recovery.read_journal import JournalRecovery
from hareline.storage.recovery.reports import RecoveryListener, RecoveryProgress
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.ledger import DurableLedger
from hareline.storage.store.liveness import Liveness, Moves
from hareline.storage.store.state import RecoveredState
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.messages import make_message
from tests.support.segments import Listener, read_all

JOURNAL = "/data/journal"
SPOOL = "/data/spool"
SEGMENT_BYTES = 1 << 18
NOW_MS = 1_700_000_000_000


class FakeEntry(StoredEntry):
    """An entry without a queue."""

    def __init__(self, message: Message, offset: int) -> None:
        self.message = message
        self.offset = offset
        self.state = READY
        self.delivery_count = 0

    @property
    def returns(self) -> int:
        return self.delivery_count & RETURNS_MAX


def persistent(body: bytes = b"body", **options: Any) -> Message:
    message = make_message(body, **options)
    message.position = UNWRITTEN
    return message


class StrictListener(RecoveryListener):
    __slots__ = ()

    def on_progress(self, done: int, all_work: int) -> None:
        assert done <= all_work

    def on_damage(self, problem: str, action: str) -> None:
        raise AssertionError(problem)

    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        raise AssertionError(problem)


class StoreStand:
    """``store`` is started, with its first batch on the disk."""

    def __init__(
        self,
        files: Files | None = None,
        *,
        state: RecoveredState | None = None,
        is_automatic: bool = True,
        **options: Any,
    ) -> None:
        options.setdefault("segment_bytes", SEGMENT_BYTES)
        self.options = options
        self.files = ForgetfulFiles() if files is None else files
        self.files.make_directory("/data")
        self.syncer = InlineSyncer()
        self.now_ms = NOW_MS
        self.reports: list[str] = []
        self.failures: list[str] = []
        self.alarms: list[bool] = []
        self.turns = 0
        self.next_offsets: dict[int, int] = {}
        self.store = DurableStore(
            JOURNAL,
            SPOOL,
            files=self.files,
            syncer=self.syncer,
            report=self.reports.append,
            on_failure=self.failures.append,
            on_disk_full=self.alarms.append,
            now_ms=lambda: self.now_ms,
            **options,
        )
        self.store.ask_for_turn = self._count_turn
        self.store.start(RecoveredState() if state is None else state)
        self.settle_down()
        self.syncer.is_automatic = is_automatic

    def _count_turn(self) -> None:
        self.turns += 1

    @property
    def forgetful(self) -> ForgetfulFiles:
        assert isinstance(self.files, ForgetfulFiles)
        return self.files

    def queue(self, queue_id: int) -> DurableLedger:
        return self.store.open_queue(queue_id, f"queue '{queue_id}' in vhost '/'")

    # ------------------------------------------------------------- what a queue does

    def entry(self, queue_id: int, message: Message | None = None) -> FakeEntry:
        ledger = self.queue(queue_id)
        offset = self.next_offsets.get(queue_id, ledger.next_offset)
        self.next_offsets[queue_id] = offset + 1
        entry = FakeEntry(persistent() if message is None else message, offset)
        ledger.add(entry)
        return entry

    def entries(self, queue_id: int, count: int, body: bytes = b"body") -> list[FakeEntry]:
        return [self.entry(queue_id, persistent(body)) for _ in range(count)]

    def acquire(self, queue_id: int, entries: Sequence[FakeEntry]) -> None:
        self.queue(queue_id).on_acquired(entries)
        for entry in entries:
            entry.state = ACQUIRED

    def release(self, queue_id: int, entries: Sequence[FakeEntry]) -> None:
        for entry in entries:
            entry.state = READY
            entry.delivery_count += 1
        self.queue(queue_id).on_released(entries)

    def settle(self, queue_id: int, entries: Iterable[FakeEntry]) -> None:
        ledger = self.queue(queue_id)
        for entry in entries:
            entry.state = SETTLED
            ledger.settle(entry)

    # ------------------------------------------------------------- turns, crashes

    def turn(self) -> None:
        """One end of turn, and the disk has done all that follows from it."""
        self.store.write_pending()
        self.settle_down()

    def settle_down(self) -> None:
        """Until neither the disk nor the store has anything to do, delayed work left aside."""
        for _ in range(100_000):
            if any(delay_s == 0.0 for delay_s, _ in self.syncer.submitted):
                self.syncer.step()
            elif self.turns:
                self.turns = 0
                self.store.write_pending()
            else:
                return
        raise AssertionError("the store never comes to rest")

    # ------------------------------------------------------------- what is in the journal

    def kinds(self, kind: int) -> list[bytes]:
        """The payloads of all records of a kind."""
        batches, _, _ = read_all(self.files, Listener(), directory=JOURNAL)
        return [
            bytes(payload)
            for batch in batches
            for _, each, payload in batch.records
            if each == kind
        ]

    def runs(self) -> list[tuple[int, int, int]]:
        """Queue id, first offset and count of all that was settled."""
        return [(*run,) for payload in self.kinds(SETTLE) for run in decode_settle(payload)]

    # what only a look inside tells

    def moves(self) -> dict[int, Moves]:
        return self.store._liveness.moves

    @property
    def written_bytes(self) -> int:
        """Octets of all batches of this run."""
        return self.store._writer.written_bytes

    @property
    def syncs(self) -> int:
        return self.store._writer.syncs

    @property
    def moved_bytes(self) -> int:
        """Octets that compaction wrote again."""
        return self.store._compactor.moved_bytes

    @property
    def forwarded_bytes(self) -> int:
        """Octets of what freed segments said and had to be written again."""
        return self.store._builder.forwarded_bytes

    @property
    def segment_count(self) -> int:
        return len(self.store._liveness.segments)

    def source(self) -> int:
        """The segment that is being compacted, 0 for none."""
        return self.store._compactor.source

    def liveness(self) -> Liveness:
        return self.store._liveness

    def compactor_off(self) -> None:
        self.store._compactor.is_off = True

    def crash(self, keep: Random | None = None) -> None:
        self.forgetful.crash(keep)

    def reopen(self, queue_ids: Sequence[int] = (1, 2, 3), **options: Any) -> Reopened:
        """Recovers, after ``crash`` or ``store.close``."""
        return Reopened(self.files, queue_ids, {**self.options, **options})


class Reopened(StoreStand):
    """``found``: queue id to offset to (message, delivery count)."""

    def __init__(self, files: Files, queue_ids: Sequence[int], options: dict[str, Any]) -> None:
        queues = {each: KnownQueue(f"queue '{each}' in vhost '/'") for each in queue_ids}
        listener = StrictListener()
        progress = RecoveryProgress(listener.on_progress)
        recovery = JournalRecovery(files, JOURNAL, queues, Decision.FAIL, listener, progress)
        for _ in recovery.read():
            continue
        self.state = recovery.state
        super().__init__(files, state=recovery.state, **options)
        self.found: dict[int, dict[int, FakeEntry]] = {queue_id: {} for queue_id in queue_ids}
        for queue_id, contents in recovery.contents.items():
            messages = (
                self.store.content_store.read_run(contents.positions)
                if self.store.content_store
                else []
            )
            for offset, message in zip(contents.offsets, messages, strict=True):
                entry = FakeEntry(message, offset)
                entry.delivery_count = contents.delivery_counts.get(offset, 0)
                self.found[queue_id][offset] = entry

    def bodies(self, queue_id: int) -> list[bytes]:
        return [entry.message.body for entry in self.found[queue_id].values()]

    def counts(self, queue_id: int) -> list[int]:
        return [entry.returns for entry in self.found[queue_id].values()]
