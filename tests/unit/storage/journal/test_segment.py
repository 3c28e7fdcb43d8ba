"""Making segments, using files again, and what is left behind when that fails."""

from __future__ import annotations

import errno

import pytest

from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.format.header import header_size
from hareline.storage.journal.format.positions import SEGMENT_NUMBER_MAX, offset_of, segment_name
from hareline.storage.journal.segment import (
    Segment,
    make_spare,
    new_header,
    read_record,
    spare_path,
)
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import Listener, SegmentWriter, message, read_all

DIRECTORY = "/journal"


@pytest.fixture
def files() -> ForgetfulFiles:
    files = ForgetfulFiles()
    files.make_directory(DIRECTORY)
    return files


def _create(
    files: ForgetfulFiles,
    number: int,
    size_bytes: int = 4096,
    manifest: tuple[tuple[int, int], ...] = (),
) -> Segment:
    return Segment.create(files, DIRECTORY, new_header(number, 1234, manifest), size_bytes)


def test_a_new_segment_is_preallocated_and_can_be_opened(files: ForgetfulFiles) -> None:
    made = _create(files, 0x2A, manifest=((3, 77), (9, 88)))
    assert made.end == header_size(2)
    assert made.path == f"{DIRECTORY}/{segment_name(0x2A)}"
    opened = Segment.open(files, made.path)
    assert opened.header == made.header
    assert opened.header.manifest == ((3, 77), (9, 88))
    assert (opened.number, opened.seed, opened.end) == (made.number, made.seed, made.end)
    assert opened.size_bytes == files.size(made.fd) == 4096


def test_each_segment_has_a_salt_of_its_own(files: ForgetfulFiles) -> None:
    assert len({_create(files, number).header.salt for number in range(1, 20)}) > 15


def test_nothing_is_synced_by_making_one(files: ForgetfulFiles) -> None:
    _create(files, 1)
    assert {operation.name for operation in files.operations} == {
        *("make_directory", "open", "allocate", "write")
    }


@pytest.mark.parametrize("operation", ["allocate", "write"])
def test_a_segment_that_cannot_be_made_leaves_nothing(
    files: ForgetfulFiles, operation: str
) -> None:
    files.fail_next(operation, errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        _create(files, 1)
    assert files.list(DIRECTORY) == []
    assert files.open_files == 0


@pytest.mark.parametrize("number", [0, -1, SEGMENT_NUMBER_MAX + 1])
def test_a_number_beyond_all_positions_is_refused(files: ForgetfulFiles, number: int) -> None:
    with pytest.raises(ValueError, match=f"segment number {number} "):
        _create(files, number)


@pytest.mark.parametrize("size_bytes", [0, 100, 1 << 32])
def test_a_size_beyond_all_offsets_is_refused(files: ForgetfulFiles, size_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"segment of {size_bytes} octets"):
        _create(files, 1, size_bytes, ((1, 2), (3, 4)))


def test_a_freed_segment_is_used_again(files: ForgetfulFiles) -> None:
    old = _create(files, 1)
    files.write(old.fd, [b"former life"], old.end)
    spare = spare_path(DIRECTORY, 1)
    old.close(files)
    files.rename(old.path, spare)
    new = Segment.recycle(files, spare, DIRECTORY, new_header(7, 5, ((2, 3),)), 4096)
    assert files.list(DIRECTORY) == [segment_name(7)]
    assert Segment.open(files, new.path).header == new.header
    assert new.seed != old.seed


@pytest.mark.parametrize(("size_bytes", "expected"), [(1000, 4096), (10_000, 10_000)])
def test_a_spare_grows_where_it_is_too_short(
    files: ForgetfulFiles, size_bytes: int, expected: int
) -> None:
    spare = make_spare(files, DIRECTORY, 3, 4096)
    new = Segment.recycle(files, spare, DIRECTORY, new_header(4, 5), size_bytes)
    assert new.size_bytes == files.size(new.fd) == expected


@pytest.mark.parametrize("operation", ["allocate", "write", "rename"])
def test_a_spare_that_cannot_be_used_is_still_one(files: ForgetfulFiles, operation: str) -> None:
    spare = make_spare(files, DIRECTORY, 3, 4096)
    files.fail_next(operation, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        Segment.recycle(files, spare, DIRECTORY, new_header(4, 5), 5000)
    assert files.list(DIRECTORY) == ["spare-0000000000000003"]
    assert files.open_files == 0


def test_a_spare_that_cannot_be_made_leaves_nothing(files: ForgetfulFiles) -> None:
    files.limit_bytes = 4000
    with pytest.raises(OSError, match="No space left"):
        make_spare(files, DIRECTORY, 3, 4096)
    assert files.list(DIRECTORY) == []
    assert files.open_files == 0


@pytest.mark.parametrize(
    ("octets", "what"),
    [
        (b"", "0 octets are too few"),
        (bytes(4096), "does not begin with the octets HARELINE"),
        (b"HARELINE" + bytes(200), "checksum of the version does not match"),
    ],
)
def test_what_is_no_segment_is_refused_by_its_path(
    files: ForgetfulFiles, octets: bytes, what: str
) -> None:
    path = f"{DIRECTORY}/{segment_name(1)}"
    files.put(path, octets)
    with pytest.raises(MalformedRecord, match=f"^{path}: {what}"):
        Segment.open(files, path)
    assert files.open_files == 0


def test_a_manifest_longer_than_the_file_is_not_believed(files: ForgetfulFiles) -> None:
    made = _create(files, 1)
    octets = bytearray(files.content(made.path))
    octets[40:44] = b"\xff\xff\xff\x7f"
    files.put(made.path, bytes(octets))
    with pytest.raises(MalformedRecord, match="is longer than the file"):
        Segment.open(files, made.path)


def test_a_record_s_position_is_where_it_can_be_read_alone(files: ForgetfulFiles) -> None:
    journal = SegmentWriter(files)
    journal.begin(1, size_bytes=1 << 17)
    journal.batch(message((1, 0)), message((1, 1), body=b"x" * 50_000))
    batches, _, _ = read_all(files, Listener())
    for position, kind, payload in batches[0].records:
        assert read_record(files, journal.tail.fd, offset_of(position), journal.tail.seed) == (
            kind,
            payload,
        )
    position = batches[0].records[0][0]
    with pytest.raises(MalformedRecord, match="checksum does not match"):
        read_record(files, journal.tail.fd, offset_of(position), journal.tail.seed ^ 1)
    with pytest.raises(MalformedRecord, match="beyond the file"):
        read_record(files, journal.tail.fd, offset_of(position) + 1, journal.tail.seed)
    with pytest.raises(MalformedRecord, match="the file ends"):
        read_record(files, journal.tail.fd, (1 << 17) - 2, journal.tail.seed)
