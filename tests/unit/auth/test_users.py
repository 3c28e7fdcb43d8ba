"""Only the right password from the right place lets a user in."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from hareline.auth import passwords, users
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import ALL_PERMISSIONS, Permissions
from hareline.auth.scram import PasswordKeys, new_keys, salt_of
from hareline.auth.users import User, UserRegistry
from tests.support.login_work import authenticate


@pytest.fixture
def guest() -> User:
    return User("guest", hash_password("guest"), permissions={"/": ALL_PERMISSIONS})


@pytest.fixture
def alice() -> User:
    return User("alice", hash_password("sécret", "sha512"), "sha512", frozenset({"administrator"}))


@pytest.fixture
def registry(guest: User, alice: User) -> UserRegistry:
    return UserRegistry([guest, alice])


def test_the_right_password_gives_the_user(registry: UserRegistry, alice: User) -> None:
    assert authenticate(registry, "alice", "sécret", is_loopback=False) is alice
    assert authenticate(registry, "alice", "sécret", is_loopback=True) is alice


@pytest.mark.parametrize(
    ("name", "password"), [("alice", "secret"), ("alice", ""), ("bob", "sécret"), ("", "")]
)
def test_anything_else_gives_nobody(registry: UserRegistry, name: str, password: str) -> None:
    assert authenticate(registry, name, password, is_loopback=True) is None


def test_guest_comes_from_this_machine_only(registry: UserRegistry, guest: User) -> None:
    assert authenticate(registry, "guest", "guest", is_loopback=True) is guest
    assert authenticate(registry, "guest", "guest", is_loopback=False) is None
    assert registry.is_loopback_only("guest")
    assert not registry.is_loopback_only("alice")


def test_the_loopback_rule_is_a_list_of_names(guest: User, alice: User) -> None:
    registry = UserRegistry([guest, alice], loopback_users=["alice"])
    assert authenticate(registry, "guest", "guest", is_loopback=False) is guest
    assert authenticate(registry, "alice", "sécret", is_loopback=False) is None


def test_a_blank_password_is_refused_even_if_its_hash_is_stored() -> None:
    registry = UserRegistry([User("blank", hash_password("")), User("none", "")])
    assert authenticate(registry, "blank", "", is_loopback=True) is None
    assert authenticate(registry, "none", "", is_loopback=True) is None


@pytest.mark.parametrize("name", ["guest", "unknown", "none"])
def test_one_hash_is_made_whoever_asks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = UserRegistry([User("guest", hash_password("guest")), User("none", "")])
    calls: list[bytes] = []

    def counting(octets: bytes = b"") -> Any:
        if octets:
            calls.append(octets)
        return hashlib.sha256(octets)

    monkeypatch.setattr(passwords, "ALGORITHMS", {"sha256": counting})
    assert authenticate(registry, name, "wrong", is_loopback=True) is None
    assert [octets[passwords.SALT_OCTETS :] for octets in calls] == [b"wrong"]


def test_replacing_the_users_names_those_that_are_gone(registry: UserRegistry, alice: User) -> None:
    bob = User("bob", hash_password("b"))
    assert registry.replace([alice, bob]) == {"guest"}
    assert registry.lookup("guest") is None
    assert registry.lookup("bob") is bob
    assert registry.is_loopback_only("guest")
    assert registry.replace([bob], loopback_users=[]) == {"alice"}
    assert not registry.is_loopback_only("guest")


def test_a_name_defined_twice_changes_nothing(registry: UserRegistry, alice: User) -> None:
    with pytest.raises(ValueError, match="user 'alice' is defined twice"):
        registry.replace([alice, alice], loopback_users=[])
    assert sorted(user.name for user in registry) == ["alice", "guest"]
    assert registry.is_loopback_only("guest")


def test_users_are_added_changed_and_removed_one_by_one(registry: UserRegistry) -> None:
    registry.add(User("bob", hash_password("one")))
    registry.add(User("bob", hash_password("two")))
    assert len(registry) == 3
    assert "bob" in registry
    assert authenticate(registry, "bob", "one", is_loopback=True) is None
    bob = authenticate(registry, "bob", "two", is_loopback=True)
    assert bob is not None
    assert registry.remove("bob") is bob
    assert registry.remove("bob") is None
    assert "bob" not in registry


def test_a_user_with_an_unusable_hash_is_named() -> None:
    with pytest.raises(ValueError, match="user 'carol': password hash is not base64"):
        User("carol", "!")
    with pytest.raises(
        ValueError, match="user 'carol': unknown password hashing algorithm 'rot13'"
    ):
        User("carol", hash_password("x"), "rot13")
    with pytest.raises(ValueError, match="a user needs a name"):
        User("", hash_password("x"))


def test_a_user_does_not_show_the_hash_nor_share_its_permissions(guest: User) -> None:
    assert guest.password_hash not in repr(guest)
    permissions = {"/": ALL_PERMISSIONS}
    user = User("dave", "", permissions=permissions)
    permissions["other"] = Permissions("", "", "")
    assert list(user.permissions) == ["/"]
    assert users.DEFAULT_LOOPBACK_USERS == ("guest",)


# -------------------------------------------------------------------------------- SCRAM


def keyed(name: str, password: str = "pencil") -> User:
    return User(name, hash_password(password), scram=PasswordKeys(password, salt_of(name)))


@pytest.mark.row("S10")
def test_scram_is_for_all_while_every_user_has_keys() -> None:
    registry = UserRegistry([keyed("guest"), User("alice", "", scram=new_keys("x"))])
    bob = User("bob", hash_password("b"))
    seen = [registry.is_scram_for_all]
    registry.add(bob)
    seen.append(registry.is_scram_for_all)
    registry.remove("bob")
    seen.append(registry.is_scram_for_all)
    registry.replace([bob])
    seen.append(registry.is_scram_for_all)
    assert seen == [True, False, True, False]


def test_users_that_nothing_lets_in_do_not_count() -> None:
    assert UserRegistry([keyed("guest"), User("nobody", "")]).is_scram_for_all
    assert not UserRegistry([User("nobody", "")]).is_scram_for_all


@pytest.mark.row("S10")
@pytest.mark.parametrize("user", [keyed("é"), keyed("a\tb"), keyed("guest", "pässword")])
def test_clients_that_know_ascii_alone_are_not_led_into_scram(user: User) -> None:
    assert not UserRegistry([user]).is_scram_for_all


def test_the_salt_of_a_user_and_of_a_stranger_stay_the_same() -> None:
    stored = new_keys("x")
    registry = UserRegistry([keyed("guest"), User("alice", "", scram=stored)])
    before = [registry.scram_salt(name) for name in ("guest", "alice", "stranger", "gone")]
    assert before[1] == (stored.salt, 4096)
    registry.replace([keyed("guest"), User("alice", "", scram=stored)])
    after = [registry.scram_salt(name) for name in ("guest", "alice", "stranger", "gone")]
    assert before == after
    assert len({salt for salt, _ in after}) == 4
    assert {len(salt) for salt, _ in after} == {16}


def test_the_keys_of_a_user_are_its_passwords_and_a_strangers_fit_none() -> None:
    registry = UserRegistry([keyed("guest"), User("plain", hash_password("p"))])
    assert registry.scram_keys("guest") == PasswordKeys("pencil", salt_of("guest")).derive()
    for name in ("stranger", "plain"):
        assert registry.scram_keys(name).salt == salt_of(name)
        assert registry.scram_keys(name) != registry.scram_keys(name)
    assert [registry.has_keys(name) for name in ("guest", "plain", "stranger")] == [
        *(True, False, False)
    ]


@pytest.mark.parametrize("asked", ["underived", "derived", "stored", "keyless", "stranger"])
def test_keys_cost_the_same_whoever_asks(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = UserRegistry(
        [
            keyed("underived"),
            keyed("also underived"),
            keyed("derived"),
            User("stored", "", scram=new_keys("x")),
            User("keyless", hash_password("p")),
        ]
    )
    registry.scram_keys("derived")
    calls: list[int] = []
    derive = hashlib.pbkdf2_hmac

    def counting(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        calls.append(iterations)
        return derive(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counting)
    registry.scram_keys(asked)
    assert calls == [4096]  # some keys are still to be derived
    while (keys := registry.next_underived()) is not None:
        keys.derive()
    calls.clear()
    registry.scram_keys(asked)
    assert calls == []


def test_the_next_keys_to_derive_are_those_that_nobody_derived() -> None:
    registry = UserRegistry([keyed(name) for name in ("a", "b", "c")])
    registry.scram_keys("b")
    derived = []
    while (keys := registry.next_underived()) is not None:
        keys.derive()
        derived.append(keys)
    assert [keys.salt for keys in derived] == [salt_of("c"), salt_of("a")]


def test_a_proven_user_is_admitted_from_the_right_place(registry: UserRegistry) -> None:
    assert registry.admit("guest", is_loopback=True) is registry.lookup("guest")
    assert registry.admit("guest", is_loopback=False) is None
    assert registry.admit("alice", is_loopback=False) is registry.lookup("alice")
    assert registry.admit("stranger", is_loopback=True) is None
