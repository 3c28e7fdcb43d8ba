"""Lockout: logins of a user from an address are refused after too many failures.

``auth.backends`` asks before a login is decided, and reports the outcome, for AMQP and HTTP alike.
A user is locked out only from the address whose logins have failed; IPv6 addresses count by their
/64. At most ``PLACES_MAX`` pairs of address and user are remembered.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from hareline.auth.peer import network_of

#: Failures count for this long.
WINDOW_S: Final = 60.0
#: What one address may fail with all names together, as a multiple of what it may with one.
NAMES_FACTOR: Final = 5
PLACES_MAX: Final = 4_096

#: A network and a user; None: all users together.
Place = tuple[str, str | None]


class LoginLimits:
    """``failures_max``: called each time, since a reload may change it; 0 is no limit.

    ``on_locked``: told of an address and a user whose logins are refused from now on, and for how
    many seconds; the user is empty if those of all users are.
    """

    def __init__(
        self,
        failures_max: Callable[[], int],
        now_s: Callable[[], float],
        on_locked: Callable[[str, str, int], None] | None = None,
    ) -> None:
        self._failures_max = failures_max
        self._now_s = now_s
        self._on_locked = on_locked
        self._failures: OrderedDict[Place, deque[float]] = OrderedDict()

    def wait_s(self, host: str, user: str) -> int:
        """After how many seconds a login may be tried; 0 for now."""
        limit = self._failures_max()
        if not limit:
            return 0
        network = network_of(host)
        return max(
            self._wait_of((network, user), limit),
            self._wait_of((network, None), limit * NAMES_FACTOR),
        )

    def _wait_of(self, place: Place, limit: int) -> int:
        failures = self._failures.get(place)
        if failures is None:
            return 0
        now_s = self._now_s()
        while failures and failures[0] <= now_s - WINDOW_S:
            failures.popleft()
        if not failures:
            del self._failures[place]
            return 0
        if len(failures) < limit:
            return 0
        return math.ceil(failures[len(failures) - limit] + WINDOW_S - now_s)

    def on_failure(self, host: str, user: str) -> None:
        """A login has failed."""
        limit = self._failures_max()
        if not limit:
            return
        network = network_of(host)
        self._note((network, user), limit)
        self._note((network, None), limit * NAMES_FACTOR)

    def _note(self, place: Place, limit: int) -> None:
        was_locked = self._wait_of(place, limit) > 0
        failures = self._failures.setdefault(place, deque())
        failures.append(self._now_s())
        while len(failures) > limit:
            failures.popleft()
        self._failures.move_to_end(place)
        while len(self._failures) > PLACES_MAX:
            self._failures.popitem(last=False)
        wait_s = self._wait_of(place, limit)
        if wait_s and not was_locked and self._on_locked is not None:
            self._on_locked(place[0], place[1] or "", wait_s)

    def on_success(self, host: str, user: str) -> None:
        """A login has succeeded: the earlier failures of this user were slips."""
        self._failures.pop((network_of(host), user), None)

    def __len__(self) -> int:
        return len(self._failures)
