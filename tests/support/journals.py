"""Journals made record by record, for whoever reads them.

``JournalBuilder`` writes segments as the broker would, each batch given as its records. Positions
are what the reader will call them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hareline.message import Message
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    FREE,
    MESSAGE,
    PART,
    RETURN,
    SETTLE,
    Batch,
    encode_batch,
    encode_record,
)
from hareline.storage.journal.format.message import DEAD_LETTER, HAS_EXPIRY, Entry, MessageRecord
from hareline.storage.journal.format.positions import position_of
from hareline.storage.journal.format.records import (
    CLEAN_TIME,
    COVERED,
    FREED,
    RETURNED,
    RUN,
    TRANSACTION,
    Checkpoint,
    CheckpointQueue,
    Part,
    Run,
    encode_items,
)
from hareline.storage.journal.segment import Segment, new_header
from tests.support.encoders import encode_checkpoint, encode_message, encode_part

NOW_MS = 1_700_000_000_000
Payload = tuple[int, bytes]  # kind, octets


class JournalBuilder:
    """``position`` is where the next batch goes."""

    def __init__(self, directory: Path, segment_bytes: int = 1 << 20) -> None:
        self.directory = str(directory)
        self.files = Files()
        self.files.make_directory(self.directory)
        self._segment_bytes = segment_bytes
        self._live: list[tuple[int, int]] = []
        self._segment: Segment | None = None

    @property
    def segment(self) -> Segment:
        assert self._segment is not None, "begin a segment first"
        return self._segment

    def begin(self, number: int, *, without: Iterable[int] = ()) -> None:
        """The next segment; ``without``: segments that its manifest does not name any more."""
        if self._segment is not None:
            self._live.append((self._segment.number, self._segment.end))
            self._segment.close(self.files)
        gone = set(without)
        self._live = [item for item in self._live if item[0] not in gone]
        header = new_header(number, NOW_MS + number, self._live)
        self._segment = Segment.create(self.files, self.directory, header, self._segment_bytes)

    def batch(self, *payloads: Payload, durable: int | None = None) -> list[int]:
        """Append a batch; returns the positions of its records."""
        segment = self.segment
        start = segment.end
        positions, parts = [], []
        at = start + BATCH_SIZE
        for kind, octets in payloads:
            record = b"".join(encode_record(kind, (octets,), segment.seed))
            positions.append(position_of(segment.number, at))
            parts.append(record)
            at += len(record)
        here = position_of(segment.number, start)
        head = Batch(
            here,
            at - start - BATCH_SIZE,
            len(parts),
            segment.header.salt,
            here if durable is None else durable,
            NOW_MS,
        )
        self.files.write(segment.fd, [encode_batch(head, segment.seed), *parts], start)
        segment.end = at
        return positions

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close(self.files)
            self._segment = None


def message_payload(
    message: Message, *entries: tuple[int, int] | tuple[int, int, int, int], flags: int = 0
) -> Payload:
    """Entries: queue id, offset, and if they matter, delivery count and entry flags."""
    if message.expires_at_ms:
        flags |= HAS_EXPIRY
    if message.history_size:
        flags |= DEAD_LETTER
    record = MessageRecord(
        flags,
        message.arrival_ms,
        message.channel,
        message.header_size,
        message.size,
        [Entry(*entry, *(0, 0)[: 4 - len(entry)]) for entry in entries],
        message.expires_at_ms,
        message.history_size,
        (),
        0,
        message.address.octets,
        message.content,
    )
    return MESSAGE, b"".join(encode_message(record))


def settle_payload(*runs: tuple[int, int, int]) -> Payload:
    return SETTLE, encode_items(RUN, runs)


def return_payload(*returned: tuple[int, int, int]) -> Payload:
    return RETURN, encode_items(RETURNED, returned)


def cover_payload(*covers: tuple[int, int]) -> Payload:
    return COVER, encode_items(COVERED, covers)


def clean_payload() -> Payload:
    return CLEAN, CLEAN_TIME.pack(NOW_MS)


def checkpoint_payload(
    void_position: int, *queues: tuple[int, int, int], transactions: tuple[int, ...] = ()
) -> Payload:
    listed = [CheckpointQueue(*queue) for queue in queues]
    return CHECKPOINT, encode_checkpoint(Checkpoint(void_position, listed, transactions))


def part_payload(transaction: int, *runs: tuple[int, int, int]) -> Payload:
    return PART, encode_part(Part(transaction, [Run(*run) for run in runs]))


def commit_payload(*transactions: int) -> Payload:
    return COMMIT, encode_items(TRANSACTION, [(number,) for number in transactions])


def free_payload(*numbers: int) -> Payload:
    return FREE, encode_items(FREED, [(number,) for number in numbers])
