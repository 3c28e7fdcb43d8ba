"""Repair of a damaged journal: afterwards it reads without damage, and without what was damaged.

SKIP puts a GAP record over what cannot be read, TRUNCATE ends the journal before the first damage.
Where the newest segment goes, one of its number with nothing but a GAP takes its place. No octet
is destroyed: files that change are written again, and the old ones moved into a folder beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Final
from zlib import crc32

from hareline.errors import StoreError
from hareline.storage.journal.damage import Damage, Decision
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    GAP,
    MESSAGE,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    Batch,
    decode_batch,
    encode_batch,
)
from hareline.storage.journal.format.header import SegmentHeader, encode_header, header_size
from hareline.storage.journal.format.message import decode_entries
from hareline.storage.journal.format.positions import offset_of, position_of, segment_of
from hareline.storage.journal.inspect import Report, lost_lines, position_text
from hareline.storage.journal.live_segments import ReadSegment
from hareline.storage.journal.reader import JournalReader
from hareline.storage.journal.search import salvage
from hareline.storage.journal.segment import Segment, segment_path

_REMOVED: Final = "removed"


@dataclass(slots=True)
class _Rewrite:
    """A file's new content. ``has_old``: there is one of this name, to be moved away."""

    path: str
    octets: bytes
    has_old: bool


@dataclass(slots=True)
class Repair:
    """Steps to be done. ``lines``: the same for people, what is lost by it included."""

    directory: str
    rewrites: list[_Rewrite] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def is_needed(self) -> bool:
        return bool(self.rewrites or self.moves)


def plan(files: Files, directory: str, way: Decision, newest: int = 0) -> Repair:
    """Return what a repair would do, without a change.

    ``way``: SKIP or TRUNCATE. ``newest``: see JournalReader. Raises OSError, UnsupportedVersion,
    and StoreError where SKIP has no room for its GAP record.
    """
    report = Report(decision=way)
    repair = Repair(directory)
    dropped = 0
    with closing(JournalReader(files, directory, report, newest=newest)) as reader:
        sources = {source.number: source for source in reader.live}
        ends = {source.number: source.end for source in reader.live}
        batches = [batch.position for batch in reader.batches() if batch.is_whole]
        batches.append(reader.cut_position)  # a torn tail stays one: nothing of it may come back
        if not report.damages:
            return repair
        for damage in report.damages:
            repair.lines.append(str(damage))
        if way is Decision.SKIP:
            _plan_skip(files, repair, sources, ends, report.damages, batches)
            # A batch in what the torn tail takes along would still say what was durable before it.
            paths = {source.path for source in sources.values()}
            repair.moves += [path for path in reader.strays if path in paths]
        else:
            dropped = report.damages[0].cut_position
            _plan_cut(files, repair, reader, newest)
    if way is Decision.TRUNCATE:
        repair.lines += _dropped_lines(files, directory, dropped, newest)
    repair.lines += lost_lines(report.damages)
    for rewrite in repair.rewrites:
        repair.lines.append(f"{rewrite.path}: written again")
    for path in repair.moves:
        repair.lines.append(f"{path}: moved away")
    return repair


def apply(files: Files, repair: Repair) -> str:
    """Do it; returns the folder with the files as they were. Raises OSError.

    A crash in between leaves a journal that is damaged still, and can be repaired again.
    """
    taken = set(files.list(repair.directory))
    names = (f"{_REMOVED}-{count}" for count in range(1, len(taken) + 2))
    removed = f"{repair.directory}/{next(name for name in names if name not in taken)}"
    files.make_directory(removed)
    files.sync_directory(repair.directory)
    for path in reversed(repair.moves):
        files.rename(path, f"{removed}/{path.rpartition('/')[2]}")
    for rewrite in repair.rewrites:
        name = rewrite.path.rpartition("/")[2]
        draft = f"{removed}/{name}.new"
        fd = files.open(draft, create=True)
        try:
            files.write(fd, [rewrite.octets], 0)
            files.sync(fd)
        finally:
            files.close(fd)
        if rewrite.has_old:
            files.rename(rewrite.path, f"{removed}/{name}")
        files.rename(draft, rewrite.path)
    files.sync_directory(removed)
    files.sync_directory(repair.directory)
    return removed


def _plan_skip(
    files: Files,
    repair: Repair,
    sources: dict[int, ReadSegment],
    ends: dict[int, int],
    damages: list[Damage],
    batches: list[int],
) -> None:
    """New content for each segment with damage, as long as the manifests say it is."""
    numbers = sorted({segment_of(damage.position) for damage in damages})
    manifest: list[tuple[int, int]] = []
    has_room = True  # for the manifest, in the header of each segment that needs a new one
    for number, source in sorted(sources.items()):
        end = ends[number] or source.end
        if number in numbers:
            starts = sorted(
                {
                    offset_of(damage.cut_position)
                    for damage in damages
                    if segment_of(damage.position) == number
                }
            )
            whole = [offset_of(each) for each in batches if segment_of(each) == number]
            spare = 0
            if source.segment is None:
                end = end or header_size(len(manifest)) + BATCH_SIZE + RECORD_OVERHEAD
            elif not ends[number] and starts[-1] > max(whole, default=0):
                # What is left of the last batch may be too little for a GAP, and nothing follows.
                spare = max(starts[-1] + BATCH_SIZE - end, 0) + RECORD_OVERHEAD
            named = tuple(manifest)
            if source.problem and source.segment is not None:
                has_room = header_size(len(manifest)) <= source.segment.header.size_bytes
                named = named if has_room else ()
            octets = _filled(files, source, end, starts, whole, named, spare)
            end += spare
            repair.rewrites.append(_Rewrite(source.path, octets, not source.is_missing))
        manifest.append((number, end))
    if not has_room:
        _plan_end(files, repair, max(sources) + 1, manifest)


def _filled(
    files: Files,
    source: ReadSegment,
    end: int,
    starts: list[int],
    whole: list[int],
    manifest: tuple[tuple[int, int], ...],
    spare: int = 0,
) -> bytes:
    """The segment up to ``end``, a valid batch at each of ``starts`` and GAPs where it must be.

    ``spare``: as many octets behind the end go into the last of those batches.
    """
    segment = source.segment
    if segment is None:
        header = SegmentHeader(
            source.number, 0, crc32(source.path.encode()), manifest, header_size(len(manifest))
        )
        segment = Segment(source.path, -1, header, end)
        octets = bytearray(end)
        starts = [header.size_bytes]
    else:
        octets = bytearray(files.read(segment.fd, end, 0).ljust(end + spare, b"\0"))
        starts = [start for start in starts if start]
    if source.problem:
        header = replace(segment.header, manifest=manifest)
        octets[: header.size_bytes] = encode_header(header)
    for start in starts:
        stop = min((each for each in (*whole, *starts) if each > start), default=end)
        _fill(octets, start, stop, segment, spare if stop == end else 0)
    return bytes(octets)


def _fill(octets: bytearray, start: int, stop: int, segment: Segment, spare: int) -> None:
    """Make one valid batch of what stands from ``start`` to ``stop``, and the spare octets."""
    first = start + BATCH_SIZE
    region = memoryview(bytes(octets[start:stop]))
    stop += spare
    if stop < first + RECORD_OVERHEAD:
        raise StoreError(
            f"{segment.path}, offset {start}: {stop - start} octets are too few for a GAP record; "
            "it can only be truncated"
        )
    head = decode_batch(region, 0, segment.seed)
    records, _ = salvage(region, start, segment, has_head=head is not None)
    spans = [
        (offset_of(position), offset_of(position) + RECORD_OVERHEAD + len(payload))
        for position, _, payload in records
        if offset_of(position) >= first
    ]
    count = 0
    at = first
    for span in [*spans, (stop, stop)]:
        if at < span[0] < at + RECORD_OVERHEAD or span[0] < at:
            continue  # no room for a GAP between the two: this record goes with it
        if span[0] > at:
            _put_gap(octets, at, span[0], segment.seed)
            count += 1
        count += span[1] > span[0]
        at = span[1]
    if at < stop:
        raise StoreError(
            f"{segment.path}, offset {at}: no room for a GAP; it can only be truncated"
        )
    position = position_of(segment.number, start)
    batch = Batch(
        position,
        stop - first,
        count,
        segment.header.salt,
        head.durable if head is not None else position,
        head.time_ms if head is not None else segment.header.created_ms,
    )
    octets[start:first] = encode_batch(batch, segment.seed)


def _put_gap(octets: bytearray, start: int, stop: int, seed: int) -> None:
    """A GAP record over these octets; all but the first nine stay as its payload."""
    body = start + RECORD_PREFIX.size
    octets[body] = GAP
    checksum = crc32(memoryview(octets)[body:stop], seed)
    RECORD_PREFIX.pack_into(octets, start, stop - body, checksum)


def _plan_end(files: Files, repair: Repair, number: int, manifest: list[tuple[int, int]]) -> None:
    """A segment behind all others, which says where they end."""
    path = segment_path(repair.directory, number)
    source = ReadSegment(number, path, 0, 0, None, "not begun", is_missing=True)
    end = header_size(len(manifest)) + BATCH_SIZE + RECORD_OVERHEAD
    octets = _filled(files, source, end, [], [], tuple(manifest))
    repair.rewrites.append(_Rewrite(path, octets, has_old=False))


def _plan_cut(files: Files, repair: Repair, reader: JournalReader, newest: int) -> None:
    """The segments that stay end with the last of them, whose manifest has to be right then."""
    repair.moves += reader.strays
    live = list(reader.live)
    if live and live[-1].number == newest and live[-1].end == _start(live[-1]):
        repair.moves.append(live.pop().path)  # it had its first batch, and would be missed
    if newest > max((source.number for source in live), default=0):
        _plan_end(files, repair, newest, [(source.number, source.end) for source in live])
    if not live:
        return
    last = live[-1]
    assert last.segment is not None, "what is left in live can be read"
    manifest = tuple((source.number, source.end) for source in live[:-1])
    header = replace(last.segment.header, manifest=manifest)
    octets = bytearray(files.read(last.segment.fd, last.end, 0))
    octets[: header.size_bytes] = encode_header(header)
    repair.rewrites.append(_Rewrite(last.path, bytes(octets), has_old=True))


def _start(source: ReadSegment) -> int:
    """Position of the first batch of a segment that can be read."""
    assert source.segment is not None
    return source.segment.header.size_bytes


def _dropped_lines(files: Files, directory: str, cut_position: int, newest: int) -> Iterator[str]:
    """Records behind the cut that could be read."""
    report = Report()
    records = entries = 0
    with closing(JournalReader(files, directory, report, newest=newest)) as reader:
        for batch in reader.batches():
            if batch.position < cut_position:
                continue
            records += len(batch.records)
            for _, kind, payload in batch.records:
                entries += len(decode_entries(payload)) if kind == MESSAGE else 0
    cut = next((each for each in report.damages if each.cut_position == cut_position), None)
    octets = cut.cut_octets if cut is not None else 0
    yield (
        f"dropped with it: {octets} octets from {position_text(cut_position)} on, and in them "
        f"{records} valid records with {entries} entries of queues"
    )
