"""How often a request that fails is repeated, and for how long.

Both ways to ask the broker, ``client`` and ``amqp_client``, make one for each thing they ask.
Invariant: pauses grow up to `_PAUSE_MAX_S`, and the time without an answer is limited.
"""

from __future__ import annotations

import random
import time
from typing import Final

from hareline.spark.errors import BrokerUnreachable

_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0


class Patience:
    """How long a request that fails is repeated: ``retries`` times ``timeout_s`` on end."""

    def __init__(self, where: str, options: str, timeout_s: float, retries: int) -> None:
        """``where`` is asked; ``options`` are those that say so. Both are for the error."""
        self._where = where
        self._options = options
        self._limit_s = timeout_s * retries
        self._retries = retries
        self.reset()

    def reset(self) -> None:
        """Begin to count again, since something was answered."""
        self._failing_since: float | None = None
        self._failures = 0
        self._pause_s = _PAUSE_MIN_S

    def interrupted(self, problem: Exception) -> None:
        """Pause before the next attempt. Raises BrokerUnreachable if the time is over."""
        if not self.pause():
            why = str(problem) or type(problem).__name__
            raise BrokerUnreachable(
                f"{self._where} did not answer in {self._failures} attempts: {why}; check that the "
                f"broker runs and that {self._options} is right, or raise retries"
            ) from None

    def pause(self) -> bool:
        """Pause before the next attempt; False at once if the time is over."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._failures += 1
        left_s = self._failing_since + self._limit_s - now
        if left_s <= 0:
            return False
        time.sleep(min(left_s, self._pause_s * random.uniform(0.5, 1)))
        self._pause_s = min(_PAUSE_MAX_S, 2 * self._pause_s)
        return True

    def may_repeat(self) -> bool:
        """Count an answer that is of no use; False once there were more than ``retries``."""
        self._failures += 1
        return self._failures <= self._retries
