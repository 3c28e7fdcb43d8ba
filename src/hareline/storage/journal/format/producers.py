"""The PRODUCERS record: the highest sequences of the producers of one virtual host.

Each segment begins with a whole list for each virtual host, behind its CHECKPOINT; a batch with
messages that moved a sequence has a list of what changed. ``storage.store.sequences`` packs items
itself, by the Struct object, as there may be ten thousands of them.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final, NamedTuple

from hareline.storage.journal.format.frame import MalformedRecord

WHOLE: Final = 1  # flag of a list: producers that are not in it are forgotten

_FLAGS: Final = Struct("<B")
SEQUENCE: Final = Struct("<QQB")  # sequence, time, octets of the id that follows


class KeptSequence(NamedTuple):
    """``sequence``: the highest of a producer. ``used_ms``: when it was last accepted from."""

    producer_id: bytes
    sequence: int
    used_ms: int


class Producers(NamedTuple):
    """``is_whole``: producers of the virtual host that are not listed are forgotten."""

    vhost: bytes
    is_whole: bool
    sequences: list[KeptSequence]


def producers_head(vhost: bytes, is_whole: bool) -> bytes:
    """Return what a payload begins with, in front of the items."""
    return _FLAGS.pack(WHOLE if is_whole else 0) + bytes((len(vhost),)) + vhost


def decode_producers(payload: bytes | memoryview) -> Producers:
    """Return the virtual host and the sequences of its producers. Raises MalformedRecord."""
    try:
        (flags,) = _FLAGS.unpack_from(payload)
        at = 2 + payload[1]
        if flags & ~WHOLE:
            raise MalformedRecord(f"PRODUCERS record with unknown flags {flags:#x}")
        vhost = bytes(payload[2:at])
        sequences = []
        while at < len(payload):
            sequence, used_ms, size = SEQUENCE.unpack_from(payload, at)
            at += SEQUENCE.size
            sequences.append(KeptSequence(bytes(payload[at : at + size]), sequence, used_ms))
            at += size
    except (struct.error, IndexError):
        raise MalformedRecord("PRODUCERS record is too short") from None
    if at != len(payload) or not sequences:
        raise MalformedRecord(
            f"PRODUCERS record of {len(sequences)} producers with {len(payload)} octets"
        )
    return Producers(vhost, bool(flags & WHOLE), sequences)
