"""The bindings of a virtual host, indexed from both ends.

An exchange holds what its matching needs; this table holds the facts: which bindings exist, so that
repetitions are dropped, listings are complete and a vanished end takes its bindings along.

A binding is identified by (source, destination, routing key, arguments); see AMQP 0-9-1 queue.bind
and RabbitMQ's rule that each distinct set of arguments is a binding of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeVar

A = TypeVar("A")
B = TypeVar("B")
DestinationKind = Literal["queue", "exchange"]
End = tuple[DestinationKind, str]  # with the name of a destination
ArgumentsKey = tuple[tuple[str, str, str], ...]


def arguments_key(arguments: Mapping[str, object]) -> ArgumentsKey:
    """A hashable identity of an arguments table: names, types and values, order left out."""
    return tuple(
        sorted((name, type(value).__name__, repr(value)) for name, value in arguments.items())
    )


@dataclass(frozen=True, slots=True)
class Binding:
    """``source`` is an exchange's name, ``destination`` a queue's or an exchange's.

    ``hashed``: its hash, worked out once; a binding is looked up in four tables before it is gone.
    """

    source: str
    kind: DestinationKind
    destination: str
    routing_key: str
    key: ArgumentsKey
    arguments: Mapping[str, object] = field(compare=False)
    hashed: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        place = (self.source, self.kind, self.destination, self.routing_key, self.key)
        object.__setattr__(self, "hashed", hash(place))

    def __hash__(self) -> int:
        return self.hashed

    @classmethod
    def of(
        cls,
        source: str,
        kind: DestinationKind,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> Binding:
        key = arguments_key(arguments)
        return Binding(source, kind, destination, routing_key, key, arguments)


Bindings = dict[Binding, Binding]


class BindingTable:
    """Each binding once, grouped by its two ends, so that one that goes takes its groups along.

    Listings have the groups in the order in which they came, and so the bindings of a group.
    """

    def __init__(self) -> None:
        self._count = 0
        self._by_source: dict[str, dict[End, Bindings]] = {}
        self._by_destination: dict[End, dict[str, Bindings]] = {}

    def add(self, binding: Binding) -> bool:
        """Add the binding; False if it exists already."""
        end = (binding.kind, binding.destination)
        of_source = self._by_source.setdefault(binding.source, {})
        group = of_source.get(end)
        if group is None:
            group = of_source[end] = {}
            self._by_destination.setdefault(end, {})[binding.source] = group
        elif binding in group:
            return False
        group[binding] = binding
        self._count += 1
        return True

    def remove(self, binding: Binding) -> Binding | None:
        """Remove the stored binding equal to this one and return it; None if there was none."""
        end = (binding.kind, binding.destination)
        group = self._by_source.get(binding.source, {}).get(end, {})
        stored = group.pop(binding, None)
        if stored is None:
            return None
        self._count -= 1
        if not group:
            _drop(self._by_source, binding.source, end)
            _drop(self._by_destination, end, binding.source)
        return stored

    def take_from_source(self, source: str) -> dict[End, Bindings]:
        """Remove all bindings of an exchange; returns them by their other end."""
        taken = self._by_source.pop(source, {})
        for end, group in taken.items():
            self._count -= len(group)
            _drop(self._by_destination, end, source)
        return taken

    def take_to_destination(self, kind: DestinationKind, destination: str) -> dict[str, Bindings]:
        """Remove all bindings to a queue or an exchange; returns them by their source."""
        end = (kind, destination)
        taken = self._by_destination.pop(end, {})
        for source, group in taken.items():
            self._count -= len(group)
            _drop(self._by_source, source, end)
        return taken

    def from_source(self, source: str) -> list[Binding]:
        return list(chain.from_iterable(self._by_source.get(source, {}).values()))

    def to_destination(self, kind: DestinationKind, destination: str) -> list[Binding]:
        return list(chain.from_iterable(self._by_destination.get((kind, destination), {}).values()))

    def between(self, source: str, kind: DestinationKind, destination: str) -> list[Binding]:
        """Return the bindings that have both of these ends."""
        return list(self._by_source.get(source, {}).get((kind, destination), ()))

    def has_source(self, source: str) -> bool:
        return source in self._by_source

    def count_from(self, source: str) -> int:
        """Number of bindings that this exchange is the source of."""
        return sum(map(len, self._by_source.get(source, {}).values()))

    def __contains__(self, binding: Binding) -> bool:
        group = self._by_source.get(binding.source, {}).get((binding.kind, binding.destination))
        return group is not None and binding in group

    def __len__(self) -> int:
        return self._count


def _drop(groups: dict[A, dict[B, Bindings]], one: A, other: B) -> None:
    """Take out the group between these ends."""
    of_one = groups[one]
    del of_one[other]
    if not of_one:
        del groups[one]
