"""``hareline user``: passwords never on the command line, rights that are not named stay."""

from __future__ import annotations

import json

from tests.support.scripted_api import ScriptedApi

from .conftest import Run

ANN = {"name": "ann", "tags": ["monitoring"], "password_hash": "h", "hashing_algorithm": "x"}


def test_users_are_listed(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/users", [ANN, {"name": "bob", "tags": "a,b"}])
    assert run("user", "list").stdout == "ann\tmonitoring\nbob\ta,b\n"


def test_a_user_is_added_with_a_password_from_the_input(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/users", [ANN])
    api.will("PUT", "/users/bob", status=201)
    result = run("user", "add", "bob", "--tag", "a", "--tag", "b", text="geheim\nmore\n")
    assert (result.exit_code, result.stdout) == (0, "user 'bob': added\n")
    assert api.last.body == {"password": "geheim", "tags": "a,b"}
    result = run("user", "add", "bob", "--password-hash", "abc")
    assert api.last.body == {"password_hash": "abc", "tags": ""}


def test_a_user_that_exists_is_not_added_again(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/users", [ANN])
    result = run("user", "add", "ann", text="x\n")
    assert result.exit_code == 1
    assert "user 'ann' exists" in result.stderr
    assert not api.of("PUT")


def test_without_a_password_nothing_is_changed(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/users", [])
    result = run("user", "add", "bob", text="")
    assert (result.exit_code, result.stderr) == (2, "hareline: no password on standard input\n")


def test_a_new_password_keeps_the_tags(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/users/ann", ANN)
    api.will("PUT", "/users/ann", status=204)
    assert run("user", "passwd", "ann", text="neu\n").exit_code == 0
    assert api.last.body == {"password": "neu", "tags": "monitoring"}


def test_a_rotated_password_is_new_and_printed_once(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/users/ann", ANN)
    api.will("PUT", "/users/ann", status=204)
    passwords = set()
    for _ in range(2):
        result = run("user", "rotate", "ann")
        password = result.stdout.removesuffix("\n")
        assert (result.exit_code, result.stderr, len(password)) == (0, "", 32)
        assert api.last.body == {"password": password, "tags": "monitoring"}
        passwords.add(password)
    assert len(passwords) == 2
    answer = json.loads(run("user", "rotate", "ann", "--json").stdout)
    assert answer == {"changed": "ann", "password": api.last.body["password"]}
    assert run("user", "rotate", "bob").exit_code == 4


def test_new_tags_keep_the_password(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/users/ann", ANN)
    api.will("PUT", "/users/ann", status=204)
    assert run("user", "tags", "ann", "a", "b").stdout == "user 'ann': tags a,b\n"
    assert api.last.body == {"tags": "a,b", "password_hash": "h", "hashing_algorithm": "x"}
    assert run("user", "tags", "ann").stdout == "user 'ann': tags none\n"


def test_a_right_that_is_not_named_stays(run: Run, api: ScriptedApi) -> None:
    rows = [{"user": "ann", "vhost": "/", "configure": "", "write": "w", "read": "r"}]
    api.will("GET", "/users/ann/permissions", rows)
    api.will("PUT", "/permissions/%2F/ann", status=204)
    api.will("DELETE", "/permissions/%2F/ann", status=204)
    assert run("user", "permissions", "ann").stdout == "ann\t/\t\tw\tr\n"
    assert run("user", "permissions", "ann", "--vhost", "v").stdout == ""
    assert run("user", "permissions", "ann", "--read", ".*").exit_code == 0
    assert api.last.body == {"configure": "", "write": "w", "read": ".*"}
    assert run("user", "permissions", "ann", "--clear").exit_code == 0
    result = run("user", "permissions", "ann", "--read", "(")
    assert result.exit_code == 2
    assert run("user", "permissions", "ann", "--clear", "--read", "x").exit_code == 2


def test_a_user_is_deleted(run: Run, api: ScriptedApi) -> None:
    api.will("DELETE", "/users/ann", status=204)
    assert run("user", "delete", "ann").stdout == "user 'ann': deleted\n"
    assert run("user", "delete", "bob").exit_code == 4
