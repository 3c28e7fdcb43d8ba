"""Hashes by argon2id are the reference implementation's, and none may take too much."""

from __future__ import annotations

import re

import pytest

from hareline.auth.argon2id import Parameters, made_up_hash, new_hash, parse, verify

# Made by the argon2 command of the reference implementation: echo -n password | argon2 somesalt -id
REFERENCE = "$argon2id$v=19$m=4096,t=3,p=1$c29tZXNhbHQ$qLml5cbqFAO6YxVHhrSBHP0UWdxrIxkNcM8aMX3blzU"


def test_a_hash_of_the_reference_implementation_verifies() -> None:
    assert verify(b"password", REFERENCE)
    assert not verify(b"passwore", REFERENCE)
    assert parse(REFERENCE) == Parameters(memory_kib=4096, passes=3, lanes=1)
    assert parse(REFERENCE).cost == 12_288


def test_a_new_hash_has_owasps_parameters_and_a_salt_of_its_own() -> None:
    stored, other = new_hash(b"\xff\0"), new_hash(b"\xff\0")
    assert stored != other
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert verify(b"\xff\0", stored)
    assert not verify(b"\xff", stored)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("m=4096", "m=4294967295", "argon2id hash must read"),
        ("m=4096", "m=131073", "argon2id hash with m=131073; it must be from 8 to 131072"),
        ("m=4096", "m=7", "argon2id hash with m=7; it must be from 8"),
        ("t=3", "t=17", "argon2id hash with t=17, p=1; each must be from 1 to 16"),
        ("t=3", "t=0", "t=0"),
        ("p=1", "p=17", "p=17"),
        ("argon2id", "argon2i", "argon2id hash must read"),
        ("v=19", "v=16", "argon2id hash must read"),
        ("c29tZXNhbHQ", "c29tZXNhbHR", "argon2id hash must read"),
        ("c29tZXNhbHQ", "c29tZXNhbHQab", "argon2id hash must read"),
        ("c29tZXNhbHQ", "c29t", "argon2id hash must read"),
        ("lzU", "lz=", "argon2id hash must read"),
    ],
)
def test_a_hash_that_is_none_or_takes_too_much_is_refused(old: str, new: str, text: str) -> None:
    wrong = REFERENCE.replace(old, new)
    assert wrong != REFERENCE
    for refuse in (parse, lambda stored: verify(b"password", stored)):
        with pytest.raises(ValueError, match=re.escape(text)) as error:
            refuse(wrong)
        assert "qLml5cbq" not in str(error.value)


@pytest.mark.parametrize("like", ["", REFERENCE])
def test_a_made_up_hash_takes_as_long_and_matches_nothing(like: str) -> None:
    made_up = made_up_hash(like)
    assert parse(made_up) == (parse(like) if like else Parameters(19_456, 2, 1))
    assert not verify(b"password", made_up)
    assert made_up_hash(like) != made_up
