"""Chunks say what was put into them, and anything else is refused with what is wrong."""

from __future__ import annotations

import re
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.wire.stream_chunks import (
    ERROR_HEAD_SIZE,
    HEADER_SIZE,
    ChunkError,
    ChunkHeader,
    MalformedChunk,
    check_columns,
    decode_error,
    decode_header,
    encode_chunk,
    encode_error,
    encode_header,
    error_size,
)

U64_MAX = (1 << 64) - 1
rows = st.lists(
    st.tuples(st.integers(0, U64_MAX), st.binary(max_size=40), st.binary(max_size=200)), max_size=20
)


@given(first_offset=st.integers(0, U64_MAX), messages=rows)
def test_columns_are_where_the_header_says(
    first_offset: int, messages: list[tuple[int, bytes, bytes]]
) -> None:
    arrivals = array("Q", [arrival for arrival, _, _ in messages])
    metas = [meta for _, meta, _ in messages]
    bodies = [body for _, _, body in messages]
    octets = b"".join(encode_chunk(first_offset, arrivals, metas, bodies))
    header = decode_header(octets)
    columns = octets[HEADER_SIZE:]
    check_columns(header, columns)
    count = len(messages)
    assert (header.first_offset, header.count) == (first_offset, count)
    assert columns[: 8 * count] == arrivals.tobytes()
    assert list(memoryview(columns[8 * count : 12 * count]).cast("I")) == [*map(len, metas)]
    assert list(memoryview(columns[12 * count : 16 * count]).cast("I")) == [*map(len, bodies)]
    assert columns[16 * count :] == b"".join(metas) + b"".join(bodies)


def test_the_layout_is_that_of_the_page() -> None:
    octets = b"".join(encode_chunk(258, array("Q", [5]), [b"\0\0\0\0"], [b"hi"]))
    assert octets[:4] == b"HSC1"
    assert octets[4:8] == (1).to_bytes(4, "little")
    assert octets[8:16] == (258).to_bytes(8, "little")
    assert octets[16:24] == (4).to_bytes(8, "little")
    assert octets[24:32] == (2).to_bytes(8, "little")
    assert octets[40:] == (5).to_bytes(8, "little") + b"\4\0\0\0" + b"\2\0\0\0" + b"\0\0\0\0hi"


@pytest.mark.parametrize("at", range(HEADER_SIZE))
def test_each_octet_of_the_header_is_checked(at: int) -> None:
    octets = bytearray(b"".join(encode_chunk(1, array("Q", [5]), [b"\0\0"], [b"hi"])))
    octets[at] ^= 1
    with pytest.raises(MalformedChunk):
        decode_header(bytes(octets))


def test_each_octet_of_the_columns_is_checked() -> None:
    octets = b"".join(encode_chunk(1, array("Q", [5]), [b"\0\0"], [b"hi"]))
    header = decode_header(octets)
    for at in range(header.columns_size):
        columns = bytearray(octets[HEADER_SIZE:])
        columns[at] ^= 0x80
        with pytest.raises(MalformedChunk, match="checksum of its columns"):
            check_columns(header, columns)
    with pytest.raises(MalformedChunk, match="20 octets of columns and not 19"):
        check_columns(ChunkHeader(1, 1, 1, 2, 0), octets[HEADER_SIZE:])


def test_short_octets_are_no_header() -> None:
    with pytest.raises(MalformedChunk, match="ends after 7 octets"):
        error_size(b"HSC1\0\0\0")
    with pytest.raises(MalformedChunk, match="ends after 39 octets"):
        decode_header(bytes(39))


def test_columns_of_different_lengths_are_not_encoded() -> None:
    with pytest.raises(ValueError, match="1 arrivals, 2 metas, 2 bodies"):
        encode_chunk(0, array("Q", [1]), [b"", b""], [b"", b""])


def test_an_error_ends_an_answer() -> None:
    octets = encode_error("unreadable", "the record is damaged", 7)
    size = error_size(octets[:ERROR_HEAD_SIZE])
    assert size == len(octets) - ERROR_HEAD_SIZE
    assert decode_error(octets[ERROR_HEAD_SIZE:]) == ChunkError(
        "unreadable", "the record is damaged", 7
    )
    assert error_size(b"".join(encode_chunk(1, array("Q"), [], []))) is None


@pytest.mark.parametrize("octets", [b"", b"[]", b'{"error": "x"}', b"\xff"])
def test_json_that_is_no_error_is_refused(octets: bytes) -> None:
    with pytest.raises(MalformedChunk):
        decode_error(octets)


def test_the_page_shows_a_chunk_octet_for_octet() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "streams-over-http.md"
    (shown,) = re.findall(r"```\n(48 53 43 31.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    chunk = encode_chunk(
        7,
        array("Q", [0x6_0000_0000_0000, 0x6_0000_0000_03E8]),
        [b"\0\1q\0\0", b"\0\1q\x80\0\3a/b"],
        [b"one", b"three"],
    )
    assert bytes.fromhex(shown) == b"".join(chunk)


def test_a_header_by_itself_is_that_of_the_chunk() -> None:
    octets = b"".join(encode_chunk(3, array("Q", [1]), [b"meta"], [b"body"]))
    assert encode_header(decode_header(octets)) == octets[:HEADER_SIZE]
