"""Credentials of users, and access rules: mistakes, and the results."""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Any

import pytest

from hareline.auth.passwords import check_hash
from hareline.server import assemble
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


ARGON2ID = "$argon2id$v=19$m=4096,t=3,p=1$c29tZXNhbHQ$qLml5cbqFAO6YxVHhrSBHP0UWdxrIxkNcM8aMX3blzU"


@pytest.mark.parametrize("given", [{}, {"hashing": "argon2id"}, {"hashing": "sha512"}])
def test_a_hash_by_argon2id_says_so_itself(given: dict[str, str]) -> None:
    user = {"name": "ann", "password_hash": ARGON2ID, **given}
    assert Settings.model_validate({"users": [user]}).users[0].algorithm == "argon2id"


@pytest.mark.parametrize(
    ("old", "new"),
    [("m=4096", "m=131073"), ("m=4096", "m=7"), ("t=3", "t=17"), ("p=1", "p=0"), ("lzU", "l!")],
)
def test_a_hash_by_argon2id_that_logins_would_not_take_is_refused(old: str, new: str) -> None:
    wrong = ARGON2ID.replace(old, new)
    ((place, _),) = problems_of(users=[{"name": "ann", "password_hash": wrong}])
    assert place == "users.0.password_hash"
    with pytest.raises(ValueError, match="argon2id"):  # as the login would
        check_hash(wrong, "argon2id")


def test_another_hash_is_none_by_argon2id() -> None:
    user = {"name": "ann", "password_hash": hash_of(32), "hashing": "argon2id"}
    ((place, text),) = problems_of(users=[user])
    assert (place, "$argon2id$" in text) == ("users.0.password_hash", True)


# ------------------------------------------------------------------------------------- access rules


@pytest.mark.parametrize(
    ("given", "place", "message"),
    [
        ({}, "access_rules.0.rule", "Field required"),
        ({"rule": "maybe"}, "access_rules.0.rule", "'allow', 'deny', 'allow-log' or 'deny-log'"),
        ({"rule": "deny", "name": "("}, "access_rules.0.name", "regular expression"),
        ({"rule": "deny", "rights": ["publish"]}, "access_rules.0.rights.0", "'write'"),
        (
            {"rule": "deny", "from_networks": ["10.0.0.1/8"]},
            "access_rules.0.from_networks",
            "10.0.0.1/8 has host bits set",
        ),
        ({"rule": "deny", "user": "bob"}, "access_rules.0.user", "not permitted"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], place: str, message: str) -> None:
    ((found, text),) = problems_of(access_rules=[given])
    assert found == place
    assert message in text


def test_rules_keep_their_order_and_their_numbers() -> None:
    given = [
        {"rule": "deny-log", "users": ["ann"], "from_networks": ["10.0.0.0/8", "::1"]},
        {"rule": "allow", "name": "^q", "rights": ["read"], "objects": ["queue"]},
    ]
    settings = Settings.model_validate({"access_rules": given})
    first, second = assemble.access_rules(settings, lambda *_: None).rules
    assert (first.number, first.is_allowed, first.is_logged) == (1, False, True)
    assert first.networks == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))
    assert (second.number, second.is_allowed, second.is_logged) == (2, True, False)
    assert second.matches("read", "queue", "q1", None)
    assert not second.matches("read", "queue", "other", None)
    assert first.name is None


def test_equal_settings_make_equal_rules_so_that_a_reload_changes_nothing() -> None:
    given = [{"rule": "deny", "routing_key": "^k", "from_networks": ["10.0.0.0/8"]}]
    one, other = (
        assemble.access_rules(Settings.model_validate({"access_rules": given}), lambda *_: None)
        for _ in range(2)
    )
    assert one == other
