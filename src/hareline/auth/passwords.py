"""Password hashes in RabbitMQ's format, so that a definitions file of either broker works in both.

A stored hash is ``base64(salt + H(salt + password octets))`` with a salt of 4 random octets
(``rabbit_password``); ``User.hashing`` names H. Called by ``auth.users`` at each login and by code
that creates users.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any, Final

SALT_OCTETS: Final = 4
DEFAULT_ALGORITHM: Final = "sha256"

# md5 is what RabbitMQ used before 3.6: accepted so that old definitions load, never the default
ALGORITHMS: Final = MappingProxyType[str, Callable[[bytes], Any]](
    {
        "sha256": hashlib.sha256,
        "sha512": hashlib.sha512,
        "md5": partial(hashlib.md5, usedforsecurity=False),
    }
)


def hash_password(password: str, algorithm: str = DEFAULT_ALGORITHM) -> str:
    """A hash to store. Raises ValueError for an algorithm that is not in ``ALGORITHMS``."""
    salt = secrets.token_bytes(SALT_OCTETS)
    return base64.b64encode(salt + _digest(salt, password, algorithm)).decode("ascii")


def verify_password(password: str, stored: str, algorithm: str = DEFAULT_ALGORITHM) -> bool:
    """True if ``stored`` was made from this password; compares in constant time.

    A password from the wire may contain surrogates for octets that were not UTF-8; they are
    hashed as those octets. Raises ValueError like ``parse_hash``.
    """
    salt, expected = parse_hash(stored, algorithm)
    return hmac.compare_digest(_digest(salt, password, algorithm), expected)


def parse_hash(stored: str, algorithm: str = DEFAULT_ALGORITHM) -> tuple[bytes, bytes]:
    """Salt and digest of a stored hash.

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
    octets = password.encode("utf-8", "surrogateescape")
    digest: bytes = _hash_function(algorithm)(salt + octets).digest()
    return digest


def _hash_function(algorithm: str) -> Callable[[bytes], Any]:
    function = ALGORITHMS.get(algorithm)
    if function is None:
        raise ValueError(
            f"unknown password hashing algorithm '{algorithm}' (known: {', '.join(ALGORITHMS)})"
        )
    return function
