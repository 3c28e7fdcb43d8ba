"""Messages of one queue and span of time that the journal still has, settled ones too.

Segments are appended to, freed, renamed and unlinked meanwhile: files are held open, and reading
ends where the journal was durable when the replay began. Messages come in the order of the queue,
each once. Nothing here writes; ``look`` and ``read`` are for a thread, all else is for the loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from hareline.errors import HarelineError, StoreError
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    MESSAGE,
    RECORD_HEAD,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    MalformedRecord,
    decode_batch,
)
from hareline.storage.journal.format.header import UnsupportedVersion
from hareline.storage.journal.format.message import MESSAGE_HEAD, MOVED, decode_entries
from hareline.storage.journal.format.positions import (
    number_of_name,
    offset_of,
    position_of,
    segment_of,
)
from hareline.storage.journal.reader import whole_batches
from hareline.storage.journal.search import Record, find_batches, open_segment
from hareline.storage.journal.segment import Segment, read_record, segment_path
from hareline.storage.journal.upkeep import RETAINED_FOLDER

#: What one ``read`` returns at most, which is then published without a pause.
CHUNK_MESSAGES: Final = 128
CHUNK_BYTES: Final = 1 << 20
#: Messages of one replay; 16 octets of memory each.
MATCHES_MAX: Final = 10_000_000
#: Segments held open, so that retention cannot take away what is still to be read.
HELD_MAX: Final = 256
#: A segment that was full this long before the span is skipped: wall clocks may be set back.
CLOCK_SLACK_MS: Final = 3_600_000
PROBLEMS_MAX: Final = 20

_WINDOW_BYTES: Final = 4 << 20
_GAP_BYTES: Final = 65_536  # records nearer to one another than this are read in one go
_LAST_RECORD_BYTES: Final = 4096


class TooManyMatches(HarelineError):
    """More messages than one replay takes; the text says what to do."""


class Replayable(NamedTuple):
    """A MESSAGE record: where it stands, and its payload without the kind."""

    position: int
    payload: bytes


class ReplayRange:
    """One replay's view of the journal.

    ``matches``: how many messages were found so far. ``kept_since_ms``: from when on the journal is
    complete, epoch milliseconds, once the first ``look`` is done. ``problems``: sentences on what
    could not be read, at most ``PROBLEMS_MAX``; ``unreadable``: messages that were found, and gone
    or damaged when they were to be read.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        queue_ids: Sequence[int],
        from_ms: int,
        to_ms: int,
        end_position: int,
    ) -> None:
        """``end_position``: nothing from there on is read."""
        self._files = files
        self._directory = directory
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._end_position = end_position
        self._found = {queue_id: _Found() for queue_id in sorted(queue_ids)}
        self._is_surveyed = False
        self._waiting: deque[int] = deque()  # segments to look through
        self._ends: dict[int, int] = {}
        self._matched: list[int] = []  # segments with something to be read
        self._held: dict[int, Segment] = {}
        self._reading = 0
        self._order: Iterator[int] = iter(())
        self._ahead: deque[int] = deque()
        self.matches = 0
        self.unreadable = 0
        self.kept_since_ms = 0
        self.problems: list[str] = []

    def close(self) -> None:
        """Close the files; not while ``look`` or ``read`` runs."""
        held, self._held = self._held, {}
        for segment in held.values():
            segment.close(self._files)

    # ------------------------------------------------------------------------- looking

    def look(self) -> bool:
        """Look through the next segment; False if there was none, and ``read`` comes next.

        Raises StoreError where the journal cannot be read at all, and TooManyMatches.
        """
        if not self._is_surveyed:
            self._is_surveyed = True
            self._survey()
        elif self._waiting:
            self._look_through(self._waiting.popleft())
        else:
            self._order = self._positions()
            return False
        return True

    def _survey(self) -> None:
        """Find the segments, where they end, and which may have messages of the span."""
        created_ms: dict[int, int] = {}
        tail = segment_of(self._end_position)
        for number in self._numbers():
            segment = self._open(number) if number <= tail else None
            if segment is None:
                continue
            created_ms[number] = segment.header.created_ms
            if number == tail:
                self._ends = dict(segment.header.manifest)
            segment.close(self._files)
        numbers = sorted(created_ms)
        since = len(numbers) - 1
        while since > 0 and numbers[since - 1] == numbers[since] - 1:
            since -= 1
        self.kept_since_ms = created_ms[numbers[since]] if numbers else 0
        for index, number in enumerate(numbers):
            is_last = index + 1 == len(numbers)
            full_ms = self._to_ms if is_last else created_ms[numbers[index + 1]]
            if max(full_ms, created_ms[number]) + CLOCK_SLACK_MS >= self._from_ms:
                self._waiting.append(number)

    def _numbers(self) -> set[int]:
        """Return the numbers of live and retained segments, retained last: they move there."""
        names: list[str] = []
        for directory in (self._directory, f"{self._directory}/{RETAINED_FOLDER}"):
            try:
                names += self._files.list(directory)
            except FileNotFoundError:
                continue  # nothing was ever retained
            except OSError as error:
                raise StoreError(f"{directory}: {error.strerror or error}") from error
        return {number for name in names if (number := number_of_name(name)) is not None}

    def _open(self, number: int) -> Segment | None:
        """Open it wherever it is now; None if it is gone or none of its batches can be read."""
        for folder in ("", f"/{RETAINED_FOLDER}"):
            path = segment_path(f"{self._directory}{folder}", number)
            try:
                return open_segment(self._files, path, number)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._complain(f"{path}: {error.strerror or error}")
            except (MalformedRecord, UnsupportedVersion) as error:
                self._complain(str(error))
            return None
        return None

    def _look_through(self, number: int) -> None:
        segment = self._open(number)
        if segment is None:  # trimmed meanwhile
            return
        before = self.matches
        try:
            for records in self._batches(segment):
                self._note(records)
        except OSError as error:
            self._complain(f"{segment.path}: {error.strerror or error}")
        finally:
            if self.matches > before and len(self._held) < HELD_MAX:
                self._held[number] = segment
            else:
                segment.close(self._files)
        if self.matches > before:
            self._matched.append(number)

    def _batches(self, segment: Segment) -> Iterator[list[Record]]:
        """Yield the records of each whole batch; damage between them is noted."""
        end, is_end_known = self._end_of(segment)
        at = segment.header.size_bytes
        read = partial(self._window, segment, end)
        while True:
            for whole in whole_batches(segment, at, read):
                at = offset_of(whole.end)
                yield whole.records
            batch = decode_batch(read(at, BATCH_SIZE), 0, segment.seed)
            if batch is not None and batch.position == position_of(segment.number, at):
                following, problem = at + BATCH_SIZE + batch.octets, "a damaged batch"
            elif at < end and is_end_known:
                following = self._behind(segment, at, end)
                problem = f"{following - at} octets damaged"
            else:
                return
            if is_end_known:
                self._complain(f"{segment.path}, offset {at}: {problem}")
            at = following

    def _end_of(self, segment: Segment) -> tuple[int, bool]:
        """Return where reading stops, and whether batches are known to go on up to there."""
        if segment.number == segment_of(self._end_position):
            return offset_of(self._end_position), True
        end = self._ends.get(segment.number)
        if end is not None:
            return end, True
        # Retained ones are cut to their end, but one may be on its way, or just have been sealed.
        return self._files.size(segment.fd), f"/{RETAINED_FOLDER}/" in segment.path

    def _behind(self, segment: Segment, at: int, end: int) -> int:
        """Return where the next batch stands, ``end`` if there is none."""
        found = next(find_batches(self._files, segment, at + 1, end, segment.seed), None)
        return end if found is None else offset_of(found.position)

    def _window(self, segment: Segment, end: int, at: int, wanted: int) -> memoryview:
        size = max(min(max(wanted, _WINDOW_BYTES), end - at), 0)
        return memoryview(self._files.read(segment.fd, size, at))

    def _note(self, records: list[Record]) -> None:
        """Note the entries of a batch that are of the span."""
        from_ms, to_ms = self._from_ms, self._to_ms
        pairs: list[tuple[int, int, int, int]] = []  # moved, queue id, offset, position
        for position, kind, payload in records:
            if kind != MESSAGE:
                continue
            if len(payload) < MESSAGE_HEAD.size:
                self._complain(f"position {position:#x}: MESSAGE record is too short")
                continue
            flags, arrival_ms, *_ = MESSAGE_HEAD.unpack_from(payload)
            if not from_ms <= arrival_ms < to_ms:
                continue
            try:
                entries = decode_entries(payload)
            except MalformedRecord as error:
                self._complain(f"position {position:#x}: {error}")
                continue
            moved = flags & MOVED
            pairs += [
                (moved, queue_id, offset, position)
                for queue_id, offset, _, _ in entries
                if queue_id in self._found
            ]
        pairs.sort()
        for moved, queue_id, offset, position in pairs:
            self._found[queue_id].add(offset, position, is_moved=bool(moved))
        self.matches += len(pairs)
        if self.matches > MATCHES_MAX:
            raise TooManyMatches(
                f"more than {MATCHES_MAX} messages came in that time; ask for a part of it"
            )

    def _complain(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    # ------------------------------------------------------------------------- reading

    def _positions(self) -> Iterator[int]:
        """Yield positions, one queue after the other: those of one name came in that order."""
        for found in self._found.values():
            yield from found.positions()

    def read(self) -> list[Replayable] | None:
        """Return the next messages, an empty list if all are unreadable; None at the end."""
        records: list[Replayable] = []
        ahead = self._ahead
        octets = asked = 0
        while asked < CHUNK_MESSAGES and octets < CHUNK_BYTES:
            if len(ahead) < CHUNK_MESSAGES:
                ahead.extend(islice(self._order, CHUNK_MESSAGES))
            if not ahead:
                break
            run = _next_run(ahead, CHUNK_MESSAGES - asked)
            asked += len(run)
            for record in self._read_run(run):
                records.append(record)
                octets += len(record.payload)
        return records if asked else None

    def _read_run(self, positions: list[int]) -> list[Replayable]:
        """Read records that stand close together, by one read and one more for each long one."""
        number = segment_of(positions[0])
        segment = self._held_segment(number)
        if segment is None:
            self.unreadable += len(positions)
            self._complain(
                f"segment {number:#x} is gone meanwhile, {len(positions)} messages in it"
            )
            return []
        first, last = offset_of(positions[0]), offset_of(positions[-1])
        try:
            window = self._files.read(segment.fd, last - first + _LAST_RECORD_BYTES, first)
        except OSError:  # reported for each record below
            window = b""
        found = [self._record_or_none(segment, position, window, first) for position in positions]
        records = [record for record in found if record is not None]
        self.unreadable += len(positions) - len(records)
        return records

    def _record_or_none(
        self, segment: Segment, position: int, window: bytes, base: int
    ) -> Replayable | None:
        try:
            return self._record(segment, position, window, base)
        except (MalformedRecord, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            self._complain(f"{segment.path}, offset {offset_of(position)}: {reason or error}")
        return None

    def _record(self, segment: Segment, position: int, window: bytes, base: int) -> Replayable:
        offset = offset_of(position)
        at = offset - base
        if at + RECORD_OVERHEAD <= len(window):
            length, checksum, kind = RECORD_HEAD.unpack_from(window, at)
            stop = at + RECORD_PREFIX.size + length
            if stop <= len(window) and kind == MESSAGE:
                body = window[at + RECORD_PREFIX.size : stop]
                if crc32(body, segment.seed) == checksum:
                    return Replayable(position, body[1:])
        kind, payload = read_record(self._files, segment.fd, offset, segment.seed)
        if kind != MESSAGE:
            raise MalformedRecord("no message")
        return Replayable(position, bytes(payload))

    def _held_segment(self, number: int) -> Segment | None:
        if number > self._reading:
            self._reading = number
            self._hold_from(number)
        segment = self._held.get(number)
        if segment is None:
            segment = self._open(number)
            if segment is not None:
                self._held[number] = segment
        return segment

    def _hold_from(self, number: int) -> None:
        """Close the segments that were read, and open the next ones."""
        for each in [held for held in self._held if held < number]:
            self._held.pop(each).close(self._files)
        start = bisect_left(self._matched, number)
        for each in self._matched[start : start + HELD_MAX]:
            if each not in self._held:
                segment = self._open(each)
                if segment is not None:
                    self._held[each] = segment


class _Found:
    """Places of one queue's messages: columns in offset order, and those that came out of order."""

    __slots__ = ("_offsets", "_positions", "_strays")

    def __init__(self) -> None:
        self._offsets = array("Q")
        self._positions = array("Q")
        self._strays: list[tuple[int, int]] = []

    def add(self, offset: int, position: int, *, is_moved: bool) -> None:
        offsets = self._offsets
        if is_moved or (offsets and offsets[-1] >= offset):
            self._strays.append((offset, position))
        else:
            offsets.append(offset)
            self._positions.append(position)

    def positions(self) -> Iterator[int]:
        """Yield positions by offset, each entry once; of two records the one written first."""
        if not self._strays:
            yield from self._positions
            return
        last = -1
        strays = sorted(self._strays)
        for offset, position in merge(zip(self._offsets, self._positions, strict=True), strays):
            if offset != last:
                last = offset
                yield position


def _next_run(ahead: deque[int], count_max: int) -> list[int]:
    """Take the next positions that one read covers."""
    first = ahead.popleft()
    run = [first]
    while ahead and len(run) < count_max:
        position = ahead[0]
        if (
            not 0 < position - run[-1] <= _GAP_BYTES
            or position - first > CHUNK_BYTES
            or segment_of(position) != segment_of(first)
        ):
            break
        run.append(ahead.popleft())
    return run
