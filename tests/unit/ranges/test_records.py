"""Records at given places, near to each other or far away, long or short, and damaged ones."""

from __future__ import annotations

import random
from array import array

import pytest

from hareline.errors import StoreError
from hareline.ranges import records
from hareline.ranges.records import OPEN_MAX, RecordReader
from hareline.storage.journal.format.positions import OFFSET_BITS, OFFSET_MASK
from hareline.storage.journal.segment import segment_path
from tests.support.store_stand import JOURNAL, FakeEntry, StoreStand, persistent


def fill(stand: StoreStand, sizes: list[int]) -> list[FakeEntry]:
    entries = []
    for number, size in enumerate(sizes):
        entries.append(stand.entry(1 + number % 2, persistent(b"%d:" % number + bytes(size))))
        if number % 7 == 0:
            stand.turn()
    stand.turn()
    return entries


def places(entries: list[FakeEntry]) -> array[int]:
    return array("Q", [entry.message.position for entry in entries])


def contents(reader: RecordReader, wanted: array[int]) -> list[bytes]:
    return [octets[start:end] for octets, start, end in reader.read(wanted)]


@pytest.mark.parametrize("window", [64, 700, 1 << 20])
def test_each_record_is_read_whatever_the_window(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "WINDOW_BYTES", window)
    monkeypatch.setattr(records, "_SINGLE_BYTES", window)
    chance = random.Random(window)
    stand = StoreStand(segment_bytes=16_384)
    entries = fill(stand, [chance.randint(0, 900) for _ in range(300)])
    reader = RecordReader(JOURNAL, stand.files)
    for some in (entries, entries[::2], entries[::-1], entries[3:4], []):
        found = contents(reader, places(some))
        assert len(found) == len(some)
        for payload, entry in zip(found, some, strict=True):
            assert payload.endswith(entry.message.content)
    assert stand.forgetful.open_files > 1
    reader.close()
    assert contents(reader, places(entries[:1]))


def test_only_so_many_segments_are_open() -> None:
    stand = StoreStand(segment_bytes=4096)
    before = stand.forgetful.open_files
    entries = []
    for _ in range(2 * OPEN_MAX):
        entries.append(stand.entry(1, persistent(bytes(3000))))
        stand.turn()
    reader = RecordReader(JOURNAL, stand.files)
    assert len(contents(reader, places(entries))) == len(entries)
    assert len({place >> OFFSET_BITS for place in places(entries)}) > OPEN_MAX
    assert stand.forgetful.open_files <= before + OPEN_MAX + 1
    reader.close()
    assert stand.forgetful.open_files <= before + 1


def test_what_is_no_record_is_said_and_what_stands_before_it_comes() -> None:
    stand = StoreStand()
    entries = fill(stand, [50] * 10)
    place = entries[6].message.position
    path = segment_path(JOURNAL, place >> OFFSET_BITS)
    fd = stand.files.open(path, create=False)
    stand.files.write(fd, [b"\xff"], (place & OFFSET_MASK) + 20)
    stand.files.close(fd)
    reader = RecordReader(JOURNAL, stand.files)
    found = reader.read(places(entries))
    for _ in range(6):
        next(found)
    with pytest.raises(StoreError, match=f"{path}: record at .* does not match its checksum"):
        next(found)
    with pytest.raises(StoreError, match=r"beyond the end|checksum|no message"):
        list(reader.read(array("Q", [place + 3])))
    with pytest.raises(StoreError, match="No such file"):
        list(reader.read(array("Q", [999 << OFFSET_BITS | 64])))
