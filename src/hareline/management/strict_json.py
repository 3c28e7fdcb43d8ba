"""JSON for every answer over HTTP, of values that JSON does not have too.

Used by ``management.api.answers`` and by all that writes JSON piece by piece.

Invariant: what comes out is UTF-8 that a strict reader takes, whatever octets a client has put into
a name, an argument or a header.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import orjson

from hareline.octets import readable, readable_octets, with_texts


def encoded(data: object) -> bytes:
    """These data as JSON. Octets, times and numbers that JSON does not have are translated.

    Text that is not UTF-8 has RabbitMQ's form (``octets.readable``).
    """
    try:
        return orjson.dumps(data, _plain)
    except TypeError:  # text with octets that are not UTF-8, or a number beyond 64 bits
        plain = _finite(with_texts(data, readable))
        return json.dumps(plain, default=_plain, separators=(",", ":")).encode("ascii")


def _plain(value: object) -> object:
    """What stands in JSON for a value of a field table that JSON does not have."""
    if isinstance(value, bytes | bytearray | memoryview):
        return readable_octets(bytes(value))
    if isinstance(value, float):
        return float(value)  # of a class of our own
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _finite(value: object) -> object:
    """The value with null for every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value
