"""Password hashes by argon2id (RFC 9106): slow and large on purpose, so that guessing costs.

A stored hash is the text of the reference implementation, with its own parameters:
``$argon2id$v=19$m=19456,t=2,p=1$salt$digest``. One hash takes some 20 ms and 19 MiB, so a running
broker computes it in a thread. A hash above ``MEMORY_MAX_KIB`` or ``PASSES_MAX`` is never computed.
"""

from __future__ import annotations

import base64
import re
import secrets
from typing import Final, NamedTuple

NAME: Final = "argon2id"
# OWASP's first choice of parameters for argon2id; RFC 9106 section 4 says how to choose others
MEMORY_KIB: Final = 19_456
PASSES: Final = 2
LANES: Final = 1
SALT_OCTETS: Final = 16
DIGEST_OCTETS: Final = 32

#: An imported hash must not make the broker compute for seconds, or take its memory.
MEMORY_MAX_KIB: Final = 131_072
PASSES_MAX: Final = 16
LANES_MAX: Final = 16
_FORM: Final = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})"
    r"\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})",
    re.ASCII,
)


class Parameters(NamedTuple):
    """Cost of computing a hash: memory, passes over it, and lanes."""

    memory_kib: int
    passes: int
    lanes: int

    @property
    def cost(self) -> int:
        """Time of the computation, in KiB that are filled."""
        return self.memory_kib * self.passes


def new_hash(password: bytes) -> str:
    """A hash to store, with a new salt."""
    from argon2 import low_level  # most brokers have no such hash

    return low_level.hash_secret(
        password,
        secrets.token_bytes(SALT_OCTETS),
        time_cost=PASSES,
        memory_cost=MEMORY_KIB,
        parallelism=LANES,
        hash_len=DIGEST_OCTETS,
        type=low_level.Type.ID,
    ).decode("ascii")


def verify(password: bytes, stored: str) -> bool:
    """True if ``stored`` was made from this password. Raises ValueError like ``parse``."""
    from argon2 import low_level
    from argon2.exceptions import VerifyMismatchError

    parse(stored)
    try:
        return low_level.verify_secret(stored.encode("ascii"), password, low_level.Type.ID)
    except VerifyMismatchError:
        return False


def parse(stored: str) -> Parameters:
    """The parameters of a stored hash. Raises ValueError, whose text does not repeat the hash."""
    match = _FORM.fullmatch(stored)
    if match is None or not _is_base64(match[4]) or not _is_base64(match[5]):
        raise ValueError("argon2id hash must read $argon2id$v=19$m=...,t=...,p=...$salt$digest")
    memory_kib, passes, lanes = (int(match[index]) for index in (1, 2, 3))
    if not 1 <= passes <= PASSES_MAX or not 1 <= lanes <= LANES_MAX:
        raise ValueError(
            f"argon2id hash with t={passes}, p={lanes}; each must be from 1 to {PASSES_MAX}"
        )
    if not 8 * lanes <= memory_kib <= MEMORY_MAX_KIB:
        raise ValueError(
            f"argon2id hash with m={memory_kib}; it must be from {8 * lanes} to {MEMORY_MAX_KIB}"
        )
    return Parameters(memory_kib, passes, lanes)


def made_up_hash(like: str = "") -> str:
    """A hash that no password has, with the parameters of the hash ``like`` (or of new ones)."""
    memory_kib, passes, lanes = parse(like) if like else (MEMORY_KIB, PASSES, LANES)
    salt, digest = (_text(secrets.token_bytes(each)) for each in (SALT_OCTETS, DIGEST_OCTETS))
    return f"${NAME}$v=19$m={memory_kib},t={passes},p={lanes}${salt}${digest}"


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii").rstrip("=")


def _is_base64(text: str) -> bool:
    """True for base64 without padding in its one canonical form, as libargon2 asks for."""
    try:
        return _text(base64.b64decode(text + "=" * (-len(text) % 4))) == text
    except ValueError:
        return False
