"""Bindings of a deleted queue or exchange taken out of the exchanges that matched them, in shares.

``broker.binder`` hands them over when it has forgotten them. A pattern is some microseconds of
work, and a queue may have hundreds of thousands: what is more than ``AT_ONCE`` goes in shares of
the next rounds of the event loop. Until then the exchange still finds what is gone, and
``broker.routing`` passes it over. An exchange where what is bound changes where others are routed
to gives all of its bindings up at once.

Invariant: no binding is matched any more when nothing waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from hareline.broker.bindings import Binding
from hareline.broker.exchanges.exchange import Destination, Exchange
from hareline.clock import Clock, Timers

#: Some 2 ms.
AT_ONCE: Final = 1_000
SHARE_S: Final = 0.004
#: Between two looks at the clock.
PER_LOOK: Final = 64
#: Where each binding is matched for itself.
_MATCHED_ALONE: Final = frozenset(("direct", "fanout", "headers", "topic"))


class Released(NamedTuple):
    """A binding that is forgotten, and what its source matches for it."""

    source: Exchange
    bound: Destination
    binding: Binding


class Unbinding:
    """The bindings of one virtual host that are still to be taken out of their exchanges."""

    __slots__ = ("_clock", "_timers", "_waiting")

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._waiting: deque[Released] = deque()

    def release(self, released: Iterable[Released]) -> None:
        """Take these out of their exchanges: the first ones at once, the rest in shares."""
        had_waiting = bool(self._waiting)
        count = 0
        for each in released:
            if count < AT_ONCE or each.source.type_name not in _MATCHED_ALONE:
                count += 1
                _unbind(each)
            else:
                self._waiting.append(each)
        if self._waiting and not had_waiting:
            self._timers.call_later(0.0, self._go_on)

    def _go_on(self) -> None:
        waiting, clock = self._waiting, self._clock
        end_s = clock.running_s() + SHARE_S
        while waiting:
            for _ in range(min(PER_LOOK, len(waiting))):
                _unbind(waiting.popleft())
            if clock.running_s() >= end_s:
                break
        if waiting:
            self._timers.call_later(0.0, self._go_on)

    def __len__(self) -> int:
        """How many are still to be taken out."""
        return len(self._waiting)


def _unbind(released: Released) -> None:
    binding = released.binding
    released.source.unbind(released.bound, binding.routing_key, binding.arguments)
