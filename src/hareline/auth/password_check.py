"""One password against what is stored of a user; a wrong name takes as long as a wrong password.

``auth.users`` makes a ``PasswordCheck`` for each login, ``auth.internal`` has it computed: at once,
or in a thread where it is slow. ``ProvenPasswords`` remembers which passwords were right, so that a
client that logs in again and again pays for a slow hash once.

Invariant: a refused check has computed a hash by the slowest algorithm that any user has.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from typing import Final, NamedTuple

from hareline.auth import argon2id
from hareline.auth.passwords import verify_password

#: How many right passwords are remembered, some 150 octets each.
PROVEN_MAX: Final = 4_096


class StoredHash(NamedTuple):
    """A hash as it is stored, and the algorithm that it was made by."""

    text: str
    algorithm: str

    @property
    def is_slow(self) -> bool:
        """True if computing it would hold up the event loop."""
        return self.algorithm == argon2id.NAME


class PasswordCheck(NamedTuple):
    """``is_right`` may be called from any thread.

    ``own``: the hash of the user of that name, None if there is none. ``decoys``: computed after a
    wrong password, for the time that they take.
    """

    name: str
    password: str
    own: StoredHash | None
    decoys: tuple[StoredHash, ...]

    @property
    def is_slow(self) -> bool:
        """True if it may have to be computed in a thread."""
        return any(each.is_slow for each in (self.own, *self.decoys) if each is not None)

    def is_right(self) -> bool:
        """True if the user has this password, and it is not blank."""
        own = self.own
        if own is not None and verify_password(self.password, *own) and self.password:
            return True
        for decoy in self.decoys:
            verify_password(self.password, *decoy)
        return False

    def __repr__(self) -> str:
        return f"<PasswordCheck of {self.name!r}>"


class ProvenPasswords:
    """Passwords that were right, as keyed digests together with the stored hash.

    A changed password is not found any more, because the stored hash is another one. Any thread
    may call it.
    """

    __slots__ = ("_digests", "_key")

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def add(self, check: PasswordCheck) -> None:
        """Remember a check that was right."""
        self._digests[self._digest(check)] = None
        while len(self._digests) > PROVEN_MAX:
            self._digests.popitem(last=False)

    def __contains__(self, check: object) -> bool:
        """True if a check of the same password against the same hash was right."""
        if not isinstance(check, PasswordCheck) or check.own is None:
            return False
        return self._digest(check) in self._digests

    def _digest(self, check: PasswordCheck) -> bytes:
        assert check.own is not None
        digest = hashlib.blake2b(key=self._key, digest_size=32)
        for text in (check.name, check.own.text, check.password):
            octets = text.encode("utf-8", "surrogateescape")
            digest.update(len(octets).to_bytes(8, "big") + octets)
        return digest.digest()

    def __len__(self) -> int:
        return len(self._digests)
