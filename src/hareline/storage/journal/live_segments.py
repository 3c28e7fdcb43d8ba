"""Files that belong to a journal, by the newest header that can be read.

The journal is the manifest of that header and its segment, without what FREE records from there on
name, and every segment with a higher number. A segment that is missing or cannot be opened is
listed with its problem: whether that is damage is for the reader to say.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import BATCH_SIZE, FREE, Batch, MalformedRecord
from hareline.storage.journal.format.positions import (
    number_of_name,
    offset_of,
    position_of,
    segment_name,
)
from hareline.storage.journal.format.records import decode_free
from hareline.storage.journal.search import Record, find_batches, open_damaged, parse_records
from hareline.storage.journal.segment import Segment


@dataclass(slots=True)
class ReadSegment:
    """A file of the journal.

    ``end``: where its last batch ends, final when it has been read; 0 where it is not known before.
    ``segment``: None where nothing in it can be read, and never so once all is read. ``problem``:
    why, or what is wrong with its header.
    """

    number: int
    path: str
    size_bytes: int
    end: int
    segment: Segment | None
    problem: str = ""
    is_missing: bool = False

    @property
    def limit(self) -> int:
        """The offset where reading stops at the latest."""
        return min(self.end or self.size_bytes, self.size_bytes)

    def batches_from(self, files: Files, start: int) -> Iterator[Batch]:
        """Find the valid BATCH records from offset ``start`` on."""
        segment = self.segment
        if segment is None:
            return iter(())
        start = max(start, segment.header.size_bytes)
        return find_batches(files, segment, start, self.limit, segment.seed)


def find_live_segments(
    files: Files, directory: str, newest: int
) -> tuple[list[ReadSegment], list[str]]:
    """Return the journal's segments, ascending, and the paths of segments that are not its own.

    ``newest``: number of a segment that was durable for certain, 0 if none is known; it is listed
    as missing where no file has a number as high. Raises OSError and UnsupportedVersion, and then
    no file is open.
    """
    found: list[ReadSegment] = []
    try:
        for name in files.list(directory):
            number = number_of_name(name)
            if number is not None:
                found.append(_open(files, directory, number))
        live, strays = _choose_live(files, directory, found)
    except BaseException:
        for source in found:
            if source.segment is not None:
                source.segment.close(files)
        raise
    last = max([source.number for source in found], default=0)
    if last < newest:
        source = _missing(directory, newest)
        source.problem = "the file of the newest segment is missing"
        if last + 1 < newest:
            source.problem += ", those of earlier ones may be too"
        live.append(source)
    return live, strays


def records_of(files: Files, segment: Segment, batch: Batch) -> tuple[list[Record], bool]:
    """Return the records of a batch, and whether they are all it should have."""
    start = offset_of(batch.position) + BATCH_SIZE
    octets = files.read(segment.fd, batch.octets, start)
    position = position_of(segment.number, start)
    if len(octets) < batch.octets:
        return [], False
    view = memoryview(octets)
    records, count, stop = parse_records(view, 0, len(octets), segment.seed, position)
    return records, stop == len(octets) and count == batch.records


def _open(files: Files, directory: str, number: int) -> ReadSegment:
    path = f"{directory}/{segment_name(number)}"
    try:
        segment = Segment.open(files, path)
    except MalformedRecord as error:
        damaged = open_damaged(files, path, number)
        problem = str(error).removeprefix(f"{path}: ")
        size = damaged.size_bytes if damaged is not None else _size_of(files, path)
        return ReadSegment(number, path, size, 0, damaged, problem)
    if segment.number != number:
        # A recycled file whose new name outlived a crash, and whose new header did not.
        segment.close(files)
        problem = f"header of segment {segment.number:#x} in this file"
        return ReadSegment(number, path, segment.size_bytes, 0, None, problem)
    return ReadSegment(number, path, segment.size_bytes, 0, segment)


def _size_of(files: Files, path: str) -> int:
    fd = files.open_to_read(path)
    try:
        return files.size(fd)
    finally:
        files.close(fd)


def _missing(directory: str, number: int) -> ReadSegment:
    path = f"{directory}/{segment_name(number)}"
    return ReadSegment(number, path, 0, 0, None, "the file is missing", is_missing=True)


def _choose_live(
    files: Files, directory: str, found: list[ReadSegment]
) -> tuple[list[ReadSegment], list[str]]:
    """Return the segments of the journal, missing ones too, and the paths of all others.

    ``found``: those that there are files of, ascending. Closes what does not belong.
    """
    newest = _newest_readable(found)
    if newest is None or newest.segment is None:
        return list(found), []
    there = {source.number: source for source in found}
    wanted = dict(newest.segment.header.manifest)
    later = [source for source in found if source.number >= newest.number]
    freed = _freed_in(files, later, there)
    for number in freed:
        wanted.pop(number, None)
    live = []
    for number in sorted({*wanted, *(each.number for each in later if each.number not in freed)}):
        source = there.pop(number, None) or _missing(directory, number)
        source.end = wanted.get(number, 0)
        live.append(source)
    for source in there.values():
        if source.segment is not None:
            source.segment.close(files)
            source.segment = None
    return live, [source.path for source in there.values()]


def _newest_readable(found: list[ReadSegment]) -> ReadSegment | None:
    for source in reversed(found):
        if source.segment is not None and not source.problem:
            return source
    return None


def _freed_in(files: Files, sources: list[ReadSegment], numbers: Container[int]) -> set[int]:
    """Return the segments that whole batches of ``sources`` free; ``numbers``: those there are.

    A batch behind a torn one will be cut off with it, so what it frees is still needed. That file
    has not gone yet, since FREE is durable before a file goes.
    """
    named: list[tuple[int, bool, list[int]]] = []  # position, nothing torn before, segments
    durable = 0
    is_whole = True
    for source in sources:
        segment = source.segment
        if segment is None:
            is_whole = False
            continue
        at = segment.header.size_bytes
        for batch in source.batches_from(files, 0):
            durable = max(durable, batch.durable)
            records, is_valid = records_of(files, segment, batch)
            is_whole = is_whole and is_valid and offset_of(batch.position) == at
            at = offset_of(batch.position) + BATCH_SIZE + batch.octets
            if is_valid:
                named += [
                    (batch.position, is_whole, decode_free(payload))
                    for _, kind, payload in records
                    if kind == FREE
                ]
        is_whole = False  # where this segment should have ended is not known
    return {
        number
        for position, is_first, freed in named
        for number in freed
        if is_first or position < durable or number not in numbers
    }
