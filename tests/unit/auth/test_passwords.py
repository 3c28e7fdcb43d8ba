"""Hashes are RabbitMQ's, octet for octet, and bad ones say what is wrong with them."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.auth.passwords import (
    ALGORITHMS,
    check_hash,
    hash_password,
    parse_hash,
    verify_password,
)
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
