"""Chunks: how the messages of a stream go to bulk readers, many at a time, in columns.

The body of an answer to ``GET /api/stream/{vhost}/{queue}/range`` is chunks, one after the other;
if the broker cannot go on, the last thing in it is an error. The broker writes them, the Spark
source reads them. The layout:

===============  ==================================================================================
octets           chunk; all numbers little-endian
===============  ==================================================================================
4                magic, ``HSC1``
u32              count: how many messages
u64              offset of the first; the others follow without a gap
u64              metas size: octets of all metas
u64              bodies size: octets of all bodies
u32              checksum of the columns, CRC-32 as in zlib
u32              checksum of the 36 octets before
---------------  ----------------------------------------------------------------------------------
u64 * count      arrivals, epoch microseconds
u32 * count      size of each meta
u32 * count      size of each body
metas size       metas: short string exchange, short string routing key, property flags and list
bodies size      bodies
===============  ==================================================================================

An error is the magic ``HSCE``, u32 size, and that many octets of JSON: ``error`` (a word),
``reason`` (a sentence) and ``offset`` (of the message that cannot be sent).

Invariant: pure; columns are aligned to 8 octets if the chunk is, so a reader need not copy them.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from hareline.errors import HarelineError

CONTENT_TYPE: Final = "application/x-hareline-chunks"
#: Header of answers about streams, but ranges: the server property ``broker_id`` of its broker.
BROKER_HEADER: Final = "hareline-broker"
HEADER_SIZE: Final = 40
ERROR_HEAD_SIZE: Final = 8
#: Octets of columns that each message adds to a chunk, beside its meta and its body.
FIXED_SIZE: Final = 16

_MAGIC: Final = b"HSC1"
_ERROR_MAGIC: Final = b"HSCE"
_FRONT: Final = struct.Struct("<4sIQQQI")
_CHECKSUM: Final = struct.Struct("<I")
_ERROR_HEAD: Final = struct.Struct("<4sI")
_IS_BIG_ENDIAN: Final = sys.byteorder == "big"


class MalformedChunk(HarelineError):
    """Octets that are no chunk; the text says what is wrong with them."""


@dataclass(frozen=True, slots=True)
class ChunkHeader:
    """Content of a chunk of ``count`` messages from ``first_offset`` on. Sizes are in octets."""

    first_offset: int
    count: int
    metas_size: int
    bodies_size: int
    checksum: int

    @property
    def columns_size(self) -> int:
        """Number of octets after the header."""
        return self.count * FIXED_SIZE + self.metas_size + self.bodies_size


class ChunkError(NamedTuple):
    """Reason of the broker to stop: a word, a sentence, and the offset of a message or None."""

    error: str
    reason: str
    offset: int | None


def encode_chunk(
    first_offset: int,
    arrivals_us: array[int],
    metas: Sequence[bytes],
    bodies: Sequence[bytes | memoryview],
) -> list[bytes | memoryview]:
    """A chunk in pieces, header first, for one write of them all.

    ``arrivals_us``: an array of type ``Q``. Each column has an item for each message.
    """
    count = len(metas)
    if len(arrivals_us) != count or len(bodies) != count:
        raise ValueError(f"{len(arrivals_us)} arrivals, {count} metas, {len(bodies)} bodies")
    meta_sizes = array("I", map(len, metas))
    body_sizes = array("I", map(len, bodies))
    if _IS_BIG_ENDIAN:
        arrivals_us = array("Q", arrivals_us)
        for numbers in (arrivals_us, meta_sizes, body_sizes):
            numbers.byteswap()
    columns = (
        arrivals_us.tobytes(),
        meta_sizes.tobytes(),
        body_sizes.tobytes(),
        b"".join(metas),
        b"".join(bodies),
    )
    checksum = 0
    for column in columns:
        checksum = crc32(column, checksum)
    header = ChunkHeader(first_offset, count, len(columns[3]), len(columns[4]), checksum)
    return [encode_header(header), *columns]


def encode_header(header: ChunkHeader) -> bytes:
    """The first ``HEADER_SIZE`` octets of a chunk, for one whose columns are written in pieces."""
    front = _FRONT.pack(
        _MAGIC,
        header.count,
        header.first_offset,
        header.metas_size,
        header.bodies_size,
        header.checksum,
    )
    return front + _CHECKSUM.pack(crc32(front))


def encode_error(error: str, reason: str, offset: int | None = None) -> bytes:
    """The end of an answer that cannot go on."""
    text = json.dumps({"error": error, "reason": reason, "offset": offset}).encode()
    return _ERROR_HEAD.pack(_ERROR_MAGIC, len(text)) + text


def error_size(octets: bytes) -> int | None:
    """The octets behind the head of an error; None if this is no error but perhaps a chunk.

    ``octets``: the first ``ERROR_HEAD_SIZE`` of what comes next. Raises MalformedChunk.
    """
    if len(octets) < ERROR_HEAD_SIZE:
        raise MalformedChunk(f"ends after {len(octets)} octets of a header")
    magic, size = _ERROR_HEAD.unpack_from(octets)
    return int(size) if magic == _ERROR_MAGIC else None


def decode_error(octets: bytes) -> ChunkError:
    """The error in these octets, its head not among them. Raises MalformedChunk."""
    try:
        fields = json.loads(octets)
        return ChunkError(str(fields["error"]), str(fields["reason"]), fields["offset"])
    except (ValueError, KeyError, TypeError):
        raise MalformedChunk("the error that ends the answer is not the JSON of one") from None


def decode_header(octets: bytes) -> ChunkHeader:
    """The header in the first ``HEADER_SIZE`` octets. Raises MalformedChunk."""
    if len(octets) < HEADER_SIZE:
        raise MalformedChunk(f"ends after {len(octets)} octets of a header")
    magic, count, first_offset, metas_size, bodies_size, checksum = _FRONT.unpack_from(octets)
    if magic != _MAGIC:
        raise MalformedChunk(f"begins with {bytes(octets[:4])!r} and not with {_MAGIC!r}")
    if _CHECKSUM.unpack_from(octets, _FRONT.size)[0] != crc32(octets[: _FRONT.size]):
        raise MalformedChunk("the checksum of its header is wrong")
    return ChunkHeader(first_offset, count, metas_size, bodies_size, checksum)


def check_columns(header: ChunkHeader, columns: bytes | bytearray | memoryview) -> None:
    """Raises MalformedChunk unless these are the octets behind this header."""
    if len(columns) != header.columns_size:
        raise MalformedChunk(f"has {len(columns)} octets of columns and not {header.columns_size}")
    if crc32(columns) != header.checksum:
        raise MalformedChunk("the checksum of its columns is wrong")
