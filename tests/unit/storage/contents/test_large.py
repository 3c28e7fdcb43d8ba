"""Bodies in files: written in pieces, read in pieces, gone when nobody refers to them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from hareline.errors import ContentTooLarge, StoreError
from hareline.message import (
    UNWRITTEN,
    BlindAddress,
    Facts,
    LargeBody,
    large_message,
)
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.syncer import InlineSyncer
from hareline.storage.store.large_bodies import WRITE_BYTES, LargeBodies
from hareline.storage.store.message_records import MessageReader, record_head
from hareline.wire.encoder import header_frame
from hareline.wire.properties import Properties, encode_properties
from tests.support.messages import make_address

NOW_MS = 1_700_000_000_000
BODY = bytes(range(256)) * 3000  # 768,000 octets, some pieces


class WatchedFiles(Files):
    """The real files; counts writes and syncs, and fails when it is told to."""

    def __init__(self) -> None:
        self.sizes_written: list[int] = []
        self.synced: list[str] = []
        self.failure = 0
        self.opened = 0

    def open(self, path: str, *, create: bool) -> int:
        self.opened += 1
        return super().open(path, create=create)

    def open_to_read(self, path: str) -> int:
        self.opened += 1
        return super().open_to_read(path)

    def close(self, fd: int) -> None:
        self.opened -= 1
        super().close(fd)

    def write(self, fd: int, parts: Sequence[bytes], offset: int) -> None:
        if self.failure:
            raise OSError(self.failure, os.strerror(self.failure))
        self.sizes_written.append(sum(map(len, parts)))
        super().write(fd, parts, offset)

    def sync(self, fd: int) -> None:
        if self.failure:
            raise OSError(self.failure, os.strerror(self.failure))
        self.synced.append("file")
        super().sync(fd)

    def sync_directory(self, path: str) -> None:
        self.synced.append("directory")
        super().sync_directory(path)


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "large"


@pytest.fixture
def bodies(files: WatchedFiles, directory: Path) -> LargeBodies:
    return LargeBodies(files, str(directory), now_ms=NOW_MS)


def stored(bodies: LargeBodies, body: bytes = BODY, piece: int = 100_000) -> LargeBody:
    draft = bodies.begin(len(body))
    for start in range(0, len(body), piece):
        draft.add(body[start : start + piece])
    return draft.finish()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# ------------------------------------------------------------------------ pieces


@pytest.mark.parametrize("piece", [1000, 100_000, len(BODY)])
@pytest.mark.parametrize("wanted", [1, 7, 255])
def test_what_came_in_pieces_is_read_in_pieces(
    bodies: LargeBodies, piece: int, wanted: int
) -> None:
    body = stored(bodies, piece=piece)
    assert body.size == len(BODY)
    reader = body.open()
    pieces: list[bytes] = []
    while sum(map(len, pieces)) < len(BODY):
        pieces.append(reader.read(len(BODY) // wanted))
    assert b"".join(pieces) == BODY


def test_two_readings_do_not_disturb_each_other(bodies: LargeBodies) -> None:
    body = stored(bodies)
    first, second = body.open(), body.open()
    assert first.read(1000) == BODY[:1000]
    assert second.read(10) == BODY[:10]
    assert first.read(len(BODY)) == BODY[1000:]
    assert second.read(len(BODY)) == BODY[10:]


def test_small_pieces_are_gathered_before_they_are_written(
    bodies: LargeBodies, files: WatchedFiles
) -> None:
    draft = bodies.begin(len(BODY))
    for start in range(0, len(BODY), 4096):
        draft.add(BODY[start : start + 4096])
    draft.finish()
    assert all(size >= WRITE_BYTES for size in files.sizes_written[:-1])
    assert len(files.sizes_written) == len(BODY) // WRITE_BYTES + 1


def test_no_file_is_open_between_the_pieces(bodies: LargeBodies, files: WatchedFiles) -> None:
    draft = bodies.begin(len(BODY))
    draft.add(BODY[:400_000])
    assert files.opened == 0
    draft.add(BODY[400_000:])
    body = draft.finish()
    assert files.opened == 0
    body.open().read(1000)
    assert files.opened == 0


def test_a_body_is_synced_once_and_its_name_with_it(
    bodies: LargeBodies, files: WatchedFiles
) -> None:
    body = stored(bodies)
    assert files.synced == []
    body.sync()
    body.sync()
    assert files.synced == ["file", "directory"]


def test_a_body_out_of_a_record_is_synced_already(bodies: LargeBodies, files: WatchedFiles) -> None:
    bodies.body(7, 100).sync()
    assert files.synced == []


def test_a_sync_that_failed_is_not_taken_for_done(bodies: LargeBodies, files: WatchedFiles) -> None:
    body = stored(bodies)
    files.failure = errno.EIO
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            body.sync()


# ------------------------------------------------------------------------- names


def test_ids_begin_at_the_time_and_never_come_again(files: WatchedFiles, directory: Path) -> None:
    bodies = LargeBodies(files, str(directory), now_ms=NOW_MS)
    first, second = stored(bodies, b"a"), stored(bodies, b"b")
    assert (first.large_id, second.large_id) == (NOW_MS << 16, (NOW_MS << 16) + 1)
    assert names(directory) == [f"{first.large_id:016x}", f"{second.large_id:016x}"]


def test_ids_are_above_those_that_are_there_whatever_the_clock_says(
    files: WatchedFiles, directory: Path
) -> None:
    last = stored(LargeBodies(files, str(directory), now_ms=NOW_MS))
    bodies = LargeBodies(files, str(directory), now_ms=0)
    assert stored(bodies).large_id == last.large_id + 1
    bodies.keep(last.large_id + 10)  # out of a record whose file is gone
    assert stored(bodies).large_id == last.large_id + 11


def test_a_directory_that_cannot_be_made_is_named(files: WatchedFiles, tmp_path: Path) -> None:
    (tmp_path / "large").write_text("a file")
    with pytest.raises(StoreError, match=r"large: (File exists|Not a directory)"):
        LargeBodies(files, str(tmp_path / "large"), now_ms=NOW_MS)


# ---------------------------------------------------------------------- lifetime


def test_a_body_that_no_record_has_goes_with_its_last_message(
    bodies: LargeBodies, directory: Path
) -> None:
    body = stored(bodies)
    assert len(names(directory)) == 1
    other = body
    del body
    assert len(names(directory)) == 1
    del other
    assert names(directory) == []


def test_a_body_that_records_have_stays_until_the_last_is_settled(
    bodies: LargeBodies, directory: Path
) -> None:
    body = stored(bodies)
    large_id = body.large_id
    bodies.keep(large_id)
    bodies.keep(large_id)
    del body
    bodies.release(large_id)
    assert len(names(directory)) == 1
    bodies.release(large_id)
    assert names(directory) == []


def test_a_settled_body_stays_while_somebody_reads_it(bodies: LargeBodies, directory: Path) -> None:
    body = stored(bodies)
    bodies.keep(body.large_id)
    bodies.release(body.large_id)
    assert body.open().read(len(BODY)) == BODY
    del body
    assert names(directory) == []


def test_all_messages_of_one_record_share_the_body(bodies: LargeBodies) -> None:
    body = stored(bodies)
    assert bodies.body(body.large_id, body.size) is body
    first = bodies.body(5, 100)
    assert bodies.body(5, 100) is first


def test_a_draft_that_is_abandoned_leaves_nothing(bodies: LargeBodies, directory: Path) -> None:
    draft = bodies.begin(len(BODY))
    draft.abandon()  # before anything was written
    draft = bodies.begin(len(BODY))
    draft.add(BODY[:400_000])
    assert len(names(directory)) == 1
    draft.abandon()
    assert names(directory) == []


def test_a_finished_body_is_not_abandoned(bodies: LargeBodies, directory: Path) -> None:
    draft = bodies.begin(1)
    draft.add(b"a")
    body = draft.finish()
    draft.abandon()
    assert body.open().read(1) == b"a"
    assert len(names(directory)) == 1


def test_files_are_removed_where_the_syncs_are_done(files: WatchedFiles, directory: Path) -> None:
    syncer = InlineSyncer()
    bodies = LargeBodies(files, str(directory), now_ms=NOW_MS, syncer=syncer)
    body = stored(bodies)
    large_id = body.large_id
    assert bodies.problem_of(large_id, len(BODY)) == ""
    del body
    assert len(names(directory)) == 1
    assert bodies.problem_of(large_id, len(BODY)).endswith(": is being removed")
    assert syncer.step()
    assert names(directory) == []
    assert bodies.problem_of(large_id, len(BODY)).endswith(": No such file or directory")


def test_after_a_crash_what_no_record_has_is_removed(files: WatchedFiles, directory: Path) -> None:
    before = LargeBodies(files, str(directory), now_ms=NOW_MS)
    kept, lost = stored(before), stored(before)
    (directory / "notes.txt").write_text("somebody else's")
    bodies = LargeBodies(files, str(directory), now_ms=NOW_MS)
    bodies.keep(kept.large_id)
    assert bodies.remove_strays() == 1
    assert names(directory) == [f"{kept.large_id:016x}", "notes.txt"]
    assert bodies.body(kept.large_id, len(BODY)).open().read(len(BODY)) == BODY
    assert lost.size == kept.size


def test_an_orderly_end_removes_what_no_record_has(bodies: LargeBodies, directory: Path) -> None:
    bodies.remove_strays()
    transient, durable = stored(bodies), stored(bodies)
    bodies.keep(durable.large_id)
    bodies.close()
    assert names(directory) == [f"{durable.large_id:016x}"]
    del transient  # its file is gone before it
    assert names(directory) == [f"{durable.large_id:016x}"]


def test_a_start_that_is_broken_off_removes_nothing(files: WatchedFiles, directory: Path) -> None:
    kept = stored(LargeBodies(files, str(directory), now_ms=NOW_MS))
    bodies = LargeBodies(files, str(directory), now_ms=NOW_MS)
    bodies.close()  # before the records were read that refer to it
    assert names(directory) == [f"{kept.large_id:016x}"]


# ------------------------------------------------------------------------ records


@pytest.mark.parametrize("blind_keys", [(), ("b", "c")])
@pytest.mark.parametrize("history_size", [0, 17])
@pytest.mark.parametrize("expires_at_ms", [0, NOW_MS + 5])
def test_a_record_gives_the_message_back_with_the_same_body(
    bodies: LargeBodies, blind_keys: tuple[str, ...], history_size: int, expires_at_ms: int
) -> None:
    address = make_address("e", "k")
    header = header_frame(0, encode_properties(Properties(priority=4)), len(BODY))
    message = large_message(
        BlindAddress(address, blind_keys) if blind_keys else address,
        header,
        stored(bodies),
        NOW_MS,
        UNWRITTEN,
    )
    message.extras = Facts(expires_at_ms, history_size, history_size > 0, message.large)
    record = record_head(message, [(1, 2, 0, 0)]) + message.content
    assert len(record) < 200
    again = MessageReader(bodies).message_of(record[1:], 77)
    assert again.large is message.large
    assert (again.position, again.channel, again.content) == (77, 0, header)
    assert (again.expires_at_ms, again.history_size) == (expires_at_ms, history_size)
    assert again.is_from_default == (history_size > 0)
    assert (again.address.octets, again.address.blind_keys) == (address.octets, blind_keys)
    assert again.priority == 4
    assert again.body == BODY


def test_a_record_of_a_large_message_needs_a_place_for_bodies(bodies: LargeBodies) -> None:
    header = header_frame(0, b"\x00\x00", len(BODY))
    message = large_message(make_address(), header, stored(bodies), NOW_MS)
    record = record_head(message, [(1, 2, 0, 0)]) + message.content
    with pytest.raises(MalformedRecord, match="large message"):
        MessageReader().message_of(record[1:], 77)


# ------------------------------------------------------------------------- errors


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_content_too_large(
    bodies: LargeBodies, files: WatchedFiles, directory: Path, number: int
) -> None:
    draft = bodies.begin(len(BODY))
    draft.add(BODY[:300_000])
    files.failure = number
    with pytest.raises(ContentTooLarge, match=f"768000 octets: {os.strerror(number)}"):
        draft.add(BODY[300_000:])
    draft.abandon()
    assert names(directory) == []


def test_any_other_error_is_one_of_the_store(bodies: LargeBodies, files: WatchedFiles) -> None:
    draft = bodies.begin(5)
    draft.add(b"12345")
    files.failure = errno.EIO
    with pytest.raises(StoreError, match="message of 5 octets cannot be kept: Input/output error"):
        draft.finish()


def test_a_file_that_is_missing_is_named(bodies: LargeBodies, directory: Path) -> None:
    body = bodies.body(0xABC, 100)
    name = "0000000000000abc"
    with pytest.raises(StoreError, match=f"{name}: No such file"):
        body.open().read(100)
    assert bodies.problem_of(0xABC, 100) == f"{directory}/{name}: No such file or directory"


@pytest.mark.parametrize("position", [0, 100_000, len(BODY) - 1])
def test_a_changed_octet_is_found_before_the_body_is_complete(
    bodies: LargeBodies, directory: Path, position: int
) -> None:
    body = stored(bodies)
    path = directory / f"{body.large_id:016x}"
    octets = bytearray(path.read_bytes())
    octets[position] ^= 1
    path.write_bytes(octets)
    reader = body.open()
    reader.read(len(BODY) - 1)
    with pytest.raises(StoreError, match="not what was written"):
        reader.read(1)


def test_a_file_under_another_ones_name_is_not_its_body(
    bodies: LargeBodies, directory: Path
) -> None:
    first, second = stored(bodies), stored(bodies, BODY[::-1])
    (directory / f"{second.large_id:016x}").rename(directory / f"{first.large_id:016x}")
    assert "does not end as" in bodies.problem_of(first.large_id, len(BODY))
    with pytest.raises(StoreError, match="not what was written"):
        first.open().read(len(BODY))


def test_a_file_that_was_cut_is_no_body(bodies: LargeBodies, directory: Path) -> None:
    body = stored(bodies)
    path = directory / f"{body.large_id:016x}"
    assert bodies.problem_of(body.large_id, body.size) == ""
    octets = path.read_bytes()
    path.write_bytes(octets[:-1])
    expected = f"{len(octets) - 1} octets instead of {len(octets)}"
    assert expected in bodies.problem_of(body.large_id, body.size)
    with pytest.raises(StoreError, match="ends before the body does"):
        body.open().read(len(BODY))
