"""What users prove who they are with."""

from __future__ import annotations

import hashlib

import pytest

from hareline.settings import Settings, User
from tests.support.settings import (
    GOOD_USER,
    HASHED_USER,
    SCRAM_KEY,
    SCRAM_KEYS,
    hash_of,
    problems_of,
)


def test_a_password_is_not_shown() -> None:
    user = User(name="ann", password="s3cret")  # type: ignore[arg-type]
    hashed = User(name="bob", password_hash=hash_of(32))
    assert "s3cret" not in f"{user!r} {user}"
    assert hash_of(32) not in f"{hashed!r} {hashed}"


@pytest.mark.parametrize(
    "credentials", [{}, {"password": "x", "password_hash": hash_of(32)}, {"password": ""}]
)
def test_a_user_proves_itself_in_exactly_one_way(credentials: dict[str, str]) -> None:
    ((place, message),) = problems_of(users=[{"name": "ann", **credentials}])
    assert place.startswith("users.0")
    assert "assword" in message


@pytest.mark.parametrize("hashing", ["sha256", "sha512", "md5"])
def test_a_hash_has_the_length_of_its_digest(hashing: str) -> None:
    octets = hashlib.new(hashing).digest_size
    user = {"name": "ann", "hashing": hashing}
    accepted = Settings.model_validate({"users": [{**user, "password_hash": hash_of(octets)}]})
    assert accepted.users[0].password_hash == hash_of(octets)
    for wrong in (hash_of(octets + 1), hash_of(octets)[:-1] + "!"):
        ((place, _),) = problems_of(users=[{**user, "password_hash": wrong}])
        assert place == "users.0.password_hash"


@pytest.mark.parametrize(
    "keys", [SCRAM_KEYS, SCRAM_KEYS.replace("4096", "10000000"), SCRAM_KEYS.replace("4096", "8192")]
)
def test_scram_keys_stand_beside_a_hash_or_alone(keys: str) -> None:
    users = [{**HASHED_USER, "scram": keys}, {"name": "cleo", "scram": keys}]
    accepted = Settings.model_validate({"users": users})
    assert [user.scram for user in accepted.users] == [keys, keys]
    assert SCRAM_KEY not in repr(accepted.users)


def test_a_password_needs_no_scram_keys() -> None:
    assert problems_of(users=[{**GOOD_USER, "scram": SCRAM_KEYS}]) == [
        ("users.0", "scram should not be given beside password, which it is made of")
    ]
