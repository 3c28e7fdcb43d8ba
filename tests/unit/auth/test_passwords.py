"""Hashes are RabbitMQ's, octet for octet; a refused login takes as long whatever was wrong."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.auth import passwords
from hareline.auth.passwords import (
    ALGORITHMS,
    PROVEN_MAX,
    PasswordCheck,
    ProvenPasswords,
    StoredHash,
    check_hash,
    hash_password,
    parse_hash,
    verify_password,
)
from hareline.auth.users import User, UserRegistry
from tests.support.examples import examples

SALT = bytes.fromhex("908dc60a")


def test_the_example_of_the_rabbitmq_documentation_verifies() -> None:
    """Password test12, salt 908DC60A: worked out step by step in RabbitMQ's guide to passwords."""
    stored = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert parse_hash(stored)[0] == SALT
    assert verify_password("test12", stored)
    assert not verify_password("test13", stored)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "md5"])
def test_a_hash_is_salt_and_digest_of_salt_and_password(algorithm: str) -> None:
    digest = hashlib.new(algorithm, SALT + "pässword".encode()).digest()
    stored = base64.b64encode(SALT + digest).decode()
    assert verify_password("pässword", stored, algorithm)
    assert not verify_password("password", stored, algorithm)
    assert not verify_password("", stored, algorithm)
    assert parse_hash(stored, algorithm) == (SALT, digest)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(sorted(ALGORITHMS)))
@settings(max_examples=examples(0.3))
def test_a_password_verifies_against_its_own_hash(password: str, algorithm: str) -> None:
    stored = hash_password(password, algorithm)
    assert verify_password(password, stored, algorithm)
    assert not verify_password(password + "x", stored, algorithm)


def test_two_hashes_of_one_password_differ_by_their_salt() -> None:
    assert len({hash_password("secret") for _ in range(8)}) == 8


def test_octets_that_are_not_utf8_are_hashed_as_they_came() -> None:
    stored = base64.b64encode(SALT + hashlib.sha256(SALT + b"\xff\xfe").digest()).decode()
    assert verify_password(b"\xff\xfe".decode("utf-8", "surrogateescape"), stored)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("not base64!", "password hash is not base64"),
        ("größe", "password hash is not base64"),
        ("kI3GC", "password hash is not base64"),
        ("", "password hash holds 0 octets, a salted sha256 hash has 36"),
        (base64.b64encode(bytes(68)).decode(), "holds 68 octets, a salted sha256 hash has 36"),
    ],
)
def test_a_bad_stored_hash_is_named(stored: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        verify_password("secret", stored)


def test_an_unknown_algorithm_is_named() -> None:
    text = "unknown password hashing algorithm 'crc32' \\(known: sha256, sha512, md5, argon2id\\)"
    with pytest.raises(ValueError, match=text):
        hash_password("secret", "crc32")
    with pytest.raises(ValueError, match=text):
        verify_password("secret", hash_password("secret"), "crc32")


def test_argon2id_is_one_of_the_algorithms() -> None:
    stored = hash_password("pässword", "argon2id")
    check_hash(stored, "argon2id")
    assert verify_password("pässword", stored, "argon2id")
    assert not verify_password("password", stored, "argon2id")


@pytest.mark.parametrize(("stored", "algorithm"), [("!", "sha256"), ("!", "argon2id")])
def test_a_hash_that_the_algorithm_does_not_have_is_refused(stored: str, algorithm: str) -> None:
    with pytest.raises(ValueError, match="hash"):
        check_hash(stored, algorithm)


# ----------------------------------------------------------------------------------- password check


SLOW = User("ann", hash_password("secret", "argon2id"), "argon2id")
QUICK = User("bob", hash_password("secret"))
KEYS_ALONE = User("eve", "")


def check_of(registry: UserRegistry, name: str, password: str = "wrong") -> PasswordCheck:
    return registry.check_of(name, password)


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_the_right_password_is_right(name: str) -> None:
    registry = UserRegistry([SLOW, QUICK])
    assert check_of(registry, name, "secret").is_right()
    assert not check_of(registry, name).is_right()
    assert not check_of(registry, name, "").is_right()


@pytest.mark.parametrize("name", ["ann", "bob", "eve", "nobody"])
def test_a_refused_check_computes_one_slow_hash_whoever_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []

    def counting(password: str, stored: str, algorithm: str) -> bool:
        computed.append(algorithm)
        return verify_password(password, stored, algorithm)

    monkeypatch.setattr(passwords, "verify_password", counting)
    check = check_of(UserRegistry([SLOW, QUICK, KEYS_ALONE]), name)
    assert check.is_slow
    assert not check.is_right()
    assert computed.count("argon2id") == 1


@pytest.mark.parametrize("name", ["bob", "eve", "nobody"])
def test_without_slow_hashes_no_check_is_slow(name: str) -> None:
    registry = UserRegistry([QUICK, KEYS_ALONE])
    assert not check_of(registry, name).is_slow
    registry.add(SLOW)
    assert check_of(registry, name).is_slow
    registry.remove("ann")
    assert not check_of(registry, name).is_slow


def test_the_decoy_is_like_the_slowest_hash() -> None:
    costly = SLOW.password_hash.replace("t=2", "t=5")
    registry = UserRegistry([SLOW, replace(SLOW, name="amy", password_hash=costly)])
    (decoy,) = check_of(registry, "nobody").decoys
    assert decoy.algorithm == "argon2id"
    assert "t=5" in decoy.text
    assert decoy.text not in (SLOW.password_hash, costly)


def test_a_password_that_was_right_is_found_again() -> None:
    registry, proven = UserRegistry([SLOW, QUICK]), ProvenPasswords()
    proven.add(check_of(registry, "ann", "secret"))
    assert check_of(registry, "ann", "secret") in proven
    assert check_of(registry, "ann", "secreT") not in proven
    assert check_of(registry, "bob", "secret") not in proven
    assert check_of(registry, "nobody", "secret") not in proven


def test_a_changed_password_is_not_found_any_more() -> None:
    registry, proven = UserRegistry([SLOW]), ProvenPasswords()
    proven.add(check_of(registry, "ann", "secret"))
    registry.add(replace(SLOW, password_hash=hash_password("secret", "argon2id")))
    assert check_of(registry, "ann", "secret") not in proven


def test_no_more_than_so_many_are_remembered() -> None:
    proven = ProvenPasswords()
    own = StoredHash("hash", "argon2id")
    first = PasswordCheck("ann", "0", own, ())
    for number in range(PROVEN_MAX + 1):
        proven.add(PasswordCheck("ann", str(number), own, ()))
    assert len(proven) == PROVEN_MAX
    assert first not in proven
    assert PasswordCheck("ann", str(PROVEN_MAX), own, ()) in proven


def test_a_password_is_not_shown() -> None:
    check = check_of(UserRegistry([SLOW]), "ann", "secret")
    assert repr(check) == "<PasswordCheck of 'ann'>"
