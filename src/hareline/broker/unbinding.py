"""Bindings of a deleted queue or exchange taken out of the exchanges that matched them, in shares.

``broker.binder`` hands them over when it has forgotten them. A pattern is some microseconds of
work, and a queue may have hundreds of thousands: what is more than ``AT_ONCE`` goes in shares of
the next turns. Until then the exchange still finds what is gone, and
``broker.routing`` passes it over. An exchange where what is bound changes where others are routed
to gives all of its bindings up at once.

Invariant: no binding is matched any more when nothing waits here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hareline.broker.exchanges.bindings import Binding, Bindings
from hareline.broker.exchanges.exchange import Destination, Exchange
from hareline.later import Later
from hareline.turn import Turn

#: Some 2 ms.
AT_ONCE: Final = 1_000
#: Some 10 us.
PER_ITEM: Final = 4
#: Where each binding is matched for itself.
MATCHED_ALONE: Final = frozenset(("direct", "fanout", "headers", "topic"))


class Leaving(NamedTuple):
    """The bindings between a source and a destination of which one is deleted.

    ``filtered``: what the source matches for those that have a selector.
    """

    source: Exchange
    destination: Destination
    bindings: Bindings
    filtered: Mapping[Binding, Destination]


class Unbinding:
    """The bindings of one virtual host that are still to be taken out of their exchanges."""

    __slots__ = ("_later",)

    def __init__(self, turn: Turn) -> None:
        self._later = Later(turn, self._go_on, slows_publishers=False)

    def release(self, leaving: Iterable[Leaving]) -> None:
        """Take these out of their exchanges: the first ones at once, the rest in shares."""
        at_once = AT_ONCE
        for each in leaving:
            count = len(each.bindings)
            if each.source.type_name in MATCHED_ALONE:
                count = min(count, at_once)
                at_once -= count
            _unbind(each, count)
            if each.bindings:
                self._later.add(each)

    def _go_on(self, leaving: Leaving) -> None:
        _unbind(leaving, min(PER_ITEM, len(leaving.bindings)))
        if leaving.bindings:
            self._later.add(leaving)

    def __len__(self) -> int:
        """Number of those still to be taken out."""
        return sum(len(each.bindings) for each in self._later.waiting)


def _unbind(leaving: Leaving, count: int) -> None:
    source, destination, bindings, filtered = leaving
    for _ in range(count):
        binding, _ = bindings.popitem()
        bound = filtered.get(binding, destination)
        source.unbind(bound, binding.routing_key, binding.arguments)
