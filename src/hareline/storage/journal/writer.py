"""The end of the journal, where batches are appended without a gap, in order.

Attributes are either the loop's or the thread's; only ``run`` of a work waits for the disk. There
is a spare file ahead: a new segment cannot fail for want of space.                            [hot]
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, Literal

from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import BATCH_SIZE, Batch, encode_batch
from hareline.storage.journal.format.header import SegmentHeader
from hareline.storage.journal.format.positions import (
    OFFSET_MASK,
    SEGMENT_BYTES_MAX,
    position_of,
    segment_of,
)
from hareline.storage.journal.segment import Segment, new_header, segment_path
from hareline.storage.journal.syncer import Work

Sync = Literal["always", "interval", "never"]
#: Octets of a batch, seconds of its write and of its sync; None: it is not synced with its write.
OnMeasured = Callable[[int, float, float | None], None]

#: Parts of a batch that are smaller than this on the average are joined before they are written.
#: Records of 1 KiB cost 50 ns less if they are not, but a call takes 1,024 parts at most, and after
#: each the thread has to wait for the interpreter's lock; those of 4 KiB save half of their 0.6 us.
_JOINED_BYTES: Final = 2048


class SyncFailed(Exception):
    """The content of the disk is unknown, so a sync is never tried again."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))


def is_out_of_space(error: OSError) -> bool:
    """True if there is no room on the disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Roll:
    """A segment to begin with a batch.

    ``size_bytes``: its size, made smaller where the disk has no room for it. ``needed_bytes``: what
    the batch takes.
    """

    __slots__ = ("header", "needed_bytes", "size_bytes")

    def __init__(self, header: SegmentHeader, size_bytes: int, needed_bytes: int) -> None:
        self.header = header
        self.size_bytes = size_bytes
        self.needed_bytes = needed_bytes


class JournalWriter:
    """Place of the next batch, and the files it goes to.

    Of the loop: ``number``, ``end``, ``size_bytes``, ``seed`` of the tail; ``durable_position``:
    all before it is synced; ``in_flight``: the batch that is being written, or failed to be;
    ``next_number``: of the next segment; ``on_measured``: told of each batch that is on the disk
    its octets, and the seconds of its write and of its sync (None: it is not synced yet).

    Of the thread: ``segment``, ``spares`` (paths), ``written_position``, ``syncs``.
    """

    __slots__ = (
        "_roll",
        "_salt",
        "directory",
        "durable_position",
        "end",
        "files",
        "in_flight",
        "next_number",
        "number",
        "on_measured",
        "seed",
        "segment",
        "segment_bytes",
        "size_bytes",
        "spares",
        "sync",
        "syncs",
        "written_bytes",
        "written_position",
    )

    def __init__(
        self, files: Files, directory: str, segment_bytes: int, sync: Sync, next_number: int = 1
    ) -> None:
        """Touches no file."""
        if not 0 < segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segments of {segment_bytes} octets: not 1 to {SEGMENT_BYTES_MAX}")
        self.files = files
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.sync = sync
        self.number = 0
        self.end = 0
        self.size_bytes = 0
        self.seed = 0
        self._salt = 0
        self._roll: Roll | None = None
        self.next_number = next_number
        self.durable_position = 0
        self.in_flight: Write | None = None
        self.written_bytes = 0
        self.on_measured: OnMeasured | None = None
        self.segment: Segment | None = None
        self.spares: list[str] = []
        self.written_position = 0
        self.syncs = 0

    def room(self) -> int:
        """Return how many octets fit into the tail after a BATCH record; below 0: none."""
        return self.size_bytes - self.end - BATCH_SIZE

    def make_room(
        self, octets: int, first_octets: int, live: Sequence[tuple[int, int]], now_ms: int
    ) -> bool:
        """Decide where a batch with up to ``octets`` of records goes; True: a new segment.

        ``first_octets``: how many more there are if it is the first of a segment. ``live``: number
        and end of each living segment, the tail too. Raises ValueError for a batch that is too big
        for any segment. Afterwards ``number``, ``end`` and ``seed`` are those of the batch.
        """
        if octets <= self.room():
            return False
        header = new_header(self.next_number, now_ms, live)
        needed = header.size_bytes + BATCH_SIZE + octets + first_octets
        if needed > SEGMENT_BYTES_MAX:
            raise ValueError(f"a batch of {octets} octets does not fit into a segment")
        self.size_bytes = max(self.segment_bytes, needed)
        self._roll = Roll(header, self.size_bytes, needed)
        self.number = self.next_number
        self.next_number += 1
        self.end = header.size_bytes
        self._salt = header.salt
        self.seed = header.seed
        return True

    @property
    def next_position(self) -> int:
        """Position of the first record of the batch for which room was made."""
        return position_of(self.number, self.end + BATCH_SIZE)

    @property
    def readable_position(self) -> int:
        """End of the last batch that has been written, and synced if every batch is."""
        if self.in_flight is not None:
            return self.in_flight.position
        return position_of(self.number, self.end)

    def write_of(
        self,
        parts: list[bytes],
        octets: int,
        records: int,
        ticket: int,
        now_ms: int,
        on_written: Callable[[Write], None],
        sync_first: list[Callable[[], None]],
    ) -> Write:
        """The work that writes these records as one batch; to be submitted before the next.

        ``octets``: of all parts. ``sync_first``: what must be durable before (raises OSError);
        called in the thread.
        """
        position = position_of(self.number, self.end)
        head = Batch(position, octets, records, self._salt, self.durable_position, now_ms)
        write = Write(
            self,
            ticket,
            position,
            self._roll,
            [encode_batch(head, self.seed), *parts],
            BATCH_SIZE + octets,
            on_written,
            sync_first,
        )
        self._roll = None
        self.end += write.octets
        assert self.end <= self.size_bytes, "a batch beyond the room that was made for it"
        self.in_flight = write
        return write

    # ----------------------------------------------------------------- in the thread

    def append(self, write: Write) -> None:
        """Put a batch where it belongs, and begin its segment if it is the first.

        Not synced, but all older segments are. Raises OSError, after which it may be called again,
        and SyncFailed.
        """
        roll = write.roll
        if roll is not None and (self.segment is None or self.segment.number != roll.header.number):
            self._begin(roll)
        assert self.segment is not None, "no segment was begun"
        parts = write.parts
        if len(parts) > 1 and write.octets < _JOINED_BYTES * len(parts):
            write.parts = parts = [b"".join(parts)]
        self.files.write(self.segment.fd, parts, write.position & OFFSET_MASK)
        self.segment.end = (write.position & OFFSET_MASK) + write.octets
        self.written_position = write.position + write.octets

    def sync_segment(self) -> int:
        """Make what was written durable; returns the position before which it is."""
        if self.segment is not None:
            self.files.sync(self.segment.fd)
            self.syncs += 1
        return self.written_position

    def close_segment(self) -> None:
        """Cut off what was preallocated, sync and close. Raises OSError."""
        segment, self.segment = self.segment, None
        if segment is None:
            return
        try:
            self.files.truncate(segment.fd, segment.end)
            self.files.sync(segment.fd)
        finally:
            segment.close(self.files)

    def abandon_segment(self) -> None:
        """Close it as it is. Raises OSError."""
        segment, self.segment = self.segment, None
        if segment is not None:
            segment.close(self.files)

    def _begin(self, roll: Roll) -> None:
        last = self.segment
        if last is not None and self.sync != "always":
            # The order of batches on the disk is that of their positions; and what was moved out of
            # a segment that is freed, or said again for it, is on the disk before that goes.
            try:
                self.sync_segment()
            except OSError as error:
                raise SyncFailed(error) from error
        if self.spares and roll.size_bytes <= self.segment_bytes:
            new = Segment.recycle(
                self.files, self.spares[0], self.directory, roll.header, roll.size_bytes
            )
            del self.spares[0]
        else:
            new = self._create(roll)
        self.segment = new
        try:
            if last is not None:
                last.close(self.files)
            self.files.sync_directory(self.directory)
        except OSError as error:
            raise SyncFailed(error) from error

    def _create(self, roll: Roll) -> Segment:
        """Make a segment; one of half the size where there is no room for a whole one, and so on.

        On a full disk acknowledgements must still be written, since they are what makes room; and a
        broker that starts on one has no spare, but what it has cut off its last segment.
        """
        while True:
            try:
                return Segment.create(self.files, self.directory, roll.header, roll.size_bytes)
            except OSError as error:
                if not is_out_of_space(error):
                    raise
                if self.spares:  # too small for this batch, and now the room that they take counts
                    self.files.unlink(self.spares.pop())
                    continue
                if roll.size_bytes <= roll.needed_bytes:
                    raise
                roll.size_bytes = max(roll.size_bytes // 2, roll.needed_bytes)


class Write(Work):
    """One batch. ``octets`` of it, from ``position`` on; the seconds that its write and sync took.

    Afterwards ``error`` is what went wrong, for good, or ``is_out_of_space``: it may be submitted
    again once there is room. ``parts`` may be replaced by their join at any time.
    """

    __slots__ = (
        "_on_written",
        "_sync_first",
        "_synced_position",
        "_writer",
        "error",
        "is_out_of_space",
        "octets",
        "parts",
        "position",
        "roll",
        "sync_s",
        "ticket",
        "write_s",
    )

    def __init__(
        self,
        writer: JournalWriter,
        ticket: int,
        position: int,
        roll: Roll | None,
        parts: list[bytes],
        octets: int,
        on_written: Callable[[Write], None],
        sync_first: list[Callable[[], None]],
    ) -> None:
        self._writer = writer
        self.ticket = ticket
        self.position = position
        self.roll = roll
        self.parts = parts
        self.octets = octets
        self._on_written = on_written
        self._sync_first = sync_first
        self._synced_position = 0
        self.write_s = 0.0
        self.sync_s: float | None = None
        self.error = ""
        self.is_out_of_space = False

    def run(self) -> None:
        writer = self._writer
        self.is_out_of_space = False
        doing = "sync of a large body"
        try:
            if writer.sync != "never":
                for sync in self._sync_first:
                    sync()
            doing = "write"
            start_s = perf_counter()
            writer.append(self)
            written_s = perf_counter()
            self.write_s = written_s - start_s
            if writer.sync == "always":
                doing = "sync"
                self._synced_position = writer.sync_segment()
                self.sync_s = perf_counter() - written_s
        except OSError as error:
            if doing == "write" and is_out_of_space(error):
                self.is_out_of_space = True
            else:
                self.error = self._what_went_wrong(doing, error.strerror or str(error))
        except SyncFailed as error:
            self.error = self._what_went_wrong("sync", str(error))
        except Exception as error:  # a bug here must not end in a thread that is silently dead
            self.error = self._what_went_wrong(doing, repr(error))

    def finished(self) -> None:
        writer = self._writer
        if not self.error and not self.is_out_of_space:
            writer.in_flight = None
            if self.roll is not None:
                writer.size_bytes = self.roll.size_bytes
            self._sync_first = []  # the bodies are let go of on the loop's side
            writer.written_bytes += self.octets
            if self._synced_position:
                writer.durable_position = self._synced_position
            if writer.on_measured is not None:
                writer.on_measured(self.octets, self.write_s, self.sync_s)
        self._on_written(self)

    def octets_from(self, position: int) -> memoryview:
        """Octets of the batch from there on, while it is not on disk yet."""
        parts = self.parts
        if len(parts) > 1:
            self.parts = parts = [b"".join(parts)]
        return memoryview(parts[0])[position - self.position :]

    def _what_went_wrong(self, doing: str, why: str) -> str:
        path = segment_path(self._writer.directory, segment_of(self.position))
        return f"{path}: {doing} failed: {why}"


class SyncLater(Work):
    """Sync what was written, where that is not done with every batch."""

    __slots__ = ("_on_synced", "_writer", "error", "position")

    def __init__(self, writer: JournalWriter, on_synced: Callable[[SyncLater], None]) -> None:
        self._writer = writer
        self._on_synced = on_synced
        self.position = 0
        self.error = ""

    def run(self) -> None:
        try:
            self.position = self._writer.sync_segment()
        except OSError as error:
            self.error = f"{self._writer.directory}: sync failed: {error.strerror}"

    def finished(self) -> None:
        if not self.error:
            self._writer.durable_position = max(self._writer.durable_position, self.position)
        self._on_synced(self)
