"""Only the right password from the right place lets a user in."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from hareline.auth import passwords, users
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import ALL_PERMISSIONS, Permissions
from hareline.auth.users import User, UserRegistry


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
    assert registry.authenticate("alice", "sécret", is_loopback=False) is alice
    assert registry.authenticate("alice", "sécret", is_loopback=True) is alice


@pytest.mark.parametrize(
    ("name", "password"), [("alice", "secret"), ("alice", ""), ("bob", "sécret"), ("", "")]
)
def test_anything_else_gives_nobody(registry: UserRegistry, name: str, password: str) -> None:
    assert registry.authenticate(name, password, is_loopback=True) is None


def test_guest_comes_from_this_machine_only(registry: UserRegistry, guest: User) -> None:
    assert registry.authenticate("guest", "guest", is_loopback=True) is guest
    assert registry.authenticate("guest", "guest", is_loopback=False) is None
    assert registry.is_loopback_only("guest")
    assert not registry.is_loopback_only("alice")


def test_the_loopback_rule_is_a_list_of_names(guest: User, alice: User) -> None:
    registry = UserRegistry([guest, alice], loopback_users=["alice"])
    assert registry.authenticate("guest", "guest", is_loopback=False) is guest
    assert registry.authenticate("alice", "sécret", is_loopback=False) is None


def test_a_blank_password_is_refused_even_if_its_hash_is_stored() -> None:
    registry = UserRegistry([User("blank", hash_password("")), User("none", "")])
    assert registry.authenticate("blank", "", is_loopback=True) is None
    assert registry.authenticate("none", "", is_loopback=True) is None


@pytest.mark.parametrize("name", ["guest", "unknown", "none"])
def test_one_hash_is_made_whoever_asks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = UserRegistry([User("guest", hash_password("guest")), User("none", "")])
    calls: list[bytes] = []

    def counting(octets: bytes = b"") -> Any:
        if octets:
            calls.append(octets)
        return hashlib.sha256(octets)

    monkeypatch.setattr(passwords, "ALGORITHMS", {"sha256": counting})
    assert registry.authenticate(name, "wrong", is_loopback=True) is None
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
    assert registry.authenticate("bob", "one", is_loopback=True) is None
    bob = registry.authenticate("bob", "two", is_loopback=True)
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
