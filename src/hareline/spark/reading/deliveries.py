"""Deliveries of a stream's consumer, and how they become chunks as range reads give them.

``amqp_session`` makes deliveries of frames, ``amqp_client`` chunks of deliveries. A message is the
same octets in a chunk whichever way it came: the header ``x-stream-offset``, which the broker puts
into what consumers get, is taken out. No arrival comes with a delivery, so that column is zeros.
Invariant: the messages of a chunk have offsets without a gap.
"""

from __future__ import annotations

from array import array
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from hareline.errors import MalformedFrame
from hareline.spark.reading.access import Chunk
from hareline.wire import constants
from hareline.wire.stream_chunks import ChunkHeader
from hareline.wire.table import FIXED_SIZES

#: A chunk is given out when it has this many messages, or octets of bodies.
ROWS_MAX: Final = 10_000
OCTETS_MAX: Final = 8 << 20

_OFFSET_HEADER: Final = b"x-stream-offset"
_INTEGERS: Final = frozenset(map(ord, "lLIi"))
_SIZED: Final = frozenset(map(ord, "SxFA"))  # four octets of size in front
_SIZE: Final = Struct(">I")
_CONTENT_TYPE: Final = constants.FLAG_CONTENT_TYPE >> 8
_CONTENT_ENCODING: Final = constants.FLAG_CONTENT_ENCODING >> 8
_HEADERS: Final = constants.FLAG_HEADERS >> 8


class Delivery(NamedTuple):
    """A message with its place; ``meta``: as in ``wire.stream_chunks``. All are octets."""

    tag: int
    #: None if the broker did not say: the queue is not a stream.
    offset: int | None
    meta: bytes
    size: int
    #: Empty if the consumer does not ask for bodies.
    body: bytes


def take_offset(properties: bytes) -> tuple[int | None, bytes]:
    """The offset in these property octets, and the octets without it.

    A headers table that is empty then goes as a whole. Raises MalformedFrame.
    """
    try:
        first = properties[0]
        if not first & _HEADERS:
            return None, properties
        size_at = 2
        if first & _CONTENT_TYPE:
            size_at += 1 + properties[size_at]
        if first & _CONTENT_ENCODING:
            size_at += 1 + properties[size_at]
        start = at = size_at + 4
        table_end = start + _SIZE.unpack_from(properties, size_at)[0]
        while at < table_end:
            kind_at = at + 1 + properties[at]
            kind = properties[kind_at]
            if kind in _SIZED:
                end = kind_at + 5 + _SIZE.unpack_from(properties, kind_at + 1)[0]
            else:
                end = kind_at + 1 + FIXED_SIZES[kind]
            if kind in _INTEGERS and properties[at + 1 : kind_at] == _OFFSET_HEADER:
                offset = int.from_bytes(properties[kind_at + 1 : end], "big", signed=True)
                left = table_end - start - (end - at)
                if left == 0:
                    flags = bytes((first & ~_HEADERS,))
                    return offset, flags + properties[1:size_at] + properties[table_end:]
                before = properties[:size_at] + _SIZE.pack(left) + properties[start:at]
                return offset, before + properties[end:]
            at = end
    except (IndexError, KeyError, struct_error):
        raise MalformedFrame("the headers of a delivery are not a table") from None
    return None, properties


class ChunkRows:
    """Gathers the messages of the next chunk; offsets go up by one from where it begins."""

    def __init__(self, first_offset: int) -> None:
        self._first_offset = first_offset
        self._metas: list[bytes] = []
        self._bodies: list[bytes] = []
        self._octets = 0

    def __len__(self) -> int:
        return len(self._metas)

    @property
    def is_full(self) -> bool:
        """True once it is to be given out."""
        return len(self._metas) >= ROWS_MAX or self._octets >= OCTETS_MAX

    def add(self, delivery: Delivery) -> None:
        """Append the message of the next offset."""
        self._metas.append(delivery.meta)
        self._bodies.append(delivery.body)
        self._octets += delivery.size + len(delivery.meta)

    def take(self, next_offset: int) -> Chunk:
        """What was gathered, as a chunk; the next one begins at ``next_offset``."""
        metas, bodies = self._metas, self._bodies
        count = len(metas)
        columns = bytearray(8 * count)  # no arrivals
        columns += array("I", map(len, metas)).tobytes()
        columns += array("I", map(len, bodies)).tobytes()
        metas_size = sum(map(len, metas))
        columns += b"".join(metas)
        columns += b"".join(bodies)
        header = ChunkHeader(
            self._first_offset, count, metas_size, len(columns) - 16 * count - metas_size, 0
        )
        self._first_offset = next_offset
        self._metas, self._bodies, self._octets = [], [], 0
        return Chunk(header, columns)
