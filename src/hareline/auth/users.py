"""The users and the one question asked of them: is this the right password from the right place?

``server`` fills a ``UserRegistry`` from the settings and replaces its content on reload;
``amqp.handshake`` and ``management`` ask it. A refused login never says why to the peer, and costs
the same for an unknown user as for a wrong password.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hareline.auth.passwords import (
    DEFAULT_ALGORITHM,
    hash_password,
    parse_hash,
    verify_password,
)
from hareline.auth.permissions import Permissions

DEFAULT_LOOPBACK_USERS: Final = ("guest",)


@dataclass(frozen=True, slots=True)
class User:
    """A user as it is stored; a change is a new object.

    ``password_hash``: see ``auth.passwords``; empty means that no password lets this user in.
    ``permissions``: virtual host name -> patterns. Raises ValueError naming the user when the name
    is empty or the hash is not one of the ``hashing`` algorithm.
    """

    name: str
    password_hash: str = field(repr=False)
    hashing: str = DEFAULT_ALGORITHM
    tags: frozenset[str] = frozenset()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a user needs a name")
        if self.password_hash:
            try:
                parse_hash(self.password_hash, self.hashing)
            except ValueError as problem:
                raise ValueError(f"user '{self.name}': {problem}") from None
        object.__setattr__(self, "permissions", MappingProxyType(dict(self.permissions)))


class UserRegistry:
    """All users by name, and which of them may only come from this machine."""

    __slots__ = ("_decoy_hash", "_loopback_users", "_users")

    def __init__(
        self,
        users: Iterable[User] = (),
        loopback_users: Iterable[str] = DEFAULT_LOOPBACK_USERS,
    ) -> None:
        self._users: dict[str, User] = {}
        self._loopback_users: frozenset[str] = frozenset()
        # what a login of an unknown user is compared with, so that it takes as long
        self._decoy_hash = hash_password(secrets.token_hex())
        self.replace(users, loopback_users)

    def authenticate(self, name: str, password: str, is_loopback: bool) -> User | None:
        """The user, or None: unknown, wrong or blank password, or not from this machine.

        A blank password is refused even where its hash is stored, as RabbitMQ's internal backend
        does.
        """
        user = self._users.get(name)
        if user is None or not user.password_hash:
            verify_password(password, self._decoy_hash)
            return None
        if not verify_password(password, user.password_hash, user.hashing) or not password:
            return None
        if not is_loopback and self.is_loopback_only(name):
            return None
        return user

    def is_loopback_only(self, name: str) -> bool:
        """Whether this user may connect from this machine only; for the log line of a refusal."""
        return name in self._loopback_users

    def lookup(self, name: str) -> User | None:
        return self._users.get(name)

    def replace(
        self, users: Iterable[User], loopback_users: Iterable[str] | None = None
    ) -> frozenset[str]:
        """Put these users in place of all; returns the names that are gone.

        ``loopback_users`` None leaves that rule alone. Raises ValueError, and changes nothing, when
        a name comes twice.
        """
        replacement: dict[str, User] = {}
        for user in users:
            if user.name in replacement:
                raise ValueError(f"user '{user.name}' is defined twice")
            replacement[user.name] = user
        gone = self._users.keys() - replacement.keys()
        self._users = replacement
        if loopback_users is not None:
            self._loopback_users = frozenset(loopback_users)
        return frozenset(gone)

    def add(self, user: User) -> None:
        """Add a user, or put this one in place of the user of the same name."""
        self._users[user.name] = user

    def remove(self, name: str) -> User | None:
        """Remove a user and return it; None when there was none."""
        return self._users.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._users

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

    def __repr__(self) -> str:
        return f"<UserRegistry of {len(self._users)} users>"
