"""Chunks have what was published, octet for octet, as much as fits, and end before what is lost."""

from __future__ import annotations

import os
from array import array
from pathlib import Path

import pytest

from hareline.message import UNWRITTEN, Message, large_message
from hareline.ranges.chunks import BodyFile, ChunkBuilder, Piece
from hareline.ranges.messages import Build, Built
from hareline.storage.journal.files import Files
from hareline.storage.store.large_bodies import LargeBodies
from hareline.wire.properties import decode_properties
from hareline.wire.stream_chunks import HEADER_SIZE, check_columns, decode_header
from hareline.wire.table import Table
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.store_stand import JOURNAL, FakeEntry, StoreStand, persistent


class Row:
    """One message of a chunk."""

    def __init__(self, arrival_us: int, meta: bytes, body: bytes) -> None:
        self.arrival_us = arrival_us
        self.meta = meta
        self.body = body


def joined(pieces: list[Piece]) -> bytes:
    octets = b""
    for piece in pieces:
        if isinstance(piece, BodyFile):
            while part := piece.read():
                octets += part
            piece.close()
        else:
            octets += piece
    return octets


def rows_of(pieces: list[Piece], first_offset: int) -> list[Row]:
    octets = joined(pieces)
    header = decode_header(octets)
    check_columns(header, octets[HEADER_SIZE:])
    assert header.first_offset == first_offset
    count, at = header.count, HEADER_SIZE
    columns = []
    for typecode in "QII":
        column = array(typecode)
        column.frombytes(octets[at : at + count * column.itemsize])
        at += count * column.itemsize
        columns.append(column)
    rows = []
    body_at = at + header.metas_size
    for arrival, meta_size, body_size in zip(*columns, strict=True):
        rows.append(Row(arrival, octets[at : at + meta_size], octets[body_at:][:body_size]))
        at += meta_size
        body_at += body_size
    return rows


class Stand(StoreStand):
    """Messages of queue 1, as a stream stores them."""

    def keep(self, *messages: Message) -> list[FakeEntry]:
        entries = []
        for message in messages:
            offset = self.next_offsets.get(1, 0)
            stored = message.with_header("x-stream-offset", offset)
            stored.position = UNWRITTEN
            entries.append(self.entry(1, stored))
        self.turn()
        return entries

    def build(
        self, entries: list[FakeEntry], limit_bytes: int = 1 << 20, large: str = "/none"
    ) -> tuple[Built, list[Piece]]:
        places = array("Q", [entry.message.position for entry in entries])
        builder = ChunkBuilder(JOURNAL, large, self.files)
        return builder.build(Build(entries[0].offset, limit_bytes, places))


def test_a_chunk_has_what_was_published() -> None:
    stand = Stand()
    published = [
        persistent(b"one", exchange="e", routing_key="k", content_type="a/b", priority=3),
        persistent(b"", headers=Table({"a": 1, "n": Table({"x-stream-offset": 5})})),
        persistent(b"two", channel=9, content_encoding="gzip", expiration="60000", app_id="x"),
        persistent(b"three", routing_key="größe"),
    ]
    before = [(each.address.octets + each.property_octets, each.body) for each in published]
    built, pieces = stand.build(stand.keep(*published))
    assert built.count == 4
    assert built.problem == ""
    assert built.size_bytes == len(joined(pieces))
    rows = rows_of(pieces, 0)
    assert [(row.meta, row.body) for row in rows] == before
    assert {row.arrival_us for row in rows} == {ARRIVAL_MS * 1000}


def test_a_dead_letter_and_an_expiring_message_have_their_properties_too() -> None:
    stand = Stand()
    message = persistent(b"body", headers=Table({"a": 1}), expiration="60000")
    message = message.expiring_at(ARRIVAL_MS + 60_000)
    message.position = UNWRITTEN
    before = message.property_octets
    _, pieces = stand.build(stand.keep(message))
    (row,) = rows_of(pieces, 0)
    assert row.meta.endswith(before)
    assert decode_properties(row.meta[2:]).expiration == "60000"


def test_a_chunk_ends_at_its_limit_but_has_a_message() -> None:
    stand = Stand()
    entries = stand.keep(*(persistent(bytes(1000)) for _ in range(10)))
    built, pieces = stand.build(entries, 3500)
    assert (built.count, built.problem) == (3, "")
    assert built.size_bytes <= 3500
    assert len(rows_of(pieces, 0)) == 3
    built, pieces = stand.build(entries[4:], 10)
    assert built.count == 1
    assert len(rows_of(pieces, 4)) == 1


def test_a_chunk_ends_before_a_message_that_is_lost() -> None:
    stand = Stand()
    entries = stand.keep(*(persistent(b"%d" % number) for number in range(5)))
    entries[3].message.position += 1
    built, pieces = stand.build(entries)
    assert built.count == 3
    assert JOURNAL in built.problem
    assert [row.body for row in rows_of(pieces, 0)] == [b"0", b"1", b"2"]
    built, pieces = stand.build(entries[3:])
    assert (built.count, built.size_bytes, pieces) == (0, 0, [])
    assert JOURNAL in built.problem


# ------------------------------------------------------------------------- large bodies


def large(directory: Path, body: bytes) -> tuple[LargeBodies, Message]:
    bodies = LargeBodies(Files(), str(directory), now_ms=1)
    draft = bodies.begin(len(body))
    draft.add(body)
    small = make_message(bytes(len(body)), routing_key="k")
    message = large_message(
        small.address, small.content[: small.header_size], draft.finish(), ARRIVAL_MS, UNWRITTEN
    )
    return bodies, message


def test_a_large_body_is_a_chunk_of_its_own(tmp_path: Path) -> None:
    body = os.urandom(700_001)
    bodies, message = large(tmp_path, body)
    stand = Stand(bodies=bodies)
    before = message.address.octets + message.property_octets
    entries = stand.keep(persistent(b"1"), message, persistent(b"2"))
    built, pieces = stand.build(entries, large=str(tmp_path))
    assert (built.count, built.problem) == (1, "")
    assert [row.body for row in rows_of(pieces, 0)] == [b"1"]
    built, pieces = stand.build(entries[1:], large=str(tmp_path))
    assert (built.count, built.problem) == (1, "")
    octets = joined(pieces)
    assert len(octets) == built.size_bytes
    (row,) = rows_of([octets], 1)
    assert row.body == body
    assert row.meta == before


@pytest.mark.parametrize("damage", ["gone", "shorter", "other"])
def test_a_large_body_that_is_not_what_it_was_is_a_problem(damage: str, tmp_path: Path) -> None:
    bodies, message = large(tmp_path, bytes(5000))
    stand = Stand(bodies=bodies)
    entries = stand.keep(message)
    (path,) = tmp_path.iterdir()
    if damage == "gone":
        path.unlink()
    elif damage == "shorter":
        os.truncate(path, 100)
    else:
        path.write_bytes(b"x" + path.read_bytes()[1:])
    built, pieces = stand.build(entries, large=str(tmp_path))
    assert (built.count, pieces) == (0, [])
    assert str(path) in built.problem


def test_a_body_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"abc")
    body = BodyFile(os.open(tmp_path / "body", os.O_RDONLY), 5)
    assert body.read() == b"abc"
    with pytest.raises(OSError, match="2 octets too early"):
        body.read()
    body.close()
    body.close()
