"""Delayed retry: the wait of a delivery that came back, before it is delivered again.

The queue's ``hold`` keeps it meanwhile, so others overtake it. Names and the linear back-off are
those of RabbitMQ 4.3; the multiplier is LavinMQ's, the jitter ActiveMQ's collision avoidance.
                                                                                            [hot]
"""

from __future__ import annotations

from random import random
from typing import Final

from hareline.queues.core.kinds import LOST, REJECTED, RETURNED

DELAY_MAX_MS: Final = 0xFFFF_FFFF  # some 49 days, as in LavinMQ, whatever the back-off comes to
MIN_MS: Final = 1_000  # of a queue that has a type alone
CAUSES: Final = {
    "all": RETURNED | REJECTED | LOST,
    "returned": RETURNED,
    "failed": REJECTED | LOST,
    "disabled": 0,
    None: RETURNED | REJECTED,  # as in LavinMQ, which has no types
}
_STEPS_MAX: Final = 32  # doublings of the shortest wait that reach the longest


class Retry:
    """``causes``: bits of those that make a delivery wait. ``multiplier``: None is linear, 1
    constant, and more exponential. ``jitter_percent``: each wait is up to so much shorter or
    longer, by chance.
    """

    __slots__ = ("_jitter", "_max_ms", "_min_ms", "_multiplier", "causes")

    def __init__(
        self,
        causes: int,
        *,
        min_ms: int,
        max_ms: int | None,
        multiplier: int | None,
        jitter_percent: float,
    ) -> None:
        self.causes = causes
        self._min_ms = min_ms
        self._max_ms = DELAY_MAX_MS if max_ms is None else max_ms
        self._multiplier = multiplier
        self._jitter = jitter_percent / 100

    def delay_ms(self, returns: int) -> int:
        """Milliseconds to wait after the return of this number; 0 counts as the first."""
        steps = max(returns, 1)
        if self._multiplier is None:
            wait_ms = self._min_ms * steps
        else:
            wait_ms = self._min_ms * self._multiplier ** min(steps - 1, _STEPS_MAX)
        wait_ms = min(wait_ms, self._max_ms)
        if self._jitter:
            wait_ms = round(wait_ms * (1 + self._jitter * (2 * random() - 1)))
        return wait_ms
