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
