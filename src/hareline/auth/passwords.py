"""Password hashes, and their checks at a login: argon2id, and RabbitMQ's salted digests.

RabbitMQ's stored hash is ``base64(salt + H(salt + password))`` with a salt of 4 random octets;
``User.hashing`` names H, or argon2id. A refused check takes as long as the slowest hash of any
user, whether or not there is a user of that name.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hareline.auth import argon2id

SALT_OCTETS: Final = 4
#: What a stored hash was made by where nothing says so, as in RabbitMQ.
DEFAULT_ALGORITHM: Final = "sha256"
#: What new passwords are hashed by.
NEW_ALGORITHM: Final = argon2id.NAME

# md5 is what RabbitMQ used before 3.6: accepted so that old definitions load, never the default
ALGORITHMS: Final = MappingProxyType[str, Callable[[bytes], Any]](
    {
        "sha256": hashlib.sha256,
        "sha512": hashlib.sha512,
        "md5": partial(hashlib.md5, usedforsecurity=False),
    }
)
#: The salted digests above, and what takes a thread.
KNOWN_ALGORITHMS: Final = (*ALGORITHMS, argon2id.NAME)


def hash_password(password: str, algorithm: str = DEFAULT_ALGORITHM) -> str:
    """A hash to store. Raises ValueError for one that is not in ``KNOWN_ALGORITHMS``."""
    if algorithm == argon2id.NAME:
        return argon2id.new_hash(_octets(password))
    salt = secrets.token_bytes(SALT_OCTETS)
    return base64.b64encode(salt + _digest(salt, password, algorithm)).decode("ascii")


def verify_password(password: str, stored: str, algorithm: str = DEFAULT_ALGORITHM) -> bool:
    """True if ``stored`` was made from this password; compares in constant time.

    A password from the wire may contain surrogates for octets that were not UTF-8; they are
    hashed as those octets. Raises ValueError like ``check_hash``.
    """
    if algorithm == argon2id.NAME:
        return argon2id.verify(_octets(password), stored)
    salt, expected = parse_hash(stored, algorithm)
    return hmac.compare_digest(_digest(salt, password, algorithm), expected)


def check_hash(stored: str, algorithm: str = DEFAULT_ALGORITHM) -> None:
    """Raise ValueError, which says what is wrong, unless an algorithm has such hashes."""
    if algorithm == argon2id.NAME:
        argon2id.parse(stored)
    else:
        parse_hash(stored, algorithm)


def algorithm_of_hash(stored: str) -> str:
    """The algorithm that a stored hash was made by, where nothing says so."""
    if stored.startswith(f"${argon2id.NAME}$"):
        return argon2id.NAME
    for algorithm in ALGORITHMS:
        with contextlib.suppress(ValueError):
            parse_hash(stored, algorithm)
            return algorithm
    return DEFAULT_ALGORITHM


def parse_hash(stored: str, algorithm: str = DEFAULT_ALGORITHM) -> tuple[bytes, bytes]:
    """Salt and digest of a stored hash of a salted digest.

    Raises ValueError saying what is wrong: an unknown algorithm, not base64, the wrong length.
    """
    size = SALT_OCTETS + _hash_function(algorithm)(b"").digest_size
    try:
        octets = base64.b64decode(stored, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("password hash is not base64") from None
    if len(octets) != size:
        raise ValueError(
            f"password hash holds {len(octets)} octets, a salted {algorithm} hash has {size}"
        )
    return octets[:SALT_OCTETS], octets[SALT_OCTETS:]


def _digest(salt: bytes, password: str, algorithm: str) -> bytes:
    digest: bytes = _hash_function(algorithm)(salt + _octets(password)).digest()
    return digest


def _octets(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")


def _hash_function(algorithm: str) -> Callable[[bytes], Any]:
    function = ALGORITHMS.get(algorithm)
    if function is None:
        raise ValueError(
            f"unknown password hashing algorithm '{algorithm}' (known: "
            f"{', '.join(KNOWN_ALGORITHMS)})"
        )
    return function


# -------------------------------------------------------------------------------- checks at a login


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
