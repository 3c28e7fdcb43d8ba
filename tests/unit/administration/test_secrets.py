"""What is stored of a password verifies it, by the algorithm that it names."""

from __future__ import annotations

from base64 import b64encode

import pytest

from hareline.administration.checks import AdministrationError
from hareline.administration.users import algorithm_name, algorithm_of, is_same, secret_of
from hareline.auth.passwords import verify_password
from hareline.auth.scram import ScramKeys, derive_keys
from hareline.auth.users import User
from hareline.storage.administration import UserRecord


@pytest.mark.parametrize("algorithm", ["argon2id", "sha512"])
def test_a_secret_verifies_its_password(algorithm: str) -> None:
    secret = secret_of("pässword", algorithm)
    assert secret.hashing == algorithm
    assert verify_password("pässword", secret.password_hash, algorithm)
    keys = ScramKeys.parse(secret.scram)
    assert keys == derive_keys("pässword", keys.salt)


def test_new_passwords_get_a_slow_hash() -> None:
    assert secret_of("secret").hashing == "argon2id"


def test_a_password_that_scram_cannot_use_has_no_keys() -> None:
    assert secret_of("bell\a", "sha256").scram == ""


@pytest.mark.parametrize(
    ("given", "stored", "algorithm"),
    [
        (None, "", "sha256"),
        (None, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "sha256"),
        (None, "$argon2id$v=19$m=8,t=1,p=1$salt$digest", "argon2id"),
        (None, b64encode(bytes(4 + 64)).decode(), "sha512"),
        (None, b64encode(bytes(4 + 16)).decode(), "md5"),
        (None, "nonsense", "sha256"),
        ("sha512", "", "sha512"),
        ("rabbit_password_hashing_sha512", "", "sha512"),
        ("rabbit_password_hashing_argon2id", "", "argon2id"),
    ],
)
def test_a_hash_says_its_algorithm_or_has_it_said(
    given: str | None, stored: str, algorithm: str
) -> None:
    assert algorithm_of(given, stored) == algorithm
    assert algorithm_of(algorithm_name(algorithm)) == algorithm


def test_an_unknown_algorithm_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(AdministrationError, match=r"'rot13' is not known; known are: .*argon2id"):
        algorithm_of("rot13")


@pytest.mark.parametrize(
    ("password", "tags", "is_the_same"),
    [("secret", ("a", "b"), True), ("other", ("a", "b"), False), ("secret", ("a",), False)],
)
def test_a_record_that_asks_for_what_is_there_is_recognised(
    password: str, tags: tuple[str, ...], is_the_same: bool
) -> None:
    stored = secret_of("secret", "sha256")
    user = User("ann", stored.password_hash, "sha256", frozenset({"a", "b"}))
    record = UserRecord("ann", stored.password_hash, "sha256", "", tags, {}, is_own=True)
    assert is_same(user, record, password) is is_the_same
    assert is_same(user, record, None) is (tags == ("a", "b"))
