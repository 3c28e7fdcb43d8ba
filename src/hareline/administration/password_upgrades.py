"""Slow hashes for users whose password is stored by a quick one, made at their next login.

RabbitMQ's definitions bring salted digests, and an import hashes passwords by them too. A login is
the moment when the broker has such a password. ``auth.backends`` tells of it; a thread computes the
new hash, and ``administration.users`` stores it.

Invariant: a hash is replaced only if the user still has the one that the password was right for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from hareline import events
from hareline.administration.users import Users
from hareline.auth.backends import Workers
from hareline.auth.passwords import NEW_ALGORITHM, hash_password
from hareline.auth.users import User
from hareline.errors import StoreError
from hareline.events import Report


class PasswordUpgrades:
    """``algorithm``: what passwords are to be hashed by; called each time, for reloads."""

    def __init__(
        self, users: Users, workers: Workers, algorithm: Callable[[], str], report: Report
    ) -> None:
        self._users = users
        self._workers = workers
        self._algorithm = algorithm
        self._report = report
        self._under_way: set[str] = set()

    def on_proven(self, user: User, password: str) -> None:
        """The password of this user was right. Has it hashed again if its hash is a quick one."""
        if user.hashing == NEW_ALGORITHM or self._algorithm() != NEW_ALGORITHM:
            return
        if user.name in self._under_way or not self._users.can_rehash(user):
            return
        self._under_way.add(user.name)
        work = partial(hash_password, password, NEW_ALGORITHM)
        if not self._workers.submit("", work, partial(self._on_hashed, user)):
            self._under_way.discard(user.name)  # the next login tries again

    def _on_hashed(self, user: User, password_hash: str | None) -> None:
        self._under_way.discard(user.name)
        if password_hash is None:
            return

        def report() -> None:
            self._report(events.PASSWORD_REHASHED, user=user.name, before=user.hashing)

        with suppress(StoreError):  # the next login tries again
            self._users.rehash(user, password_hash, NEW_ALGORITHM, report)
