"""The header of a segment: version, number, seed, and the manifest of those before it.

Read first of all: a segment of a version that this build does not read raises UnsupportedVersion,
and no other octet of it is looked at. The front, up to the version and its checksum, is the same in
every version.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final
from zlib import crc32

from hareline.errors import StoreError
from hareline.storage.journal.format.frame import MalformedRecord, seed_of

VERSION: Final = 3

SEGMENT_MAGIC: Final = b"HARELINE"
# A segment's front is the same in every version: magic, version, zero, checksum of these.
_FRONT: Final = Struct("<8sHHI")
FRONT_SIZE: Final = _FRONT.size
# number, created_ms, salt, header size, count of the manifest
_HEADER: Final = Struct("<QQIII")
_MANIFEST_ITEM: Final = Struct("<QI")  # segment number, its end
_CRC: Final = Struct("<I")


class UnsupportedVersion(StoreError):
    """A segment of a version that this build does not read; the checksum of the version matches."""

    def __init__(self, version: int) -> None:
        super().__init__(f"journal format version {version}; this build reads version {VERSION}")
        self.version = version


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Facts that a segment states of itself.

    ``manifest``: number and end of each segment that was live when this one was begun, ascending,
    all below its own number. ``size_bytes``: where the first batch stands.
    """

    number: int
    created_ms: int
    salt: int
    manifest: tuple[tuple[int, int], ...]
    size_bytes: int

    @property
    def seed(self) -> int:
        """Seed of the checksums of the segment's records."""
        return seed_of(self.number, self.salt)


def encode_header(header: SegmentHeader) -> bytes:
    """Return the header as ``size_bytes`` octets, the last ones zero if it needs less."""
    front = _FRONT.pack(SEGMENT_MAGIC, VERSION, 0, 0)[: FRONT_SIZE - _CRC.size]
    rest = b"".join(
        (
            _HEADER.pack(
                header.number,
                header.created_ms,
                header.salt,
                header.size_bytes,
                len(header.manifest),
            ),
            *(_MANIFEST_ITEM.pack(*item) for item in header.manifest),
        )
    )
    octets = front + _CRC.pack(crc32(front)) + rest + _CRC.pack(crc32(rest))
    if len(octets) > header.size_bytes:
        raise ValueError(f"header of {len(octets)} octets in {header.size_bytes}")
    return octets.ljust(header.size_bytes, b"\0")


def header_size(live_segments: int) -> int:
    """Return the octets of a header with this many segments in its manifest."""
    return FRONT_SIZE + _HEADER.size + live_segments * _MANIFEST_ITEM.size + _CRC.size


HEADER_SIZE_MIN: Final = header_size(0)


def header_octets_needed(octets: bytes) -> int:
    """Return how many octets ``decode_header`` needs, from the first ``HEADER_SIZE_MIN``.

    Raises MalformedRecord and UnsupportedVersion.
    """
    _check_front(octets)
    *_, count = _HEADER.unpack_from(octets, FRONT_SIZE)
    return header_size(count)


def decode_header(octets: bytes) -> SegmentHeader:
    """Return the header. Raises MalformedRecord and UnsupportedVersion."""
    needed = header_octets_needed(octets)
    if len(octets) < needed:
        raise MalformedRecord(f"segment header of {needed} octets, but only {len(octets)} there")
    number, created_ms, salt, size_bytes, count = _HEADER.unpack_from(octets, FRONT_SIZE)
    end = needed - _CRC.size
    if crc32(octets[FRONT_SIZE:end]) != _CRC.unpack_from(octets, end)[0]:
        raise MalformedRecord("checksum of the segment header does not match")
    start = FRONT_SIZE + _HEADER.size
    items = _MANIFEST_ITEM.iter_unpack(octets[start : start + count * _MANIFEST_ITEM.size])
    manifest = tuple((number, end) for number, end in items)
    if size_bytes < needed:
        raise MalformedRecord(f"segment header says it has {size_bytes} octets, it has {needed}")
    return SegmentHeader(number, created_ms, salt, manifest, size_bytes)


def _check_front(octets: bytes) -> None:
    if len(octets) < HEADER_SIZE_MIN:
        raise MalformedRecord(f"{len(octets)} octets are too few for a segment header")
    magic, version, _, checksum = _FRONT.unpack_from(octets)
    if magic != SEGMENT_MAGIC:
        raise MalformedRecord("does not begin with the octets HARELINE")
    if crc32(octets[: FRONT_SIZE - _CRC.size]) != checksum:
        raise MalformedRecord("checksum of the version does not match")
    if version != VERSION:
        raise UnsupportedVersion(version)
