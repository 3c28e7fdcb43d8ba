"""The bindings of a virtual host, indexed from both ends.

An exchange holds what its matching needs; this table holds the facts: which bindings exist, so that
repetitions are dropped, listings are complete and a vanished end takes its bindings along.

A binding is identified by (source, destination, routing key, arguments); see AMQP 0-9-1 queue.bind
and RabbitMQ's rule that each distinct set of arguments is a binding of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DestinationKind = Literal["queue", "exchange"]
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


class BindingTable:
    """Each binding once, by its source and by its destination."""

    def __init__(self) -> None:
        self._count = 0
        self._by_source: dict[str, dict[Binding, Binding]] = {}
        self._by_destination: dict[tuple[DestinationKind, str], dict[Binding, Binding]] = {}

    def add(self, binding: Binding) -> bool:
        """Add the binding; False if it exists already."""
        of_source = self._by_source.setdefault(binding.source, {})
        if binding in of_source:
            return False
        of_source[binding] = binding
        self._count += 1
        end = (binding.kind, binding.destination)
        self._by_destination.setdefault(end, {})[binding] = binding
        return True

    def remove(self, binding: Binding) -> Binding | None:
        """Remove the stored binding equal to this one and return it; None if there was none."""
        of_source = self._by_source.get(binding.source)
        stored = of_source.pop(binding, None) if of_source else None
        if of_source is None or stored is None:
            return None
        self._count -= 1
        if not of_source:
            del self._by_source[binding.source]
        end = (binding.kind, binding.destination)
        of_destination = self._by_destination[end]
        del of_destination[binding]
        if not of_destination:
            del self._by_destination[end]
        return stored

    def take_from_source(self, source: str) -> list[Binding]:
        """Remove all bindings of an exchange; returns them in the order in which they came."""
        taken = list(self._by_source.pop(source, ()))
        self._count -= len(taken)
        by_destination = self._by_destination
        for binding in taken:
            end = (binding.kind, binding.destination)
            of_destination = by_destination[end]
            del of_destination[binding]
            if not of_destination:
                del by_destination[end]
        return taken

    def take_to_destination(self, kind: DestinationKind, destination: str) -> list[Binding]:
        """Remove all bindings to a queue or an exchange; returns them likewise."""
        taken = list(self._by_destination.pop((kind, destination), ()))
        self._count -= len(taken)
        by_source = self._by_source
        for binding in taken:
            of_source = by_source[binding.source]
            del of_source[binding]
            if not of_source:
                del by_source[binding.source]
        return taken

    def from_source(self, source: str) -> list[Binding]:
        return list(self._by_source.get(source, ()))

    def to_destination(self, kind: DestinationKind, destination: str) -> list[Binding]:
        return list(self._by_destination.get((kind, destination), ()))

    def has_source(self, source: str) -> bool:
        return source in self._by_source

    def count_from(self, source: str) -> int:
        """How many bindings this exchange is the source of."""
        return len(self._by_source.get(source, ()))

    def __contains__(self, binding: Binding) -> bool:
        return binding in self._by_source.get(binding.source, ())

    def __len__(self) -> int:
        return self._count
