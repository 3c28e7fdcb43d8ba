"""Remembers what was read out of a message's properties, by their octets.

A producer writes nearly the same properties again and again: a level, a sort key or a group is
worked out once for each set of property octets and then found by one look-up. Called by the
orderings, and by the selective lane for groups and selectors.

Invariant: never more than ENTRIES_MAX values, for octets of OCTETS_MAX or fewer each.        [hot]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from hareline.message import Message

# Then all are forgotten: enough for some ten thousand groups or keys; a producer that never repeats
# itself gains nothing.
ENTRIES_MAX: Final = 16_384
OCTETS_MAX: Final = 256  # more is rarely the same twice

Value = TypeVar("Value")

_UNKNOWN: Final = object()


class PropertyCache(Generic[Value]):
    """A function of a message's properties that remembers: ``PropertyCache(read)(message)``.

    ``read`` may look only at the properties and headers of the message; what it raises is passed on
    and not remembered.
    """

    __slots__ = ("_read", "_values")

    def __init__(self, read: Callable[[Message], Value]) -> None:
        self._read = read
        self._values: dict[bytes, Any] = {}

    def __call__(self, message: Message) -> Value:
        octets = message.property_octets
        value = self._values.get(octets, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._read(message)
            if len(octets) <= OCTETS_MAX:
                if len(self._values) >= ENTRIES_MAX:
                    self._values.clear()
                self._values[octets] = value
        found: Value = value
        return found

    def clear(self) -> None:
        """Forget everything, as what ``read`` looks for has changed."""
        self._values.clear()

    def __len__(self) -> int:
        """Return the number of sets of property octets that are remembered."""
        return len(self._values)
