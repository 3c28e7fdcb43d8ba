"""Journals written by hand, octet for octet, and a reporter that remembers what it was told.

For the tests of the journal itself, on any file layer; ``tests.support.journals`` is for tests of
what is made of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hareline.storage.journal.damage import Damage, Decision, Reporter
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    CLEAN,
    FREE,
    MESSAGE,
    SETTLE,
    Batch,
    encode_batch,
    encode_record,
)
from hareline.storage.journal.format.message import Entry, MessageRecord
from hareline.storage.journal.format.positions import position_of
from hareline.storage.journal.format.records import CLEAN_TIME, FREED, RUN, encode_items
from hareline.storage.journal.reader import JournalReader, ReadBatch
from hareline.storage.journal.segment import Segment, new_header
from tests.support.encoders import encode_message

DIRECTORY: Final = "/journal"
TIME_MS: Final = 1_700_000_000_000
ADDRESS: Final = b"\x00\x05tasks"
# A header frame without properties for a body of two octets on channel 1, and its body frame.
_HEADER_FRAME: Final = bytes.fromhex("02 0001 0000000e 003c 0000 0000000000000002 0000 ce")
_BODY_FRAME: Final = bytes.fromhex("03 0001 00000002 6869 ce")

Plain = tuple[int, bytes]  # kind and payload


def message_record(
    *entries: tuple[int, int],
    flags: int = 0,
    body: bytes = b"hi",
    expires_at_ms: int = 0,
    history_size: int = 0,
    blind_keys: tuple[bytes, ...] = (),
    large_id: int = 0,
) -> MessageRecord:
    """``entries``: (queue id, offset) of each queue."""
    header = _HEADER_FRAME[:11] + len(body).to_bytes(8, "big") + _HEADER_FRAME[19:]
    frame = _BODY_FRAME[:3] + len(body).to_bytes(4, "big") + body + b"\xce" if body else b""
    return MessageRecord(
        flags,
        TIME_MS,
        1,
        len(header),
        len(body),
        [Entry(queue_id, offset, 0, 0) for queue_id, offset in entries],
        expires_at_ms,
        history_size,
        blind_keys,
        large_id,
        ADDRESS,
        header + frame,
    )


def message(*entries: tuple[int, int], body: bytes = b"hi") -> Plain:
    return MESSAGE, b"".join(encode_message(message_record(*entries, body=body)))


def settle(*runs: tuple[int, int, int]) -> Plain:
    return SETTLE, encode_items(RUN, runs)


def free(*numbers: int) -> Plain:
    return FREE, encode_items(FREED, [(number,) for number in numbers])


def clean() -> Plain:
    return CLEAN, CLEAN_TIME.pack(TIME_MS)


class SegmentWriter:
    """Writes segments; all of it is synced. ``durable``: what the next batch says it is."""

    def __init__(self, files: Files, directory: str = DIRECTORY) -> None:
        self.files = files
        self.directory = directory
        self.segments: list[Segment] = []
        self.durable = 0
        files.make_directory(directory)

    @property
    def tail(self) -> Segment:
        return self.segments[-1]

    def begin(
        self,
        number: int,
        *,
        size_bytes: int = 8192,
        without: Sequence[int] = (),
        salt: int | None = None,
    ) -> Segment:
        """A new segment; its manifest is all before it, ``without`` some."""
        live = [each for each in self.segments if each.number not in without]
        header = new_header(number, TIME_MS, [(each.number, each.end) for each in live])
        if salt is not None:
            header = replace(header, salt=salt)
        segment = Segment.create(self.files, self.directory, header, size_bytes)
        self.files.sync(segment.fd)
        self.files.sync_directory(self.directory)
        self.segments.append(segment)
        return segment

    def batch(self, *records: Plain, time_ms: int = TIME_MS) -> int:
        """Its position."""
        segment = self.tail
        octets = b"".join(
            b"".join(encode_record(kind, (payload,), segment.seed)) for kind, payload in records
        )
        position = position_of(segment.number, segment.end)
        batch = Batch(
            position, len(octets), len(records), segment.header.salt, self.durable, time_ms
        )
        head = encode_batch(batch, segment.seed)
        self.files.write(segment.fd, [head, octets], segment.end)
        self.files.sync(segment.fd)
        segment.end += len(head) + len(octets)
        self.durable = position_of(segment.number, segment.end)
        return position

    def damage(self, number: int, offset: int, octets: bytes | None = None) -> None:
        """Overwrite, by one octet that is another one if nothing is given."""
        segment = next(each for each in self.segments if each.number == number)
        if octets is None:
            octets = bytes((self.files.read(segment.fd, 1, offset)[0] ^ 0x55,))
        self.files.write(segment.fd, [octets], offset)
        self.files.sync(segment.fd)

    def path(self, number: int) -> str:
        return next(each.path for each in self.segments if each.number == number)

    def close(self) -> None:
        for segment in self.segments:
            segment.close(self.files)


def two_segments(journal: SegmentWriter) -> list[int]:
    """Five batches, three in segment 1 and two in 2; their positions."""
    journal.begin(1)
    positions = [
        journal.batch(message((1, 0)), message((1, 1), (2, 0))),
        journal.batch(settle((1, 0, 1)), message((1, 2))),
        journal.batch(message((1, 3))),
    ]
    journal.begin(2)
    return [*positions, journal.batch(message((1, 4))), journal.batch(settle((1, 2, 2)))]


class Listener(Reporter):
    """Answers every damage alike, and keeps what it was told."""

    def __init__(self, decision: Decision = Decision.SKIP) -> None:
        self.decision = decision
        self.damages: list[Damage] = []
        self.torn: list[tuple[str, int, int]] = []
        self.progress: list[tuple[int, int]] = []

    def on_damage(self, damage: Damage) -> Decision:
        self.damages.append(damage)
        return self.decision

    def on_torn_tail(self, path: str, position: int, octets: int) -> None:
        self.torn.append((path, position, octets))

    def on_progress(self, done_octets: int, all_octets: int) -> None:
        self.progress.append((done_octets, all_octets))


def read_all(
    files: Files,
    listener: Reporter,
    *,
    directory: str = DIRECTORY,
    chunk_bytes: int = 1 << 20,
    newest: int = 0,
) -> tuple[list[ReadBatch], list[int], list[str]]:
    """Batches, the numbers of the segments that stay, and the names of strays."""
    reader = JournalReader(files, directory, listener, newest=newest, chunk_bytes=chunk_bytes)
    try:
        batches = list(reader.batches())
        numbers = [source.number for source in reader.live]
        return batches, numbers, [path.rpartition("/")[2] for path in reader.strays]
    finally:
        reader.close()


def plain(batches: Sequence[ReadBatch]) -> list[list[Plain]]:
    """Kinds and payloads of each batch."""
    return [[(kind, bytes(payload)) for _, kind, payload in batch.records] for batch in batches]


def read_for_newest(files: Files, newest: int) -> tuple[list[int], list[str]]:
    """Return the positions of the batches that are read, and what is reported as damage."""
    listener = Listener(Decision.SKIP)
    batches, _, _ = read_all(files, listener, newest=newest)
    assert listener.torn == []
    return [batch.position for batch in batches], [damage.what for damage in listener.damages]
