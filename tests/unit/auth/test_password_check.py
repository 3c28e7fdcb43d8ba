"""A refused login takes as long whatever was wrong with it, and what was right is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hareline.auth import password_check
from hareline.auth.password_check import PROVEN_MAX, PasswordCheck, ProvenPasswords, StoredHash
from hareline.auth.passwords import hash_password, verify_password
from hareline.auth.users import User, UserRegistry

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

    monkeypatch.setattr(password_check, "verify_password", counting)
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
