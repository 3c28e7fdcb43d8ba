"""Workers that compute at once, or when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hareline.auth.backends import Workers
from hareline.auth.users import User, UserRegistry

T = TypeVar("T")


class AtOnce(Workers):
    """Computes before ``submit`` returns."""

    def submit(
        self,
        origin: str,
        work: Callable[[], T],
        done: Callable[[T | None], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        done(work())
        return True


class ByHand(Workers):
    """Computes when the test says so. ``origins``: of what waits; ``is_late``: for too long."""

    def __init__(self) -> None:
        self.is_full = False
        self.is_late = False
        self.origins: list[str] = []
        self._waiting: list[Callable[[], None]] = []

    def submit(
        self,
        origin: str,
        work: Callable[[], T],
        done: Callable[[T | None], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        if self.is_full:
            return False
        self.origins.append(origin)
        self._waiting.append(lambda: done(None if self.is_late or not is_wanted() else work()))
        return True

    def run(self) -> None:
        """Compute what has waited longest."""
        self.origins.pop(0)
        self._waiting.pop(0)()


def authenticate(
    users: UserRegistry, name: str, password: str, *, is_loopback: bool
) -> User | None:
    """The user, if this login is right."""
    return users.admit(name, is_loopback) if users.check_of(name, password).is_right() else None
