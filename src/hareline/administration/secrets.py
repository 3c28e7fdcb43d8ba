"""What is stored of a password, and the names of hashing algorithms in RabbitMQ's JSON.

``administration.users`` stores a ``Secret``; ``management.api`` has it made in a thread, because a
new hash is slow.

Invariant: a ``Secret`` has nothing from which the password can be read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hareline.administration.error import bad_request
from hareline.auth.passwords import (
    KNOWN_ALGORITHMS,
    NEW_ALGORITHM,
    algorithm_of_hash,
    hash_password,
    verify_password,
)
from hareline.auth.scram import ScramKeys, new_keys
from hareline.auth.users import User
from hareline.storage.administration import UserRecord

_PREFIX: Final = "rabbit_password_hashing_"  # before the name of an algorithm in RabbitMQ's JSON


class Secret(NamedTuple):
    """What is stored of a password. ``scram``: keys as text; empty: none can be made of it."""

    password_hash: str
    hashing: str
    scram: str


def secret_of(password: str, algorithm: str = NEW_ALGORITHM) -> Secret:
    """What to store of a password. Takes long for argon2id, so a thread calls it."""
    return Secret(hash_password(password, algorithm), algorithm, _scram(password))


def algorithm_of(hashing: str | None, stored: str = "") -> str:
    """Our name of the algorithm of a stored hash. Raises AdministrationError for an unknown one."""
    if hashing is None:
        return algorithm_of_hash(stored)
    name = hashing.removeprefix(_PREFIX)
    if name not in KNOWN_ALGORITHMS:
        known = ", ".join(_PREFIX + each for each in KNOWN_ALGORITHMS)
        raise bad_request(f"hashing_algorithm '{hashing}' is not known; known are: {known}")
    return name


def algorithm_name(hashing: str) -> str:
    """RabbitMQ's name of one of our hashing algorithms."""
    return _PREFIX + hashing


def _scram(password: str) -> str:
    try:
        return str(new_keys(password))
    except ValueError:  # SASLprep prohibits it: it is good for the other mechanisms
        return ""


def is_same(user: User, record: UserRecord, password: str | None) -> bool:
    """True if this record asks for nothing but what the user is already."""
    if set(user.tags) != set(record.tags):
        return False
    if password is not None:
        return bool(user.password_hash) and verify_password(
            password, user.password_hash, user.hashing
        )
    return user.password_hash == record.password_hash and user.hashing == record.hashing


def derived_keys(user: User) -> ScramKeys:
    """The SCRAM keys of a user who has some, worked out if they are not yet."""
    keys = user.scram
    assert keys is not None
    return keys if isinstance(keys, ScramKeys) else keys.derive()
