"""What people are shown of a journal."""

from __future__ import annotations

import json
from base64 import b64decode

from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    CHECKPOINT,
    COMMIT,
    COVER,
    GAP,
    KIND_NAMES,
    MESSAGE,
    PART,
    PRODUCERS,
    RECORD_OVERHEAD,
    RETURN,
    SETTLE,
)
from hareline.storage.journal.format.message import (
    DEAD_LETTER,
    HAS_EXPIRY,
    LARGE,
    WAS_DELIVERED,
    Entry,
)
from hareline.storage.journal.format.positions import offset_of, position_of
from hareline.storage.journal.format.records import (
    COVERED,
    RETURNED,
    TRANSACTION,
    Checkpoint,
    CheckpointQueue,
    KeptSequence,
    Part,
    Run,
    encode_items,
)
from hareline.storage.journal.inspect import Report, dump, is_journal, time_text, verify
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.encoders import encode_checkpoint, encode_message, encode_part, encode_producers
from tests.support.segments import (
    DIRECTORY,
    TIME_MS,
    SegmentWriter,
    clean,
    free,
    message,
    message_record,
    settle,
)


def _everything(journal: SegmentWriter) -> None:
    """A record of each kind that version 1 had."""
    journal.begin(10)
    checkpoint = Checkpoint(position_of(9, 7), [CheckpointQueue(1, 2, 3)])
    large = message_record((1, 1), flags=LARGE | DEAD_LETTER | HAS_EXPIRY, large_id=0xAB)
    large = large._replace(
        content=large.content[: large.header_size],
        entries=[Entry(1, 1, 2, WAS_DELIVERED)],
        expires_at_ms=TIME_MS + 1,
    )
    journal.batch(
        (CHECKPOINT, encode_checkpoint(checkpoint)),
        message((1, 0), (2, 5)),
        (MESSAGE, b"".join(encode_message(large))),
    )
    journal.batch(
        settle((1, 0, 1)),
        (RETURN, encode_items(RETURNED, [(1, 1, 3)])),
        (COVER, encode_items(COVERED, [(1, 4096)])),
        free(5),
        clean(),
    )


def _dump(files: ForgetfulFiles, *, with_content: bool = False) -> list[dict[str, object]]:
    lines = dump(files, DIRECTORY, Report(), as_json=True, with_content=with_content)
    return [json.loads(line) for line in lines]


def test_json_has_each_record_with_all_that_is_in_it(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _everything(journal)
    lines = _dump(files)
    assert [line.pop("kind") for line in lines] == [
        *("BATCH", "CHECKPOINT", "MESSAGE", "MESSAGE"),
        *("BATCH", "SETTLE", "RETURN", "COVER", "FREE", "CLEAN"),
    ]
    offsets = [line.pop("offset") for line in lines]
    assert offsets == sorted(offsets)  # type: ignore[type-var]
    assert {line.pop("segment") for line in lines} == {10}
    time = "2023-11-14T22:13:20.000Z"
    octets = journal.tail.end - int(str(offsets[4]))
    assert lines[1] == {
        "void_before": "9:7",
        "queues": [{"queue_id": 1, "next_offset": 2, "cover": 3}],
    }
    assert lines[2] == {
        "exchange": "",
        "routing_key": "tasks",
        "size": 2,
        "arrival": time,
        "entries": [{"queue_id": 1, "offset": 0}, {"queue_id": 2, "offset": 5}],
    }
    assert lines[3] == {
        "exchange": "",
        "routing_key": "tasks",
        "size": 2,
        "arrival": time,
        "entries": [{"queue_id": 1, "offset": 1, "delivery_count": 2, "was_delivered": True}],
        "flags": ["large", "dead letter", "expires"],
        "expires_at": "2023-11-14T22:13:20.001Z",
        "large_file": "00000000000000ab",
    }
    assert lines[4] == {"records": 5, "octets": octets, "durable": f"a:{offsets[4]}", "time": time}
    assert lines[5] == {"runs": [{"queue_id": 1, "first": 0, "length": 1}]}
    assert lines[6] == {"entries": [{"queue_id": 1, "offset": 1, "delivery_count": 3}]}
    assert lines[7] == {"queues": [{"queue_id": 1, "offset": 4096}]}
    assert lines[8] == {"segments": [5]}
    assert lines[9] == {"time": time}


def test_what_belongs_to_a_transaction_is_told(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(10)
    checkpoint = Checkpoint(0, [], (3, 4))
    journal.batch(
        (CHECKPOINT, encode_checkpoint(checkpoint)),
        (PART, encode_part(Part(4, [Run(1, 2, 3), Run(2, 0, 1)]))),
        (COMMIT, encode_items(TRANSACTION, [(3,), (4,)])),
    )
    _, first, part, commit = _dump(files)
    assert first["open_transactions"] == [3, 4]
    assert (part["kind"], part["transaction"]) == ("PART", 4)
    assert part["runs"] == [
        {"queue_id": 1, "first": 2, "length": 3},
        {"queue_id": 2, "first": 0, "length": 1},
    ]
    assert (commit["kind"], commit["transactions"]) == ("COMMIT", [3, 4])
    assert not verify(files, DIRECTORY).is_damaged


def test_producers_are_shown_with_their_sequences(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(10)
    sequences = [KeptSequence(b"orders", 7, TIME_MS), KeptSequence(b"\xff", 0, TIME_MS)]
    journal.batch((PRODUCERS, encode_producers(b"/", True, sequences)))
    _, producers = _dump(files)
    assert (producers["kind"], producers["vhost"], producers["whole"]) == ("PRODUCERS", "/", True)
    assert producers["producers"] == [
        {"id": "orders", "sequence": 7, "used": time_text(TIME_MS)},
        {"id": "\\xff", "sequence": 0, "used": time_text(TIME_MS)},
    ]
    assert not verify(files, DIRECTORY).is_damaged


def test_damaged_producers_may_send_twice(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    journal.begin(1)
    payload = encode_producers(b"/", False, [KeptSequence(b"orders", 7, TIME_MS)])
    position = journal.batch((PRODUCERS, payload), message((1, 0)))
    journal.batch(clean())
    journal.damage(1, offset_of(position) + BATCH_SIZE + RECORD_OVERHEAD + len(payload) - 9)
    report = verify(files, DIRECTORY)
    assert [(damage.kind, damage.is_exhaustive) for damage in report.damages] == [(PRODUCERS, True)]
    assert list(report.lines())[-1] == (
        "highest sequences of producers may be among what cannot be read: messages that these "
        "send again may be enqueued twice"
    )


def test_content_is_given_when_asked_for(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _everything(journal)
    contents = [line["content"] for line in _dump(files, with_content=True) if "content" in line]
    assert b64decode(str(contents[0])) == message_record((1, 0)).content
    assert len(contents) == 2


def test_words_have_a_line_for_each_record(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _everything(journal)
    lines = list(dump(files, DIRECTORY, Report(), as_json=False))
    assert len(lines) == 10
    assert lines[2].split(None, 2) == [
        f"a:{journal.tail.header.size_bytes + BATCH_SIZE + RECORD_OVERHEAD + 32}",
        "MESSAGE",
        'exchange="" routing_key="tasks" size=2 arrival="2023-11-14T22:13:20.000Z" '
        "entries=[queue_id=1 offset=0, queue_id=2 offset=5]",
    ]


def test_a_sound_journal_is_counted(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _everything(journal)
    report = verify(files, DIRECTORY)
    assert not report.is_damaged
    assert {KIND_NAMES[kind]: count for kind, count in report.kinds.items()} == {
        "MESSAGE": 2,
        **dict.fromkeys(("CHECKPOINT", "SETTLE", "RETURN", "COVER", "FREE", "CLEAN"), 1),
    }
    assert list(report.lines()) == [
        f"{journal.path(10)}: {journal.tail.end} of 8192 octets written",
        "2 batches with 8 records: 2 MESSAGE, 1 SETTLE, 1 RETURN, 1 COVER, 1 CLEAN, 1 CHECKPOINT, "
        "1 FREE",
        "no damage",
    ]


def test_a_torn_tail_is_no_damage(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _everything(journal)
    position = journal.batch(message((1, 2)))
    journal.damage(10, journal.tail.end - 1)
    report = verify(files, DIRECTORY)
    octets = journal.tail.end - offset_of(position)
    *_, torn, verdict = report.lines()
    assert torn == (
        f"{journal.path(10)}, offset {offset_of(position)}: torn tail of {octets} octets, which "
        "was never durable; the broker cuts it when it starts"
    )
    assert verdict == "no damage"
    assert not report.is_damaged


def test_damage_is_told_with_what_is_lost(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    journal.begin(1)
    first = journal.batch(*(message((1, n), (2, 9 + min(n, 2))) for n in range(4)))
    journal.batch(settle((1, 0, 1)))
    last = journal.batch(clean())
    octets = RECORD_OVERHEAD + len(message((1, 0), (2, 9))[1])
    for index in (0, 1, 3):
        start = offset_of(first) + BATCH_SIZE + index * octets
        journal.damage(1, start + octets - 1)
    journal.damage(1, offset_of(last) - 1)
    report = verify(files, DIRECTORY)
    assert report.is_damaged
    assert [damage.kind for damage in report.damages] == [MESSAGE, MESSAGE, MESSAGE, SETTLE]
    settled = RECORD_OVERHEAD + len(settle((1, 0, 1))[1])
    assert list(report.lines())[-4:] == [
        f"damaged in 4 places, {3 * octets + settled} octets cannot be read",
        "lost of queue id 1: 3 entries, offsets 0-1, 3",
        "lost of queue id 2: 3 entries, offsets 9-11",
        "records of settled messages may be among what cannot be read: such messages come back",
    ]


def test_a_record_that_is_none_despite_its_checksum_is_damage(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    journal.batch((SETTLE, b"short"), message((1, 0)))
    report = verify(files, DIRECTORY)
    assert report.is_damaged
    [(position, what)] = report.malformed
    assert what == "SETTLE record with 5 octets, items have 16"
    assert f"1:{offset_of(position)}: checksum is right, but {what}" in list(report.lines())
    again = Report()
    lines = [json.loads(line) for line in dump(files, DIRECTORY, again, as_json=True)]
    assert [line.get("malformed") for line in lines] == [None, what, None]
    assert again.is_damaged


def test_strays_are_named(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    journal.begin(1)
    journal.batch(message((1, 0)))
    journal.begin(2, without=[1])
    report = verify(files, DIRECTORY)
    assert report.strays == [journal.path(1)]
    assert any("not part of the journal any more" in line for line in report.lines())


def test_a_directory_is_a_journal_if_it_has_a_segment(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    files.put(f"{DIRECTORY}/spare-0000000000000001", b"")
    assert not is_journal(files, DIRECTORY)
    journal.begin(1)
    assert is_journal(files, DIRECTORY)


def test_a_time_that_is_none_is_a_number() -> None:
    assert time_text(1 << 63) == str(1 << 63)
    assert time_text(0) == "1970-01-01T00:00:00.000Z"


def test_what_a_repair_has_covered_is_shown(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    journal.begin(1)
    journal.batch(message((1, 0)), (GAP, b"whatever"), message((1, 1)))
    lines = list(dump(files, DIRECTORY, Report(), as_json=False))
    assert [line.split()[1] for line in lines] == ["BATCH", "MESSAGE", "GAP", "MESSAGE"]
    assert "records=3" in lines[0]
    assert lines[2].endswith("octets=8")
    assert verify(files, DIRECTORY).kinds == {MESSAGE: 2, GAP: 1}
