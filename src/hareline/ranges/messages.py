"""Messages of the broker and its reader process to each other, over one socket.

Each message is a length, a kind and a payload. The broker names each answer by a number of its own;
with ``BEGIN`` goes the socket of the client, as a file descriptor.

==========  =================================================================================
broker      ``BEGIN`` an answer to this client; ``BUILD`` a chunk of these places and write it;
            ``END`` with these octets, which may be none; ``CANCEL``: leave the client alone
reader      ``BUILT``: so many messages are in the chunk, no file is read any more; ``SENT``: the
            client's socket has taken all there was; ``GONE``: the client takes nothing more
==========  =================================================================================

After ``BUILD`` come ``BUILT`` and ``SENT``, after ``END`` comes ``SENT``, and instead of any of
them ``GONE``; nothing follows that or the ``SENT`` of an ``END``.

Invariant: pure; both ends read by the same ``Inbox``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

BEGIN: Final = 1
BUILD: Final = 2
END: Final = 3
CANCEL: Final = 4
BUILT: Final = 5
SENT: Final = 6
GONE: Final = 7

_HEAD: Final = Struct("<IBI")  # octets of the payload, kind, answer
_BUILD: Final = Struct("<QI")  # first offset, octets that the chunk may have
_BUILT: Final = Struct("<IQ")  # messages, octets of the chunk


class Envelope(NamedTuple):
    """One message as it came. ``number``: of the answer that it concerns."""

    kind: int
    number: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Build:
    """A chunk to build: the messages at these places, the first of them with ``first_offset``.

    ``limit_bytes``: the chunk ends before the message that would make it longer, but has one.
    """

    first_offset: int
    limit_bytes: int
    places: array[int]


@dataclass(frozen=True, slots=True)
class Built:
    """``count`` messages are in the chunk, ``size_bytes`` long; 0: there is none.

    ``problem``: why the message behind them cannot be read; empty if the chunk was full, or has
    all that were asked for.
    """

    count: int
    size_bytes: int
    problem: str


class Inbox:
    """Cuts what comes into messages."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def feed(self, octets: bytes) -> Iterator[Envelope]:
        """Yield the messages that are complete with these octets."""
        inbox = self._octets
        inbox += octets
        while len(inbox) >= _HEAD.size:
            size, kind, number = _HEAD.unpack_from(inbox)
            end = _HEAD.size + size
            if end > len(inbox):
                return
            payload = bytes(inbox[_HEAD.size : end])
            del inbox[:end]
            yield Envelope(kind, number, payload)


def encode(kind: int, number: int, payload: bytes = b"") -> bytes:
    """The octets of a message."""
    return _HEAD.pack(len(payload), kind, number) + payload


def encode_build(number: int, build: Build) -> bytes:
    """The octets of ``BUILD``."""
    head = _BUILD.pack(build.first_offset, build.limit_bytes)
    return encode(BUILD, number, head + build.places.tobytes())


def decode_build(payload: bytes) -> Build:
    """Parts of a ``BUILD``."""
    places = array("Q")
    places.frombytes(payload[_BUILD.size :])
    first_offset, limit_bytes = _BUILD.unpack_from(payload)
    return Build(first_offset, limit_bytes, places)


def encode_built(number: int, built: Built) -> bytes:
    """The octets of ``BUILT``."""
    head = _BUILT.pack(built.count, built.size_bytes)
    return encode(BUILT, number, head + built.problem.encode())


def decode_built(payload: bytes) -> Built:
    """Parts of a ``BUILT``."""
    count, size_bytes = _BUILT.unpack_from(payload)
    return Built(count, size_bytes, payload[_BUILT.size :].decode())
