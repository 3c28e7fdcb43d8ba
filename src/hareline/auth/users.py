"""Users, and the check of a login: the password, and the address that it may be used from.

``server`` fills a ``UserRegistry`` from the settings and replaces its content on reload. A refusal
never tells the peer the reason, and takes as long for an unknown user as for a wrong password. For
SCRAM (``auth.scram``) the registry is the key ring.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hareline.auth import argon2id
from hareline.auth.access_rules import NO_RULES
from hareline.auth.passwords import (
    DEFAULT_ALGORITHM,
    PasswordCheck,
    StoredHash,
    check_hash,
    hash_password,
)
from hareline.auth.permissions import AccessChecker, Grants, Permissions, TopicPermissions
from hareline.auth.scram import (
    PasswordKeys,
    ScramKeys,
    derive_keys,
    made_up_keys,
)
from hareline.errors import PreconditionFailed

DEFAULT_LOOPBACK_USERS: Final = ("guest",)
#: Name of the backend that knows the users of the ``UserRegistry``.
INTERNAL: Final = "internal"
#: Backend and name of a user.
Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class User:
    """A user as it is stored; a change is a new object.

    ``password_hash``: see ``auth.passwords``; empty: no password is accepted.
    ``tags``: in the order in which they were given; those of a set are sorted.
    ``permissions``: virtual host name -> patterns. ``scram``: the keys that SCRAM is checked with;
    None: a login by SCRAM is never accepted. ``topic_permissions``: by virtual host and exchange.
    ``grants``: another authority decides what the user may do; it has no permissions here then.
    ``max_connections``, ``max_channels``: how many the user may have open; None: no limit.
    ``max_publish_rate``, ``max_publish_bytes_rate``: messages and octets that it may publish in a
    second, above 0; None: no limit of its own. ``expires_ms``: until when the login holds, in epoch
    milliseconds; None: it does not end. ``backend``: who let the user in. Raises ValueError naming
    the user if the name is empty or the hash does not fit the ``hashing`` algorithm.
    """

    name: str
    password_hash: str = field(repr=False)
    hashing: str = DEFAULT_ALGORITHM
    tags: Collection[str] = ()
    permissions: Mapping[str, Permissions] = field(default_factory=dict)
    scram: ScramKeys | PasswordKeys | None = None
    topic_permissions: Mapping[tuple[str, str], TopicPermissions] = field(default_factory=dict)
    max_connections: int | None = None
    max_channels: int | None = None
    max_publish_rate: int | None = None
    max_publish_bytes_rate: int | None = None
    expires_ms: int | None = None
    backend: str = INTERNAL
    grants: Grants | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a user needs a name")
        if self.password_hash:
            try:
                check_hash(self.password_hash, self.hashing)
            except ValueError as problem:
                raise ValueError(f"user '{self.name}': {problem}") from None
        tags = sorted(self.tags) if isinstance(self.tags, set | frozenset) else self.tags
        object.__setattr__(self, "tags", tuple(tags))
        object.__setattr__(self, "permissions", MappingProxyType(dict(self.permissions)))
        topics = MappingProxyType(dict(self.topic_permissions))
        object.__setattr__(self, "topic_permissions", topics)

    @property
    def identity(self) -> Identity:
        """Backend and name: two backends may have different users of one name."""
        return self.backend, self.name

    def enters(self, vhost_name: str) -> bool:
        """True if the user may open this virtual host. May raise RightsPending."""
        if self.grants is not None:
            return self.grants.enters(vhost_name)
        return vhost_name in self.permissions


class UserRegistry:
    """All users by name, and which of them may connect only from this machine.

    ``rules``: access rules, which are asked before permissions; a reload replaces them.

    What depends on the keys of all users is worked out when it is asked for after a change, so that
    thousands can be added one by one.
    """

    __slots__ = (
        "_decoys",
        "_is_scram_for_all",
        "_is_stale",
        "_key_shapes",
        "_loopback_users",
        "_quick_decoy",
        "_underived",
        "_users",
        "rules",
    )

    def __init__(
        self,
        users: Iterable[User] = (),
        loopback_users: Iterable[str] = DEFAULT_LOOPBACK_USERS,
    ) -> None:
        self._users: dict[str, User] = {}
        self.rules = NO_RULES
        self._loopback_users: frozenset[str] = frozenset()
        self._is_stale = True
        self._is_scram_for_all = False
        self._key_shapes: tuple[tuple[int, int], ...] = ()
        self._underived: list[PasswordKeys] = []
        # logins of unknown users are compared with these, so that they take as long
        self._quick_decoy = StoredHash(hash_password(secrets.token_hex()), DEFAULT_ALGORITHM)
        self._decoys = (self._quick_decoy,)
        self.replace(users, loopback_users)

    @property
    def is_scram_for_all(self) -> bool:
        """True if every user who can log in can also use SCRAM.

        Clients choose the strongest mechanism that is offered and try no other, so it is offered
        only then.
        """
        self._renew()
        return self._is_scram_for_all

    def checker(self, user: User, vhost_name: str, host: str) -> AccessChecker:
        """Checker of the rights of a user from this address in a virtual host.

        Raises NotAllowed if it may not open it.
        """
        return AccessChecker(user, vhost_name, self.rules, host)

    def check_of(self, name: str, password: str) -> PasswordCheck:
        """Check to compute for the password of a user."""
        self._renew()
        user = self._users.get(name)
        if user is None or not user.password_hash:
            return PasswordCheck(name, password, None, self._decoys)
        own = StoredHash(user.password_hash, user.hashing)
        is_slowest = own.is_slow or not any(each.is_slow for each in self._decoys)
        return PasswordCheck(name, password, own, () if is_slowest else self._decoys)

    def admit(self, name: str, is_loopback: bool) -> User | None:
        """A user whose password was proven, or None: gone meanwhile, or not from this machine."""
        if not is_loopback and self.is_loopback_only(name):
            return None
        return self._users.get(name)

    def scram_salt(self, name: str) -> tuple[bytes, int]:
        """Salt and iterations for a client that computes a proof (``auth.scram.KeyRing``)."""
        self._renew()
        made_up = made_up_keys(name, self._key_shapes)  # for every name, because it takes time
        user = self._users.get(name)
        keys = made_up if user is None or user.scram is None else user.scram
        return keys.salt, keys.iterations

    def scram_keys(self, name: str) -> ScramKeys:
        """The keys that a proof is checked with; for a name without keys, ones that none matches.

        While keys of users are still to be derived, each call takes as long as deriving one, so
        that its time does not reveal which names exist.
        """
        self._renew()
        made_up = made_up_keys(name, self._key_shapes)
        user = self._users.get(name)
        keys = None if user is None else user.scram
        if isinstance(keys, PasswordKeys) and not keys.is_derived:
            return keys.derive()
        if self.next_underived() is not None:
            derive_keys("", made_up.salt)
        if keys is None:
            return made_up
        return keys.derive() if isinstance(keys, PasswordKeys) else keys

    def next_underived(self) -> PasswordKeys | None:
        """Keys that are still to be derived; None when all are derived."""
        self._renew()
        underived = self._underived
        while underived and underived[-1].is_derived:
            underived.pop()
        return underived[-1] if underived else None

    def has_keys(self, name: str) -> bool:
        """True if this user can log in by SCRAM; for the log line of a refusal."""
        user = self._users.get(name)
        return user is not None and user.scram is not None

    def is_loopback_only(self, name: str) -> bool:
        """True if this user may connect only from this machine; for the log line of a refusal."""
        return name in self._loopback_users

    def lookup(self, name: str) -> User | None:
        return self._users.get(name)

    def has_user_id(self, user: User) -> bool:
        """True if the user's name, as the user-id of a message, is no other user's here."""
        return user.backend == INTERNAL or user.name not in self._users

    def check_user_id(self, user: User, user_id: str) -> None:
        """Raise PreconditionFailed unless the user may send messages with this user-id."""
        if "impersonator" in user.tags or (user_id == user.name and self.has_user_id(user)):
            return
        who = "" if user.backend == INTERNAL else f" of backend {user.backend}"
        raise PreconditionFailed(
            f"user_id property set to '{user_id}' but authenticated user was '{user.name}'{who}"
        )

    def replace(
        self, users: Iterable[User], loopback_users: Iterable[str] | None = None
    ) -> frozenset[str]:
        """Replace all users by these; return the names that were removed.

        ``loopback_users`` None keeps that rule. Raises ValueError, and changes nothing, if
        a name occurs twice.
        """
        replacement: dict[str, User] = {}
        for user in users:
            if user.name in replacement:
                raise ValueError(f"user '{user.name}' is defined twice")
            replacement[user.name] = user
        gone = self._users.keys() - replacement.keys()
        self._users = replacement
        self._is_stale = True
        if loopback_users is not None:
            self._loopback_users = frozenset(loopback_users)
        return frozenset(gone)

    def set_loopback_users(self, names: Iterable[str]) -> None:
        """Set which users may connect only from this machine."""
        self._loopback_users = frozenset(names)

    def add(self, user: User) -> None:
        """Add a user, or put this one in place of the user of the same name."""
        self._users[user.name] = user
        self._is_stale = True

    def remove(self, name: str) -> User | None:
        """Remove a user and return it; None if there was none."""
        removed = self._users.pop(name, None)
        self._is_stale = True
        return removed

    def _renew(self) -> None:
        """Work out what depends on the keys of all users, if any has changed."""
        if not self._is_stale:
            return
        self._is_stale = False
        users = [user for user in self._users.values() if user.password_hash or user.scram]
        keys = [user.scram for user in users if user.scram is not None]
        self._is_scram_for_all = bool(users) and all(map(_is_scram_safe, users))
        self._key_shapes = tuple((each.iterations, len(each.salt)) for each in keys)
        self._underived = [
            each for each in keys if isinstance(each, PasswordKeys) and not each.is_derived
        ]
        slow = [each.password_hash for each in users if each.hashing == argon2id.NAME]
        slowest = max(slow, key=lambda each: argon2id.parse(each).cost, default="")
        self._decoys = (
            (StoredHash(argon2id.made_up_hash(slowest), argon2id.NAME),)
            if slowest
            else (self._quick_decoy,)
        )

    def __contains__(self, name: object) -> bool:
        return name in self._users

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

    def __repr__(self) -> str:
        return f"<UserRegistry of {len(self._users)} users>"


def lowered(name: str) -> str:
    """The name in lower case, with single spaces and without characters that are not seen."""
    seen = (each for each in name if unicodedata.category(each) not in ("Cc", "Cf"))
    return " ".join("".join(seen).lower().split())


def folded(name: str) -> str:
    """One text for all spellings that a directory may take for equal (RFC 4518), and for more."""
    return lowered(unicodedata.normalize("NFKC", name).casefold())


def _is_scram_safe(user: User) -> bool:
    """True if every client can log in as this user by SCRAM.

    Some clients, Qpid's among them, accept only ASCII. SASLprep leaves such a name unchanged, and
    users are looked up by the prepared name.
    """
    if user.scram is None or not (user.name.isascii() and user.name.isprintable()):
        return False
    return not isinstance(user.scram, PasswordKeys) or user.scram.is_ascii
