"""A segment's header comes back whole, or is malformed."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.format.header import (
    SegmentHeader,
    UnsupportedVersion,
    decode_header,
    encode_header,
    header_size,
)
from hareline.storage.journal.format.positions import SEGMENT_NUMBER_MAX


@given(
    number=st.integers(1, SEGMENT_NUMBER_MAX),
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
    with pytest.raises(UnsupportedVersion, match="version 99; this build reads version 3") as info:
        decode_header(octets)
    assert info.value.version == 99
