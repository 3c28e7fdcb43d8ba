"""The place of an entry in its queue as a text, by which a client goes on where it stopped.

``operations.browsing`` hands one out behind each page; it is the entry's rank, so it stays valid
when the entry has left: what follows is what is served behind that place. A number stands for the
offset, or level and offset, of most queues; in a sorted one the key is before it.

Invariant: ``rank_of(position_of(rank))`` is the rank, and any other text is refused.
"""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.sorted import SortedOrder

_LENGTH_MAX: Final = 8_192
_DIGITS_MAX: Final = 40


class InvalidPosition(ValueError):
    """Raised for a text that is not a position in this queue."""

    def __init__(self, text: str) -> None:
        super().__init__(f"'{text[:80]}' is not a position that a page of this queue ended with")


def position_of(rank: Any) -> str:
    """A rank of ``EntryOrder.rank`` as a text."""
    if isinstance(rank, int):
        return str(rank)
    place, offset = rank
    if len(place) == 1:
        return f"{offset}-"
    key = place[1]
    if isinstance(key, str):
        return f"{offset}-s{_armored(key.encode('utf-8', 'surrogatepass'))}"
    if isinstance(key, bytes):
        return f"{offset}-b{_armored(key)}"
    if isinstance(key, float):
        return f"{offset}-f{float(key).hex()}"
    if isinstance(key, Decimal):
        return f"{offset}-d{key}"
    return f"{offset}-i{int(key)}"


def rank_of(text: str, order: EntryOrder) -> Any:
    """The rank that this text stands for. Raises InvalidPosition."""
    is_sorted = isinstance(order, SortedOrder)
    offset, dash, key = text.partition("-")
    if len(text) > _LENGTH_MAX or bool(dash) != is_sorted or not _is_natural(offset):
        raise InvalidPosition(text)
    if not is_sorted:
        return int(offset)
    try:
        return (_place_of(key), int(offset))
    except (ValueError, InvalidOperation, binascii.Error):
        raise InvalidPosition(text) from None


def _place_of(key: str) -> tuple[int, Any] | tuple[int]:
    kind, value = key[:1], key[1:]
    if not kind:
        return (0,)
    if kind == "s":
        return (1, _unarmored(value).decode("utf-8", "surrogatepass"))
    if kind == "b":
        return (1, _unarmored(value))
    if kind == "f":
        return (1, float.fromhex(value))
    if kind == "d":
        number = Decimal(value)
        if number.is_nan():
            raise ValueError(value)
        return (1, number)
    if kind != "i" or not _is_natural(value.removeprefix("-")):
        raise ValueError(key)
    return (1, int(value))


def _is_natural(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def _armored(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode("ascii")


def _unarmored(text: str) -> bytes:
    return base64.b64decode(text, altchars=b"-_", validate=True)
