"""The readers of a virtual host's streams: their positions, and when these are written.

``management.streams`` puts, reads and removes positions; recovery brings back what was written.
Readers report as often as once a second, so a report is a change in memory. What has changed is
written ``WRITE_INTERVAL_S`` later at most, for all streams of the virtual host together, with the
definitions: one sync a second, however many readers there are.

Invariant: a position that differs from what is on disk is in ``_changed``, and a timer is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hareline import events
from hareline.clock import Clock, Timer, Timers
from hareline.errors import StoreError
from hareline.events import Report
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.policies.reader_positions import ReaderPosition, ReaderPositions
from hareline.queues.queue import Queue
from hareline.storage.interface import ReaderStore, StoredReader

WRITE_INTERVAL_S: Final = 1.0

Changes = Mapping[tuple[int, str], StoredReader | None]


class StreamReaders:
    """``queue_ids``: of the streams, by name. ``store`` is None where nothing is kept."""

    __slots__ = (
        "_changed",
        "_clock",
        "_positions",
        "_queue_ids",
        "_report",
        "_store",
        "_timer",
        "_timers",
        "_vhost_name",
    )

    def __init__(
        self,
        vhost_name: str,
        queue_ids: Mapping[str, int],
        clock: Clock,
        timers: Timers,
        report: Report,
        store: ReaderStore | None,
    ) -> None:
        self._vhost_name = vhost_name
        self._queue_ids = queue_ids
        self._clock = clock
        self._timers = timers
        self._report = report
        self._store = store
        self._positions: dict[Queue, ReaderPositions] = {}
        # (queue id, reader) -> what is to be written; None: it is to be deleted
        self._changed: dict[tuple[int, str], StoredReader | None] = {}
        self._timer: Timer | None = None

    # ------------------------------------------------------------------ for the routes

    def positions(self, queue: Queue) -> Mapping[str, ReaderPosition]:
        """The positions in a stream, by the readers' names."""
        found = self._positions.get(queue)
        return {} if found is None else found.positions

    def is_pinned(self, queue: Queue, position: ReaderPosition) -> bool:
        """True if this position of the stream has a pin that counts now."""
        found = self._positions.get(queue)
        return found is not None and found.counts(position)

    def put(self, queue: Queue, name: str, offset: int, *, is_pinned: bool) -> ReaderPosition:
        """The reader is at this offset of a stream now; returns its position.

        Raises PreconditionFailed for one reader too many.
        """
        position = ReaderPosition(offset, is_pinned, self._clock.now_ms)
        found = self._positions_of(queue)
        before = found.pinned_offset
        found.put(name, position)
        self._note(queue, name, position)
        self._on_moved(queue, before, found)
        return position

    def remove(self, queue: Queue, name: str) -> bool:
        """Forget a reader; False if the stream has none of this name."""
        found = self._positions.get(queue)
        if found is None:
            return False
        before = found.pinned_offset
        if not found.remove(name):
            return False
        self._note(queue, name, None)
        self._on_moved(queue, before, found)
        return True

    def _positions_of(self, queue: Queue) -> ReaderPositions:
        found = self._positions.get(queue)
        if found is None:
            found = self._positions[queue] = ReaderPositions(self._clock)
            lane = queue.lane
            if isinstance(lane, ReadingLane) and lane.retention is not None:
                lane.retention.pins = found
        return found

    def _on_moved(self, queue: Queue, before: int, found: ReaderPositions) -> None:
        """Let the stream drop what a pin has kept until now."""
        if found.pinned_offset > before:
            queue.mark()

    # ----------------------------------------------------------------- life and death

    def restore(self, queue: Queue, readers: Iterable[StoredReader]) -> None:
        """Bring back the positions in a stream of an earlier life."""
        for reader in readers:
            position = ReaderPosition(reader.offset, reader.is_pinned, reader.put_ms)
            self._positions_of(queue).put(reader.name, position)

    def on_queue_removed(self, queue: Queue, queue_id: int) -> None:
        """The queue is deleted, and what is on disk of its readers with it."""
        found = self._positions.pop(queue, None)
        if found is not None:
            for name in found.positions:
                self._changed.pop((queue_id, name), None)

    # ------------------------------------------------------------------------ writing

    def _note(self, queue: Queue, name: str, position: ReaderPosition | None) -> None:
        queue_id = self._queue_ids.get(queue.name)
        if self._store is None or queue_id is None:
            return
        self._changed[queue_id, name] = (
            None if position is None else StoredReader(queue_id, name, *position)
        )
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = self._timers.call_later(WRITE_INTERVAL_S, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.write()

    def write(self) -> None:
        """Give all changes to the store: durable with the definitions."""
        changed, self._changed = self._changed, {}
        if not changed or self._store is None:
            return
        try:
            self._store.write_readers(changed, lambda error: self._on_lost(changed, error))
        except StoreError as error:
            self._on_lost(changed, error)

    def _on_lost(self, changed: Changes, error: StoreError) -> None:
        """Write them again later, but for those that have changed since."""
        self._report(
            events.READERS_NOT_WRITTEN,
            vhost=self._vhost_name,
            readers=len(changed),
            problem=error.explanation,
        )
        living = {self._queue_ids.get(queue.name) for queue in self._positions}
        for key, reader in changed.items():
            if key[0] in living:
                self._changed.setdefault(key, reader)
        if self._changed:
            self._set_timer()
