"""Octets of the journal, held against the page that promises them."""

from __future__ import annotations

import re
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.storage.journal import format as journal_format
from hareline.storage.journal.format import (
    BATCH_SIZE,
    CHECKPOINT,
    CHECKPOINT_QUEUE,
    COVERED,
    DEAD_LETTER,
    ENTRY,
    FREED,
    FROM_DEFAULT,
    HAS_BLIND_KEYS,
    HAS_EXPIRY,
    KIND_AND_MESSAGE_HEAD,
    KIND_NAMES,
    LARGE,
    MESSAGE_HEAD,
    MOVED,
    RECORD_HEAD,
    RECORD_PREFIX,
    RETURNED,
    RUN,
    TRANSACTION,
    Batch,
    Checkpoint,
    CheckpointQueue,
    Cover,
    Entry,
    MalformedRecord,
    Part,
    Returned,
    Run,
    SegmentHeader,
    UnsupportedVersion,
    decode_batch,
    decode_checkpoint,
    decode_clean,
    decode_commit,
    decode_cover,
    decode_entries,
    decode_free,
    decode_header,
    decode_message,
    decode_part,
    decode_return,
    decode_settle,
    encode_batch,
    encode_checkpoint,
    encode_header,
    encode_items,
    encode_message,
    encode_part,
    encode_record,
    header_size,
    number_of_name,
    offset_of,
    position_of,
    seed_of,
    segment_name,
    segment_of,
)
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import SegmentWriter, message, message_record, settle

PAGE = Path(__file__).resolve().parents[4] / "docs" / "journal-format.md"


def test_the_example_of_the_page_is_what_is_written() -> None:
    page = PAGE.read_text(encoding="utf-8")
    example = page.partition("## Example")[2].partition("```\n")[2].partition("```")[0]
    promised = b""
    for line in example.splitlines():
        offset, octets = line[:4], line[6:30]
        assert int(offset, 16) == len(promised), line
        promised += bytes.fromhex(octets)
    files = ForgetfulFiles()
    journal = SegmentWriter(files)
    journal.begin(1, salt=0x01020304, size_bytes=4096)
    journal.batch((CHECKPOINT, encode_checkpoint(Checkpoint(0, []))), message((7, 0), (9, 41)))
    journal.batch(settle((7, 0, 1)))
    assert files.content(journal.path(1)) == promised.ljust(4096, b"\0")
    assert f"`{journal.tail.seed:08x}`" in page


def test_the_page_names_every_kind_by_its_number() -> None:
    page = PAGE.read_text(encoding="utf-8")
    kinds = dict(re.findall(r"^\| (\d+) \| ([A-Z]+) \|", page, re.MULTILINE))
    assert kinds == {str(number): name for number, name in KIND_NAMES.items()}


def test_the_page_names_every_flag_of_a_message() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("### MESSAGE")[2].partition("\n## ")[0]
    flags = [int(number) for number in re.findall(r"^\| (\d+) \| ", page, re.MULTILINE)]
    assert sum(flags) == journal_format.ALL_MESSAGE_FLAGS
    assert len(flags) == len(set(flags))


def test_sizes_that_the_page_says() -> None:
    assert ENTRY.size == 15
    assert header_size(3) - header_size(0) == 36
    assert KIND_AND_MESSAGE_HEAD.size == MESSAGE_HEAD.size + 1
    assert RECORD_HEAD.size == RECORD_PREFIX.size + 1
    assert len(encode_batch(Batch(1, 2, 3, 4, 5, 6), 0)) == BATCH_SIZE


def test_positions_grow_with_segments_and_offsets() -> None:
    assert position_of(2, 0) > position_of(1, (1 << 32) - 1) > position_of(1, 0) > 0
    assert (segment_of(position_of(5, 77)), offset_of(position_of(5, 77))) == (5, 77)
    assert position_of(journal_format.SEGMENT_NUMBER_MAX, (1 << 32) - 1) < 1 << 62


def test_names_of_segments() -> None:
    assert segment_name(0xAB) == "00000000000000ab.log"
    assert number_of_name("00000000000000ab.log") == 0xAB
    for name in ("ab.log", "00000000000000AB.log", "00000000000000ab", "00000000000000ab.log.gz"):
        assert number_of_name(name) is None


def test_checksums_begin_with_number_and_salt() -> None:
    seeds = {seed_of(1, 2), seed_of(1, 3), seed_of(2, 2)}
    assert len(seeds) == 3
    [head, one, two] = encode_record(3, (b"ab", b"c"), 7)
    length, checksum, kind = RECORD_HEAD.unpack(head)
    assert (length, kind, one + two) == (4, 3, b"abc")
    assert checksum == crc32(b"\x03abc", 7)


@given(
    number=st.integers(1, journal_format.SEGMENT_NUMBER_MAX),
    created_ms=st.integers(0, (1 << 64) - 1),
    salt=st.integers(0, (1 << 32) - 1),
    manifest=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, (1 << 32) - 1))),
    padding=st.integers(0, 50),
)
def test_a_header_comes_back(
    number: int, created_ms: int, salt: int, manifest: list[tuple[int, int]], padding: int
) -> None:
    size = header_size(len(manifest)) + padding
    header = SegmentHeader(number, created_ms, salt, tuple(manifest), size)
    octets = encode_header(header)
    assert len(octets) == size
    assert decode_header(octets) == header


def test_a_header_with_any_octet_wrong_is_malformed() -> None:
    octets = encode_header(SegmentHeader(3, 4, 5, ((1, 2), (2, 3)), header_size(2)))
    for index in range(len(octets)):
        wrong = bytearray(octets)
        wrong[index] ^= 0x10
        with pytest.raises(MalformedRecord):
            decode_header(bytes(wrong))
    for size in range(len(octets)):
        with pytest.raises(MalformedRecord):
            decode_header(octets[:size])


def test_a_header_that_does_not_fit_is_not_written() -> None:
    with pytest.raises(ValueError, match="header of 60 octets in 59"):
        encode_header(SegmentHeader(1, 2, 3, ((1, 2),), 59))


def test_a_header_that_says_it_is_shorter_than_it_is_is_malformed() -> None:
    octets = bytearray(encode_header(SegmentHeader(1, 2, 3, (), header_size(0))))
    octets[36:40] = (header_size(0) - 1).to_bytes(4, "little")
    octets[44:48] = crc32(octets[16:44]).to_bytes(4, "little")
    with pytest.raises(MalformedRecord, match="says it has 47 octets, it has 48"):
        decode_header(bytes(octets))


def test_another_version_is_refused_whatever_follows_its_front() -> None:
    front = bytearray(b"HARELINE\x63\x00\x00\x00")
    octets = bytes(front) + crc32(front).to_bytes(4, "little") + b"\xff" * 40
    with pytest.raises(
        UnsupportedVersion, match="version 99; this build reads version 1, 2"
    ) as info:
        decode_header(octets)
    assert info.value.version == 99


def test_a_batch_is_valid_under_its_seed_alone() -> None:
    batch = Batch(position_of(4, 100), 5, 6, 7, 8, 9)
    seed = seed_of(4, 7)
    octets = b"xx" + encode_batch(batch, seed)
    assert decode_batch(octets, 2, seed) == batch
    assert decode_batch(octets, 2, None) == batch
    assert decode_batch(memoryview(octets), 2, seed) == batch
    assert decode_batch(octets, 2, seed ^ 1) is None
    assert decode_batch(octets, 1, seed) is None
    assert decode_batch(octets[:-1], 2, seed) is None
    for index in range(2, len(octets)):
        wrong = bytearray(octets)
        wrong[index] ^= 1
        assert decode_batch(bytes(wrong), 2, seed) is None


FULL = message_record(
    (1, 2),
    (3, 1 << 40),
    flags=MOVED | DEAD_LETTER | FROM_DEFAULT | HAS_EXPIRY | HAS_BLIND_KEYS,
    body=b"x" * 300,
    expires_at_ms=1234,
    history_size=77,
    blind_keys=(b"", b"k" * 255),
)


@pytest.mark.parametrize(
    "record",
    [
        message_record((1, 0)),
        message_record((1, 0), body=b""),
        FULL,
        FULL._replace(entries=[]),
        FULL._replace(entries=[Entry(1, 2, 65535, 1)]),
    ],
)
def test_a_message_comes_back(record: journal_format.MessageRecord) -> None:
    payload = b"".join(encode_message(record))
    assert decode_message(payload) == record
    assert decode_message(memoryview(payload)) == record
    assert decode_entries(memoryview(payload)) == record.entries


def test_a_large_message_has_its_header_frame_alone() -> None:
    record = message_record((1, 0), flags=LARGE, body=b"x" * 50, large_id=99)
    record = record._replace(content=record.content[: record.header_size])
    assert decode_message(b"".join(encode_message(record))) == record


def test_a_delivery_count_beyond_what_fits_is_the_highest() -> None:
    record = message_record((1, 0))._replace(entries=[Entry(1, 0, 70_000, 0)])
    assert decode_message(b"".join(encode_message(record))).entries == [Entry(1, 0, 65_535, 0)]


def test_a_message_cut_anywhere_is_malformed() -> None:
    payload = b"".join(encode_message(FULL))
    for size in range(len(payload)):
        with pytest.raises(MalformedRecord):
            decode_message(payload[:size])
    with pytest.raises(MalformedRecord, match="octets for"):
        decode_message(payload + b"x")


@given(octets=st.binary(max_size=200))
def test_octets_that_are_no_message_are_malformed_or_one(octets: bytes) -> None:
    try:
        record = decode_message(octets)
    except MalformedRecord:
        return
    assert b"".join(encode_message(record)) == octets


def test_a_message_with_an_unknown_flag_is_malformed() -> None:
    payload = bytearray(b"".join(encode_message(message_record((1, 0)))))
    payload[0] |= 64
    with pytest.raises(MalformedRecord, match="unknown flags 0x40"):
        decode_message(bytes(payload))


def test_items_come_back() -> None:
    assert decode_settle(encode_items(RUN, [(1, 2, 3), (4, 5, 6)])) == [Run(1, 2, 3), Run(4, 5, 6)]
    assert decode_return(encode_items(RETURNED, [(1, 2, 3)])) == [Returned(1, 2, 3)]
    assert decode_cover(encode_items(COVERED, [(1, 2)])) == [Cover(1, 2)]
    assert decode_free(encode_items(FREED, [(1,), (9,)])) == [1, 9]
    assert decode_commit(encode_items(TRANSACTION, [(1,), (9,)])) == [1, 9]
    assert decode_clean((77).to_bytes(8, "little")) == 77


def test_a_part_comes_back() -> None:
    part = Part(7, [Run(1, 2, 3), Run(4, 5, 6)])
    octets = encode_part(part)
    assert decode_part(octets) == part
    for size in (0, 7, 8, len(octets) - 1):
        with pytest.raises(MalformedRecord, match="PART"):
            decode_part(octets[:size])


@pytest.mark.parametrize("transactions", [(), (1, 1 << 40)])
def test_a_checkpoint_comes_back(transactions: tuple[int, ...]) -> None:
    queues = [CheckpointQueue(1, 2, 3), CheckpointQueue(4, 5, 6)]
    checkpoint = Checkpoint(5, queues, transactions)
    octets = encode_checkpoint(checkpoint)
    assert decode_checkpoint(octets) == checkpoint
    least = len(encode_checkpoint(Checkpoint(5, queues)))
    for size in (0, 5, len(octets) - 1, least - 1, least - CHECKPOINT_QUEUE.size):
        with pytest.raises(MalformedRecord):
            decode_checkpoint(octets[:size])


@pytest.mark.parametrize(
    "decode", [decode_settle, decode_return, decode_cover, decode_free, decode_commit]
)
@pytest.mark.parametrize("octets", [b"", b"x" * 5, b"x" * 17])
def test_items_that_are_not_whole_are_malformed(decode: type[object], octets: bytes) -> None:
    with pytest.raises(MalformedRecord, match="octets"):
        decode(octets)  # type: ignore[call-arg]


def test_clean_has_a_time() -> None:
    with pytest.raises(MalformedRecord):
        decode_clean(b"")
