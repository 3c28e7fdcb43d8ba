"""Transient messages on disk: read as they were, and the files go when nobody needs them."""

from __future__ import annotations

import errno

import pytest

from hareline.errors import StoreError
from hareline.message import TRANSIENT, UNWRITTEN
from hareline.storage.interface import SPOOLED
from hareline.storage.store.message_records import MessageReader
from hareline.storage.store.spool import PIECE_BYTES, Spool, position_when_spooled
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.messages import make_message

DIRECTORY = "/data/spool"


def make(file_bytes: int = 1 << 20) -> tuple[ForgetfulFiles, Spool]:
    files = ForgetfulFiles()
    spool = Spool(files, DIRECTORY, file_bytes)
    spool.open()
    return files, spool


def body(spool: Spool, position: int) -> bytes:
    return MessageReader().message_of(spool.record(position)[1:], TRANSIENT).body


def test_what_was_spooled_is_read_as_it_was() -> None:
    _, spool = make()
    expiring = make_message(b"expiring", exchange="e", routing_key="k").expiring_at(77)
    position = spool.add(expiring)
    assert position >= SPOOLED
    read = MessageReader().message_of(spool.record(position)[1:], TRANSIENT)
    assert (read.content, read.expires_at_ms, read.address.octets) == (
        expiring.content,
        77,
        expiring.address.octets,
    )


@pytest.mark.parametrize(("position", "expected"), [(TRANSIENT, TRANSIENT), (UNWRITTEN, UNWRITTEN)])
def test_whether_it_is_persistent_is_remembered(position: int, expected: int) -> None:
    _, spool = make()
    message = make_message(b"x")
    message.position = position
    assert position_when_spooled(spool.record(spool.add(message))[1:]) == expected


def test_many_pieces_and_files_are_read_in_any_order() -> None:
    files, spool = make()
    bodies = [bytes([number]) * 50_000 for number in range(100)]
    positions = [spool.add(make_message(each)) for each in bodies]
    assert len(files.list(DIRECTORY)) > 3
    assert len(set(positions)) == 100
    for position, expected in reversed(list(zip(positions, bodies, strict=True))):
        assert body(spool, position) == expected


def test_files_go_when_nothing_in_them_is_needed() -> None:
    files, spool = make()
    positions = [spool.add(make_message(bytes(50_000))) for _ in range(100)]
    spool.drop([7, *positions[:90]])  # positions of the journal are passed over
    assert len(files.list(DIRECTORY)) == 1
    assert body(spool, positions[99]) == bytes(50_000)
    spool.drop(positions[90:])
    assert files.used_bytes == 0


def test_the_last_file_begins_anew() -> None:
    _, spool = make()
    first = spool.add(make_message(b"a"))
    spool.drop([first])
    assert spool.add(make_message(b"b")) == first
    assert body(spool, first) == b"b"


def test_what_an_earlier_run_left_is_erased() -> None:
    files, spool = make()
    spool.add(make_message(bytes(PIECE_BYTES)))
    Spool(files, DIRECTORY).open()
    assert files.list(DIRECTORY) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_message_that_cannot_be_spooled_is_not_and_the_others_are(number: int) -> None:
    files, spool = make()
    kept = spool.add(make_message(b"kept"))
    files.fail_next("write", number)
    with pytest.raises(StoreError, match="cannot spool"):
        spool.add(make_message(bytes(PIECE_BYTES)))
    assert body(spool, kept) == b"kept"
    later = spool.add(make_message(bytes(PIECE_BYTES)))
    assert body(spool, later) == bytes(PIECE_BYTES)
    spool.drop([kept, later])
    assert files.used_bytes == 0


def test_damage_is_found_and_named() -> None:
    files, spool = make()
    position = spool.add(make_message(bytes(PIECE_BYTES)))
    path = f"{DIRECTORY}/{files.list(DIRECTORY)[0]}"
    octets = bytearray(files.content(path))
    octets[100] ^= 1
    files.put(path, bytes(octets))
    with pytest.raises(StoreError, match=r"\.spool: what was spooled at 0"):
        spool.record(position)


def test_after_the_end_everything_is_gone_and_dropping_is_no_error() -> None:
    files, spool = make()
    position = spool.add(make_message(b"x"))
    spool.close()
    assert files.list(DIRECTORY) == []
    assert files.open_files == 0
    spool.drop([position])
    with pytest.raises(StoreError, match="nothing was spooled"):
        spool.record(position)
