"""``hareline exchange``, ``bind`` and ``unbind``: what is asked, and what is said."""

from __future__ import annotations

from tests.support.scripted_api import ScriptedApi

from .conftest import Run


def test_declare_sends_everything(run: Run, api: ScriptedApi) -> None:
    api.will("PUT", "/exchanges/v/e", status=201)
    flags = ["--type", "topic", "--transient", "--auto-delete", "--internal", "-a", "x=1"]
    result = run("exchange", "declare", "e", "--vhost", "v", *flags)
    assert (result.exit_code, result.stdout) == (0, "exchange 'e' in vhost 'v': declared\n")
    assert api.last.body == {
        "type": "topic",
        "durable": False,
        "auto_delete": True,
        "internal": True,
        "arguments": {"x": 1},
    }


def test_declare_again_is_no_error(run: Run, api: ScriptedApi) -> None:
    api.will("PUT", "/exchanges/%2F/e", status=204)
    assert run("exchange", "declare", "e").stdout == "exchange 'e' in vhost '/': exists\n"


def test_delete_of_what_is_not_there_ends_with_4(run: Run, api: ScriptedApi) -> None:
    result = run("exchange", "delete", "e", "--if-unused")
    assert (result.exit_code, result.stderr) == (4, "hareline: no exchange 'e' in vhost '/'\n")
    assert api.last.query == {"if-unused": "true"}


def test_bind_and_unbind(run: Run, api: ScriptedApi) -> None:
    path = "/bindings/%2F/e/e/q/q"
    api.will("POST", path, status=201)
    assert run("bind", "e", "q", "-k", "k", "-a", "n=1").stdout == "bound 'q' to 'e'\n"
    assert api.last.body == {"routing_key": "k", "arguments": {"n": 1}}
    rows = [
        {"routing_key": "k", "arguments": {}, "properties_key": "k"},
        {"routing_key": "k", "arguments": {"n": 1}, "properties_key": "k~x/y"},
    ]
    api.will("GET", path, rows)
    api.will("DELETE", f"{path}/k~x%2Fy", status=204)
    assert run("unbind", "e", "q", "-k", "k", "-a", "n=1").stdout == "unbound 'q' from 'e'\n"
    result = run("unbind", "e", "q", "-k", "other")
    assert result.exit_code == 4
    assert "no binding from 'e' to 'q' with routing key 'other'" in result.stderr


def test_exchanges_can_be_bound(run: Run, api: ScriptedApi) -> None:
    api.will("POST", "/bindings/%2F/e/a/e/b", status=201)
    assert run("bind", "a", "b", "--to-exchange").exit_code == 0


def test_delayed_messages_are_listed_with_their_schedules(run: Run, api: ScriptedApi) -> None:
    schedule = {"id": "morning", "cron": "30 7 * * *", "period_ms": 0, "repeat": 0, "fired": 3}
    message = {"offset": 7, "due_ms": 0, "routing_key": "k", "payload_bytes": 5}
    page = {"messages": [{**message, "schedule": schedule}, message], "position": None, "held": 2}
    api.will("GET", "/exchanges/%2F/jobs/delayed", page)
    rows = run("exchange", "delayed", "jobs").stdout.splitlines()
    assert [row.split("\t")[4:] for row in rows[-2:]] == [
        ["morning", "30 7 * * *", "0", "0", "3"],
        ["", "", "", "", ""],
    ]


def test_schedules_are_cancelled_by_their_ids(run: Run, api: ScriptedApi) -> None:
    api.will("POST", "/exchanges/%2F/jobs/delayed/cancel", {"cancelled": 1})
    result = run("exchange", "cancel-delayed", "jobs", "--schedule", "a", "--schedule", "b")
    assert api.last.body == {"schedules": ["a", "b"], "offsets": []}
    assert result.stdout == "exchange 'jobs' in vhost '/': 1 message cancelled\n"
    assert (result.exit_code, result.stderr) == (4, "hareline: 1 of those named are not delayed\n")
    api.will("POST", "/exchanges/%2F/jobs/delayed/fire", {"fired": 2})
    assert run("exchange", "fire-delayed", "jobs", "--all").exit_code == 0
    assert api.last.body == {"all": True}
    result = run("exchange", "fire-delayed", "jobs")
    assert (result.exit_code, result.stderr) == (
        2,
        "hareline: say which: --schedule, --offset or --all\n",
    )
