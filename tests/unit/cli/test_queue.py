"""``hareline queue``: declare, delete, pause, resume."""

from __future__ import annotations

import pytest

from tests.support.scripted_api import ScriptedApi

from .conftest import Run


def test_declare_sends_type_and_arguments(run: Run, api: ScriptedApi) -> None:
    api.will("PUT", "/queues/%2F/q", status=201)
    flags = ["--type", "quorum", "--transient", "--auto-delete", "-a", "x-max-length=5"]
    result = run("queue", "declare", "q", *flags)
    assert (result.exit_code, result.stdout) == (0, "queue 'q' in vhost '/': declared\n")
    assert api.last.body == {
        "durable": False,
        "auto_delete": True,
        "arguments": {"x-max-length": 5, "x-queue-type": "quorum"},
    }
    api.will("PUT", "/queues/%2F/q", status=204)
    assert run("queue", "declare", "q", "--json").stdout == '{\n  "created": false\n}\n'


def test_a_queue_that_is_different_is_refused_in_the_broker_s_words(
    run: Run, api: ScriptedApi
) -> None:
    reason = "406 PRECONDITION_FAILED - inequivalent arg 'durable'"
    api.will("PUT", "/queues/%2F/q", {"error": "bad_request", "reason": reason}, 400)
    result = run("queue", "declare", "q")
    assert (result.exit_code, result.stderr) == (
        1,
        f"hareline: queue 'q' in vhost '/': {reason}\n",
    )


def test_delete_sends_its_conditions(run: Run, api: ScriptedApi) -> None:
    api.will("DELETE", "/queues/v/q", status=204)
    result = run("queue", "delete", "q", "--vhost", "v", "--if-empty", "--if-unused")
    assert (result.exit_code, result.stdout) == (0, "queue 'q' in vhost 'v': deleted\n")
    assert api.last.query == {"if-empty": "true", "if-unused": "true"}


def test_pause_and_resume(run: Run, api: ScriptedApi) -> None:
    for operation, said in (("pause", "paused"), ("resume", "resumed")):
        api.will("POST", f"/queues/%2F/q/{operation}", status=204)
        result = run("queue", operation, "q")
        assert (result.exit_code, result.stdout) == (0, f"queue 'q' in vhost '/': {said}\n")


def test_a_queue_that_is_gone_is_not_found(run: Run) -> None:
    result = run("queue", "pause", "q")
    assert (result.exit_code, result.stderr) == (4, "hareline: no queue 'q' in vhost '/'\n")


def test_a_broker_without_the_operation_is_said_to_be_one(run: Run, api: ScriptedApi) -> None:
    api.will("POST", "/queues/%2F/q/pause", {"error": "Method Not Allowed"}, 405)
    result = run("queue", "pause", "q")
    assert result.exit_code == 1
    assert result.stderr == f"hareline: {api.url}: this broker has no `pause`\n"


def test_durable_can_be_said(run: Run, api: ScriptedApi) -> None:
    api.will("PUT", "/queues/%2F/q", status=201)
    assert run("queue", "declare", "q", "--durable").exit_code == 0
    assert api.last.body["durable"] is True


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("queue", "list"), "queues list"),
        (("queues", "declare", "q"), "queue declare"),
        (("exchange", "show", "x"), "exchanges show"),
        (("connections", "close", "x"), "connection close"),
    ],
)
def test_a_command_of_the_other_group_is_suggested(
    run: Run, typed: tuple[str, ...], meant: str
) -> None:
    result = run(*typed)
    assert result.exit_code == 2
    assert f"No such command '{typed[1]}'. Did you mean 'hareline {meant}'?" in result.stderr


def test_arguments_in_force_are_listed_with_what_decides_them(run: Run, api: ScriptedApi) -> None:
    row = {"name": "x-max-length", "value": 5, "origin": "policy", "origin_name": "p"}
    api.will("GET", "/hareline/queues/%2F/q/effective-arguments", {"arguments": [row]})
    assert run("queue", "arguments", "q").stdout == "x-max-length\t5\tpolicy\tp\n"
