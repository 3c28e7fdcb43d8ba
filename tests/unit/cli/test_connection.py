"""``hareline connection close``: by name, by user, all."""

from __future__ import annotations

import pytest

from tests.support.scripted_api import ScriptedApi

from .conftest import Run

NAME = "127.0.0.1:1 -> 127.0.0.1:2"
ENCODED = "127.0.0.1%3A1%20-%3E%20127.0.0.1%3A2"


def test_a_connection_is_closed_with_a_reason(run: Run, api: ScriptedApi) -> None:
    api.will("DELETE", f"/connections/{ENCODED}", status=204)
    result = run("connection", "close", NAME, "--reason", "maintenance")
    assert (result.exit_code, result.stdout) == (0, f"connection '{NAME}': closed\n")
    assert api.last.headers["X-Reason"] == "maintenance"


def test_all_of_a_user_are_closed_and_one_that_has_ended_does_not_matter(
    run: Run, api: ScriptedApi
) -> None:
    api.will("GET", "/connections/username/ann", [{"name": NAME}, {"name": "gone"}])
    api.will("DELETE", f"/connections/{ENCODED}", status=204)
    result = run("connection", "close", "--of-user", "ann", "--json")
    assert (result.exit_code, result.stdout) == (0, '{\n  "closed": 1\n}\n')


def test_all_are_closed(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/connections", {"items": [{"name": NAME}], "page_count": 1})
    api.will("DELETE", f"/connections/{ENCODED}", status=204)
    assert run("connection", "close", "--all").stdout == "1 connections closed\n"


def test_a_refusal_ends_it(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/connections", [{"name": NAME}])
    api.will("DELETE", f"/connections/{ENCODED}", {"reason": "not yours"}, 403)
    result = run("connection", "close", "--all")
    assert (result.exit_code, result.stderr) == (5, "hareline: guest: not yours\n")


@pytest.mark.parametrize("arguments", [(), ("x", "--all"), ("--all", "--of-user", "ann")])
def test_it_must_be_clear_which(run: Run, arguments: tuple[str, ...]) -> None:
    result = run("connection", "close", *arguments)
    assert (result.exit_code, result.stderr) == (
        2,
        "hareline: give NAME, --of-user or --all\n",
    )
