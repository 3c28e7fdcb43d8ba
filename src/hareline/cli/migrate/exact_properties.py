"""Properties of messages as the octets that came, so that they go on as they were.

pika would decode headers to Python's types and encode them to others. Invariant: what was read is
written octet by octet, but for the offset that a broker adds to what it reads from a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

OFFSET_HEADER: Final = b"x-stream-offset"
_CONTENT_TYPE: Final = 1 << 15
_CONTENT_ENCODING: Final = 1 << 14
_HEADERS: Final = 1 << 13
#: Letter of a type in a table -> octets of its value; of the others a length comes first.
_SIZES: Final = {
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"sUu", 2),
    **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"lLdT", 8),
    ord("D"): 5,
    ord("V"): 0,
}
_INTEGERS: Final = frozenset(b"bBsUuIilLT")


@cache
def _exact_class() -> Any:
    import pika.spec

    class ExactProperties(pika.spec.BasicProperties):  # type: ignore[misc]
        octets = b""

        def decode(self, encoded: bytes, offset: int = 0) -> Any:
            self.octets = bytes(encoded[offset:])
            return self

        def encode(self) -> list[bytes]:
            return [self.octets]

    return ExactProperties


def properties_of_octets(octets: bytes) -> Any:
    """Properties for pika that are encoded already."""
    properties = _exact_class()()
    properties.octets = octets
    return properties


@contextmanager
def exact_properties() -> Iterator[None]:
    """Have pika hand properties on as their octets, ``properties.octets``, while the block runs."""
    import pika.spec

    index = pika.spec.BasicProperties.INDEX
    before = pika.spec.props[index]
    pika.spec.props[index] = _exact_class()
    try:
        yield
    finally:
        pika.spec.props[index] = before


def taken_offset(octets: bytes) -> tuple[int, bytes]:
    """The offset in a stream, and the properties without it. Raises ValueError if there is none."""
    flags = int.from_bytes(octets[:2], "big")
    at = 2
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            at += 1 + octets[at]
    if not flags & _HEADERS:
        raise ValueError("a message of a stream came without its offset")
    begin, end = at + 4, at + 4 + int.from_bytes(octets[at : at + 4], "big")
    place = begin
    while place < end:
        name = octets[place + 1 : place + 1 + octets[place]]
        value = place + 1 + octets[place]  # the letter of its type
        following = _end_of_value(octets, value)
        if name == OFFSET_HEADER and octets[value] in _INTEGERS:
            offset = int.from_bytes(octets[value + 1 : following], "big", signed=True)
            rest = octets[begin:place] + octets[following:end]
            return offset, _with_table(octets, flags, at, end, rest)
        place = following
    raise ValueError("a message of a stream came without its offset")


def _end_of_value(octets: bytes, at: int) -> int:
    size = _SIZES.get(octets[at])
    if size is not None:
        return at + 1 + size
    return at + 5 + int.from_bytes(octets[at + 1 : at + 5], "big")


def _with_table(octets: bytes, flags: int, begin: int, end: int, table: bytes) -> bytes:
    """The properties with another table of headers, and without any if it is empty."""
    if not table:
        return (flags & ~_HEADERS).to_bytes(2, "big") + octets[2:begin] + octets[end:]
    return octets[:begin] + len(table).to_bytes(4, "big") + table + octets[end:]
