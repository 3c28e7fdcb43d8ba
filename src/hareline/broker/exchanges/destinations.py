"""The destinations of one routing key or pattern, each counted by its bindings.

Direct, fanout and topic exchanges keep one of these for each key. A queue may be bound
twice with the same key and different arguments; it leaves with the last of these bindings.
A match returns ``members``: a tuple that later changes do not touch, built again only after a
change, so that ten thousand binds in a row stay linear.                          [hot: members]

Invariant: ``_members`` is None or holds exactly the keys of ``_counts``, in order.
"""

from __future__ import annotations

from hareline.broker.exchanges.exchange import Destination


class DestinationSet:
    """Destinations in the order of their first binding, with the number of bindings of each."""

    __slots__ = ("_counts", "_members")

    def __init__(self) -> None:
        self._counts: dict[Destination, int] = {}
        self._members: tuple[Destination, ...] | None = ()

    def members(self) -> tuple[Destination, ...]:
        """Each destination once."""
        members = self._members
        if members is None:
            members = self._members = tuple(self._counts)
        return members

    def add(self, destination: Destination) -> None:
        """Count one more binding of ``destination``."""
        count = self._counts.get(destination, 0)
        if count == 0:
            self._members = None
        self._counts[destination] = count + 1

    def remove(self, destination: Destination) -> None:
        """Count one binding less; KeyError if there is none."""
        count = self._counts[destination] - 1
        if count == 0:
            del self._counts[destination]
            self._members = None
        else:
            self._counts[destination] = count

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"<DestinationSet {[destination.name for destination in self._counts]}>"
