"""A journal as people read it: a line for each record, and a report on the whole.

Positions are written ``segment:offset``, both as the file has them: the number in hexadecimal
digits, as in the file's name, the offset in decimal ones.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from hareline.storage.journal.damage import Damage, Decision, Reporter
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    FREE,
    GAP,
    KIND_NAMES,
    MESSAGE,
    PART,
    PRODUCERS,
    RETURN,
    SETTLE,
    MalformedRecord,
)
from hareline.storage.journal.format.message import (
    DEAD_LETTER,
    FROM_DEFAULT,
    HAS_BLIND_KEYS,
    HAS_EXPIRY,
    LARGE,
    MOVED,
    UNCOUNTED,
    WAS_DELIVERED,
    MessageRecord,
    decode_message,
)
from hareline.storage.journal.format.positions import number_of_name, offset_of, segment_of
from hareline.storage.journal.format.records import (
    DECODERS,
    Checkpoint,
    Part,
    Producers,
    Returned,
)
from hareline.storage.journal.live_segments import ReadSegment
from hareline.storage.journal.reader import JournalReader, ReadBatch
from hareline.storage.journal.search import Record

Payload = bytes | memoryview
Fields = dict[str, object]

_MESSAGE_FLAGS: Final = {
    MOVED: "moved",
    LARGE: "large",
    DEAD_LETTER: "dead letter",
    FROM_DEFAULT: "from default exchange",
    HAS_EXPIRY: "expires",
    HAS_BLIND_KEYS: "blind keys",
}


@dataclass(slots=True)
class Report(Reporter):
    """Findings of a whole pass over a journal. ``decision``: on all damage.

    ``kinds``: how many records of each. ``malformed``: (position, what) of records whose checksum
    is right and whose payload is invalid. ``torn``: (path, position, octets).
    """

    decision: Decision = Decision.SKIP
    segments: list[ReadSegment] = field(default_factory=list)
    batches: int = 0
    kinds: Counter[int] = field(default_factory=Counter)
    damages: list[Damage] = field(default_factory=list)
    malformed: list[tuple[int, str]] = field(default_factory=list)
    torn: list[tuple[str, int, int]] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        return bool(self.damages or self.malformed)

    def on_damage(self, damage: Damage) -> Decision:
        self.damages.append(damage)
        return self.decision

    def on_torn_tail(self, path: str, position: int, octets: int) -> None:
        self.torn.append((path, position, octets))

    def lines(self) -> Iterator[str]:
        """The report, exact to the octet; the last line is the verdict."""
        for segment in self.segments:
            yield f"{segment.path}: {segment.end} of {segment.size_bytes} octets written"
        counts = ", ".join(
            f"{count} {KIND_NAMES[kind]}" for kind, count in sorted(self.kinds.items())
        )
        yield f"{self.batches} batches with {sum(self.kinds.values())} records" + (
            f": {counts}" if counts else ""
        )
        for path in self.strays:
            yield f"{path}: not part of the journal any more, the broker removes it when it starts"
        for path, position, octets in self.torn:
            yield (
                f"{path}, offset {offset_of(position)}: torn tail of {octets} octets, which was "
                "never durable; the broker cuts it when it starts"
            )
        for position, what in self.malformed:
            yield f"{position_text(position)}: checksum is right, but {what}"
        for damage in self.damages:
            yield str(damage)
        if not self.is_damaged:
            yield "no damage"
            return
        places = len(self.damages) + len(self.malformed)
        octets = sum(damage.octets for damage in self.damages)
        yield f"damaged in {places} place{'s' * (places != 1)}, {octets} octets cannot be read"
        yield from lost_lines(self.damages)


def lost_lines(damages: list[Damage]) -> Iterator[str]:
    """Entries by queue that damaged records seem to have held."""
    lost: dict[int, list[int]] = {}
    for damage in damages:
        for queue_id, offset in damage.entries:
            lost.setdefault(queue_id, []).append(offset)
    for queue_id, offsets in sorted(lost.items()):
        places = ", ".join(_ranges(sorted(offsets)))
        yield f"lost of queue id {queue_id}: {len(offsets)} entries, offsets {places}"
    open_places = sum(not damage.is_exhaustive for damage in damages)
    if open_places:
        yield (
            f"what was in {open_places} of these places cannot be told: there may be more messages "
            "that are lost"
        )
    if any(damage.kind in {SETTLE, RETURN, COVER, 0} for damage in damages):
        yield (
            "records of settled messages may be among what cannot be read: such messages come back"
        )
    if any(damage.kind in {PRODUCERS, 0} for damage in damages):
        yield (
            "highest sequences of producers may be among what cannot be read: messages that these "
            "send again may be enqueued twice"
        )


def is_journal(files: Files, directory: str) -> bool:
    """True if there is a segment in this directory. Raises OSError."""
    return any(number_of_name(name) is not None for name in files.list(directory))


def verify(files: Files, directory: str, newest: int = 0) -> Report:
    """Read all of it. ``newest``: see JournalReader. Raises OSError and UnsupportedVersion."""
    report = Report()
    for batch in _batches(files, directory, report, newest):
        report.batches += 1
        for position, kind, payload in _all_records(batch):
            report.kinds[kind] += 1
            try:
                _describe(kind, payload)
            except MalformedRecord as error:
                report.malformed.append((position, str(error)))
    return report


def dump(
    files: Files,
    directory: str,
    report: Report,
    *,
    as_json: bool,
    with_content: bool = False,
    newest: int = 0,
) -> Iterator[str]:
    """A line for each batch and each record in it; the report says what could not be read.

    ``with_content``: JSON has the messages' content, too. ``newest``: see JournalReader.
    Raises OSError and UnsupportedVersion.
    """
    line = _json_line if as_json else _text_line
    for batch in _batches(files, directory, report, newest):
        about: Fields = {
            "records": len(batch.records) + len(batch.gaps),
            "octets": batch.end - batch.position,
            "durable": position_text(batch.durable),
            "time": time_text(batch.time_ms),
        }
        if not batch.is_whole:
            about["damaged"] = True
        yield line(batch.position, "BATCH", about)
        for position, kind, payload in _all_records(batch):
            try:
                about = _describe(kind, payload)
                if with_content and kind == MESSAGE:
                    about["content"] = b64encode(decode_message(payload).content).decode()
            except MalformedRecord as error:
                report.malformed.append((position, str(error)))
                about = {"malformed": str(error)}
            yield line(position, KIND_NAMES[kind], about)


def position_text(position: int) -> str:
    return f"{segment_of(position):x}:{offset_of(position)}"


def time_text(epoch_ms: int) -> str:
    """Return a time as ISO 8601, or the number if that is out of range."""
    try:
        moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(epoch_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{epoch_ms % 1000:03}Z"


def _batches(files: Files, directory: str, report: Report, newest: int) -> Iterator[ReadBatch]:
    with closing(JournalReader(files, directory, report, newest=newest)) as reader:
        yield from reader.batches()
        report.strays = reader.strays
        report.segments = reader.live


def _all_records(batch: ReadBatch) -> list[Record]:
    return sorted([*batch.records, *batch.gaps], key=lambda record: record[0])


def _json_line(position: int, kind: str, about: Fields) -> str:
    place: Fields = {"segment": segment_of(position), "offset": offset_of(position), "kind": kind}
    return json.dumps(place | about, ensure_ascii=False)


def _text_line(position: int, kind: str, about: Fields) -> str:
    words = [f"{position_text(position):>12} {kind:10}"]
    words += [f"{name}={_text(value)}" for name, value in about.items()]
    return " ".join(words)


def _text(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(each)}" for name, each in value.items())
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _describe(kind: int, payload: Payload) -> Fields:
    """Return the fields of a record. Raises MalformedRecord."""
    if kind == GAP:
        return {"octets": len(payload)}
    if kind == MESSAGE:
        return _describe_message(decode_message(payload))
    record = DECODERS[kind](payload)
    if kind in _NUMBERS:
        return {_NUMBERS[kind]: record}
    if kind in _LISTS:
        return {_LISTS[kind]: [each._asdict() for each in record]}
    return _OTHERS[kind](record)


def _describe_message(record: MessageRecord) -> Fields:
    exchange_end = 1 + record.address[0]
    about: Fields = {
        "exchange": record.address[1:exchange_end].decode("utf-8", "backslashreplace"),
        "routing_key": record.address[exchange_end + 1 :].decode("utf-8", "backslashreplace"),
        "size": record.size,
        "arrival": time_text(record.arrival_ms),
        "entries": [
            {"queue_id": entry.queue_id, "offset": entry.offset}
            | (_describe_count(entry.delivery_count) if entry.delivery_count else {})
            | ({"was_delivered": True} if entry.flags & WAS_DELIVERED else {})
            for entry in record.entries
        ],
    }
    flags = [text for flag, text in _MESSAGE_FLAGS.items() if record.flags & flag]
    if flags:
        about["flags"] = flags
    if record.flags & HAS_EXPIRY:
        about["expires_at"] = time_text(record.expires_at_ms)
    if record.flags & LARGE:
        about["large_file"] = f"{record.large_id:016x}"
    return about


def _describe_return(entries: list[Returned]) -> Fields:
    return {
        "entries": [
            {"queue_id": queue_id, "offset": offset, **_describe_count(delivery_count)}
            for queue_id, offset, delivery_count in entries
        ]
    }


def _describe_count(delivery_count: int) -> Fields:
    fields: Fields = {"delivery_count": delivery_count & ~UNCOUNTED}
    if delivery_count & UNCOUNTED:
        fields["came_back_uncounted"] = True
    return fields


def _describe_clean(epoch_ms: int) -> Fields:
    return {"time": time_text(epoch_ms)}


def _describe_checkpoint(checkpoint: Checkpoint) -> Fields:
    about: Fields = {
        "void_before": position_text(checkpoint.void_position),
        "queues": [queue._asdict() for queue in checkpoint.queues],
    }
    if checkpoint.transactions:
        about["open_transactions"] = list(checkpoint.transactions)
    return about


def _describe_part(part: Part) -> Fields:
    return {"transaction": part.transaction, "runs": [run._asdict() for run in part.runs]}


def _describe_producers(producers: Producers) -> Fields:
    return {
        "vhost": producers.vhost.decode("utf-8", "backslashreplace"),
        "whole": producers.is_whole,
        "producers": [
            {
                "id": each.producer_id.decode("utf-8", "backslashreplace"),
                "sequence": each.sequence,
                "used": time_text(each.used_ms),
            }
            for each in producers.sequences
        ],
    }


_NUMBERS: Final = {FREE: "segments", COMMIT: "transactions"}
_LISTS: Final = {SETTLE: "runs", COVER: "queues"}
_OTHERS: Final[dict[int, Callable[[Any], Fields]]] = {
    RETURN: _describe_return,
    CLEAN: _describe_clean,
    CHECKPOINT: _describe_checkpoint,
    PART: _describe_part,
    PRODUCERS: _describe_producers,
}


def _ranges(numbers: list[int]) -> Iterator[str]:
    """``3, 4, 5, 9`` as ``3-5``, ``9``."""
    start = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] > numbers[index - 1] + 1:
            first, last = numbers[start], numbers[index - 1]
            yield str(first) if first == last else f"{first}-{last}"
            start = index
