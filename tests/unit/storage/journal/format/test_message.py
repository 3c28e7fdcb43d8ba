"""A MESSAGE record comes back as it was written, or is malformed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.format.message import (
    DEAD_LETTER,
    FROM_DEFAULT,
    HAS_BLIND_KEYS,
    HAS_EXPIRY,
    LARGE,
    MOVED,
    Entry,
    MessageRecord,
    decode_entries,
    decode_message,
)
from tests.support.encoders import encode_message
from tests.support.segments import message_record

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
def test_a_message_comes_back(record: MessageRecord) -> None:
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
