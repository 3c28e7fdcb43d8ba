"""Everything that a broker has on disk, opened as a whole and closed in the reverse order.

Order: lock, definitions, journal, store, so nothing is written before everything has been read.
After any step that fails, ``close`` leaves no file open and no thread running.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hareline.clock import Clock
from hareline.errors import StoreError
from hareline.storage.definitions.schema import DefinitionsMissing
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.disk.directory import DataDirectory
from hareline.storage.interface import ContentStore
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.positions import number_of_name
from hareline.storage.journal.syncer import ThreadSyncer
from hareline.storage.journal.writer import OnMeasured, Sync
from hareline.storage.recovery.queue_contents import KnownQueue, QueueContents
from hareline.storage.recovery.read_journal import JournalRecovery
from hareline.storage.recovery.reports import RecoveryListener, RecoveryProgress
from hareline.storage.replaying.source import ReplaySource
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.large_bodies import LargeBodies
from hareline.storage.store.pinned import PinnedPlaces
from hareline.storage.store.state import RecoveredState


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The options of the same names in docs/configuration.md."""

    data_dir: Path
    segment_bytes: int
    sync: Sync
    sync_interval_ms: int
    on_corruption: Decision
    retention_age_s: int
    retention_bytes: int


@dataclass(frozen=True, slots=True)
class StorageCallbacks:
    """Functions that the storage calls; all but ``hand_back`` on the loop.

    ``hand_back``: has a function called on the loop, from any thread. ``on_disk_full``: True if the
    store has no room for what comes next, False when it has room again. ``on_failure``: the store
    writes no more, for this reason. ``on_trouble``: a text on what went wrong and loses nothing.
    ``known_queues``: every queue of the definitions by its id, with what its arguments say.
    ``on_measured``: of each batch its octets, and the seconds of write and sync; None: not wanted.
    """

    hand_back: Callable[[Callable[[], None]], object]
    on_disk_full: Callable[[bool], None]
    on_failure: Callable[[str], None]
    on_trouble: Callable[[str], None]
    known_queues: Callable[[SqliteDefinitions], dict[int, KnownQueue]]
    on_measured: OnMeasured | None = None


#: How long acknowledgements wait for others to be written with. A client that takes messages one by
#: one then costs a sync for some dozens of them, and a crash brings back as many more.
LINGER_MS: Final = 5


class DiskStorage:
    """``definitions`` are there at once, everything else once ``recover`` is through.

    ``contents``: live entries by queue id, which ``server.restore`` takes out. ``next_offsets``:
    of each queue, by id. Raises StoreError and OSError, which name the file.
    """

    def __init__(
        self,
        options: StorageOptions,
        callbacks: StorageCallbacks,
        clock: Clock,
        listener: RecoveryListener,
    ) -> None:
        """Lock the directory for this broker."""
        self._options = options
        self._callbacks = callbacks
        self._clock = clock
        self._listener = listener
        self._files = Files()
        self.contents: dict[int, QueueContents] = {}
        self.next_offsets: dict[int, int] = {}
        self._syncer: ThreadSyncer | None = None
        self._definition_syncer: ThreadSyncer | None = None
        self._bodies: LargeBodies | None = None
        self._progress: RecoveryProgress | None = None
        self._store: DurableStore | None = None
        self.directory = DataDirectory(options.data_dir)
        try:
            self.definitions = self._open_definitions()
        except BaseException:
            self.directory.close()
            raise
        self._queues: dict[int, KnownQueue] = {}

    def _open_definitions(self) -> SqliteDefinitions:
        """Open the definitions. Raises StoreError for a journal without definitions.

        Only they say which queue a message is in: with new ones all messages would go.
        """
        path, journal = self.directory.definitions, Path(self.directory.journal)
        has_journal = any(number_of_name(each.name) is not None for each in journal.glob("*"))
        try:
            return SqliteDefinitions(path, may_create=not has_journal)
        except DefinitionsMissing as error:
            raise StoreError(
                f"{error}, though there are messages in {journal}, which belong to queues that "
                f"only this file knows. Put back a copy of it, or move {journal} away to begin "
                "without them"
            ) from None

    @property
    def store(self) -> DurableStore:
        assert self._store is not None, "recover first"
        return self._store

    @property
    def progress(self) -> RecoveryProgress:
        """Progress of the whole recovery; call its ``finish`` when all is restored."""
        assert self._progress is not None, "recover first"
        return self._progress

    @property
    def bodies(self) -> LargeBodies:
        assert self._bodies is not None, "recover first"
        return self._bodies

    def recover(self) -> Generator[None, None, None]:
        """Read the journal; yields after each large piece. The store has started at the end."""
        self._queues = self._callbacks.known_queues(self.definitions)
        self._progress = RecoveryProgress(
            self._listener.on_progress, len(self._queues) + self.definitions.binding_count
        )
        recovery = JournalRecovery(
            self._files,
            self.directory.journal,
            self._queues,
            self._options.on_corruption,
            self._listener,
            self._progress,
            self.definitions.newest_segment,
        )
        yield from recovery.read()
        state = recovery.state
        self.contents = recovery.contents
        self.next_offsets = {each: queue.next_offset for each, queue in state.queues.items()}
        self._start(state)

    def _start(self, state: RecoveredState) -> None:
        options, callbacks = self._options, self._callbacks
        self._syncer = ThreadSyncer(callbacks.hand_back)
        self._bodies = LargeBodies(
            self._files, self.directory.large, now_ms=self._clock.now_ms, syncer=self._syncer
        )
        self._definition_syncer = ThreadSyncer(callbacks.hand_back, "definitions")
        self._definition_syncer.on_bug = callbacks.on_trouble
        self._store = DurableStore(
            self.directory.journal,
            self.directory.spool,
            files=self._files,
            syncer=self._syncer,
            segment_bytes=options.segment_bytes,
            sync=options.sync,
            sync_interval_ms=options.sync_interval_ms,
            retention_age_s=options.retention_age_s,
            retention_bytes=options.retention_bytes,
            linger_ms=LINGER_MS,
            bodies=self._bodies,
            on_disk_full=callbacks.on_disk_full,
            on_failure=callbacks.on_failure,
            on_segment=self._note_segment,
            added_queues=self.definitions.file.added_queues,
            is_deleting=self.definitions.file.is_deleting,
            report=callbacks.on_trouble,
            on_measured=callbacks.on_measured,
        )
        lost = self._keep_bodies(state)
        self._store.start(state)
        for queue_id, offset, position in lost:
            self._store.open_queue(queue_id, "").settle_paged((offset,), (position,))

    def follow_turns(self, ask_for_turn: Callable[[], None]) -> None:
        """Have each turn call ``write_pending`` from now on; ``ask_for_turn`` asks for one more."""
        assert self._definition_syncer is not None, "recover first"
        self.store.ask_for_turn = ask_for_turn
        self.definitions.file.gather(self._definition_syncer, ask_for_turn)

    def _note_segment(self, number: int) -> None:
        try:
            self.definitions.note_segment(number)
        except StoreError as error:
            self._on_not_noted(error)
        else:
            self.definitions.undo_if_lost(self._on_not_noted)

    def _on_not_noted(self, error: StoreError) -> None:
        self._callbacks.on_trouble(str(error))

    def _keep_bodies(self, state: RecoveredState) -> list[tuple[int, int, int]]:
        """Keep the large bodies that entries refer to, and remove what a crash left of others.

        Returns entries without a body, as queue id, offset and position, and takes them out of
        ``contents``. Raises StoreError if there are any and the policy is "fail".
        """
        lost = []
        for queue_id, queue in state.queues.items():
            for large_id in queue.large.values():
                self.bodies.keep(large_id)
            contents = self.contents[queue_id]
            for offset, (large_id, size) in contents.large.items():
                problem = self.bodies.problem_of(large_id, size)
                if problem:
                    self._on_body_lost(queue_id, offset, problem)
                    lost.append((queue_id, offset, contents.remove(offset)))
        self.bodies.remove_strays()
        return lost

    def _on_body_lost(self, queue_id: int, offset: int, problem: str) -> None:
        text = f"{problem}: the body of entry {offset} of {self._queues[queue_id].name}"
        if self._options.on_corruption is Decision.FAIL:
            self._listener.on_damage(text, "the broker does not start")
            raise StoreError(
                f"{text} is lost. To start without it, set journal.on_corruption to "
                '"skip" or "truncate"'
            )
        self._listener.on_damage(text, "left out")

    def write_pending(self) -> bool:
        """Hand over to the disk what has gathered; True: the journal is behind. Called by the turn.

        What concerns a queue waits for its definition, so that the journal has no entry of a queue
        that the definitions do not have.
        """
        self.definitions.file.commit()
        return self.store.write_pending()

    @property
    def content_store(self) -> ContentStore:
        content_store = self.store.content_store
        assert content_store is not None
        return content_store

    def replays(self) -> ReplaySource:
        """Return where settled messages can be read again."""
        return ReplaySource(
            self._files, self.directory.journal, self.definitions, self.store, self.bodies
        )

    def ranges(self) -> PinnedPlaces:
        """Return where a process beside the broker can read records."""
        return self.store.pinned_places(self.directory.journal, self.directory.large)

    def unserved(self, names: set[str]) -> dict[str, int]:
        """Return stored virtual hosts not among ``names``, with the number of their queues."""
        return {
            vhost: len(self.definitions.queues(vhost))
            for vhost in self.definitions.vhosts()
            if vhost not in names
        }

    def close(self, timeout_s: float = math.inf) -> None:
        """Close everything, after an orderly end of the store if it has started.

        Waits for the disk up to the timeout. If the disk hangs, the directory stays locked until
        the process has ended, since the disk may still do what it was asked to.
        """
        began_s = time.monotonic()
        until_s = began_s + timeout_s
        # first, since the journal waits for them; and not all of the time, since it may do without
        self.definitions.file.drain(began_s + timeout_s / 2)
        if self._store is not None:
            self._store.close(until_s - time.monotonic())
        if not self.definitions.file.drain(until_s):
            self._callbacks.on_trouble(
                "the definitions are locked, or the disk does not answer; what was changed last "
                "is lost as in a crash"
            )
            return
        if self._store is not None and self._store.is_hung:
            return
        try:
            if self._store is None and self._syncer is not None:
                self._syncer.close()
            if self._definition_syncer is not None:
                self._definition_syncer.close()
            if self._bodies is not None:
                self._bodies.close()
        finally:
            try:
                self.definitions.close()
            finally:
                self.directory.close()
