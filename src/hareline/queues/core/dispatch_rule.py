"""Dispatch rules: the consumer that is next, of several of one priority that can receive.

A lane without a rule serves them in turn. With one it looks at all that can receive for each entry
or run of entries, and counts these looks in its share of the turn.                          [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hareline.queues.core.consumer import Consumer

# Prefetch of a consumer without a limit, in the load that it has: that of AMQP's largest one.
NO_LIMIT_PREFETCH: Final = 65_535


class DispatchRule:
    """``fills``: the next consumer takes all that its credit allows, before another is chosen;
    it is the one that came first. Otherwise it is the one of the least load, for each entry."""

    __slots__ = ("fills",)

    def __init__(self, *, fills: bool) -> None:
        self.fills = fills

    def best(self, consumers: Iterable[Consumer]) -> Consumer:
        """The next of these, at least one; of equals the first."""
        return min(consumers, key=_number if self.fills else _load)

    def precedes(self, one: Consumer, other: Consumer) -> bool:
        """True if ``one`` is served before ``other``; of equals the one that waited longer."""
        if self.fills:
            return one.number < other.number
        return (_load(one), one.served_at) < (_load(other), other.served_at)


def _number(consumer: Consumer) -> int:
    return consumer.number


def _load(consumer: Consumer) -> float:
    """The part of its prefetch that is unacknowledged; 0 for one that does not acknowledge."""
    return consumer.outstanding / (consumer.prefetch_count or NO_LIMIT_PREFETCH)


STRICT: Final = DispatchRule(fills=True)
LEAST_LOADED: Final = DispatchRule(fills=False)
