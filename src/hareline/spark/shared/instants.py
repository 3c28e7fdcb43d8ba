"""Instants as users write them: ISO 8601 with a zone, or epoch milliseconds.

The options of a read and the arguments of ``hareline spark`` take the same texts.
"""

from __future__ import annotations

import datetime
from typing import Final

FORMS: Final = "ISO 8601 with a zone (2026-01-05T10:00:00Z) or epoch milliseconds"
_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)


def microseconds_of(text: str) -> int:
    """Microseconds since 1970. Raises ValueError for a text of another form, or from before."""
    if text.isascii() and text.isdecimal():
        return int(text) * 1_000
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None or moment < _EPOCH:
        raise ValueError(text)
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
