"""``hareline policy``: list, set, clear."""

from __future__ import annotations

import pytest

from tests.support.scripted_api import ScriptedApi

from .conftest import Run

ROW = {
    "vhost": "/",
    "name": "p",
    "pattern": "^a",
    "apply-to": "all",
    "priority": 1,
    "definition": {"max-length": 5},
}


def test_policies_are_listed(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/policies", [ROW])
    assert run("policy", "list").stdout == '/\tp\t^a\tall\t1\t{"max-length": 5}\n'
    api.will("GET", "/operator-policies/v", [])
    assert run("policy", "list", "--operator", "--vhost", "v").exit_code == 0


def test_a_policy_that_is_not_applied_to_some_names_is_named(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/policies", [ROW | {"slow_names": ["aab\x1b", "aac"], "slow_count": 3}])
    result = run("policy", "list")
    assert result.exit_code == 0
    assert result.stdout == '/\tp\t^a\tall\t1\t{"max-length": 5}\n'
    assert result.stderr == (
        "policy 'p' in vhost '/': its pattern takes too long for 3 names, such as 'aab\\x1b', and "
        "it is not applied to these; make the pattern simpler\n"
    )


@pytest.mark.parametrize(
    "definition", [("max-length=5", "overflow=reject"), ('{"max-length":5,"overflow":"reject"}',)]
)
def test_a_policy_is_set_from_pairs_or_json(
    run: Run, api: ScriptedApi, definition: tuple[str, ...]
) -> None:
    api.will("PUT", "/policies/%2F/p", status=201)
    result = run("policy", "set", "p", "^a", *definition, "--apply-to", "queues", "--priority", "3")
    assert (result.exit_code, result.stdout) == (0, "policy 'p' in vhost '/': set\n")
    assert api.last.body == {
        "pattern": "^a",
        "priority": 3,
        "apply-to": "queues",
        "definition": {"max-length": 5, "overflow": "reject"},
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("(", "a=1"), "PATTERN: '(' is not a regular expression"),
        (("^a", "max-length"), "DEFINITION: 'max-length' is not NAME=VALUE"),
        (("^a", "{"), "DEFINITION: '{' is not JSON"),
        (("^a", "a=1", "--apply-to", "cats"), "'cats' is not one of all, queues"),
    ],
)
def test_a_mistake_is_not_sent(
    run: Run, api: ScriptedApi, arguments: tuple[str, ...], problem: str
) -> None:
    result = run("policy", "set", "p", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not api.asked


def test_a_policy_is_cleared(run: Run, api: ScriptedApi) -> None:
    api.will("DELETE", "/policies/%2F/p", status=204)
    assert run("policy", "clear", "p").stdout == "policy 'p' in vhost '/': cleared\n"
    assert run("policy", "clear", "p", "--operator").exit_code == 4


def test_a_dry_run_lists_what_would_change_and_sets_nothing(run: Run, api: ScriptedApi) -> None:
    row = {"name": "a", "type": "classic", "policy": "p", "operator_policy": None, "decides": True}
    changes = [{"name": "x-max-length", "before": None, "after": 5}]
    api.will(
        "POST", "/hareline/policies/%2F/p/preview", [row | {"changes": changes, "problem": None}]
    )
    result = run("policy", "set", "p", "^a", "max-length=5", "--dry-run")
    assert (result.exit_code, result.stdout) == (
        0,
        "a\tclassic\tp\t\tx-max-length null -> 5\t\n",
    )
    assert [each.method for each in api.asked] == ["POST"]
