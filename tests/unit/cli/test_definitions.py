"""``hareline definitions``: a private file out, a checked file in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scripted_api import ScriptedApi

from .conftest import Run

DEFINITIONS = {"rabbit_version": "3.10.8", "users": [{"name": "a"}], "queues": [{}, {}]}


def test_definitions_go_to_a_file_that_only_its_owner_can_read(
    run: Run, api: ScriptedApi, tmp_path: Path
) -> None:
    api.will("GET", "/definitions", DEFINITIONS)
    file = tmp_path / "d.json"
    result = run("definitions", "export", str(file))
    assert (result.exit_code, result.stdout) == (0, f"{file}: 1 users, 2 queues\n")
    assert json.loads(file.read_text()) == DEFINITIONS
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(run("definitions", "export").stdout) == DEFINITIONS


def test_those_of_one_virtual_host(run: Run, api: ScriptedApi) -> None:
    api.will("GET", "/definitions/shop", {"queues": []})
    assert run("definitions", "export", "--vhost", "shop").exit_code == 0


def test_what_an_export_for_rabbitmq_leaves_out_is_said(
    run: Run, api: ScriptedApi, tmp_path: Path
) -> None:
    api.will("GET", "/definitions", DEFINITIONS)
    api.headers["Warning"] = r'299 Hareline "of \"a\", \\xe9", 299 Hareline "two: ' "'b'" + '"'
    file = tmp_path / "d.json"
    result = run("definitions", "export", str(file), "--format", "rabbitmq")
    assert (result.exit_code, api.last.query) == (0, {"format": "rabbitmq"})
    assert result.stderr.splitlines() == [r'of "a", \xe9', "two: 'b'"]
    assert run("definitions", "export", "--format", "other").exit_code == 2


def test_a_file_is_imported_and_the_broker_s_notes_are_shown(
    run: Run, api: ScriptedApi, tmp_path: Path
) -> None:
    file = tmp_path / "d.json"
    file.write_text(json.dumps(DEFINITIONS))
    left_out = [
        {"what": "parameter", "name": "s", "vhost": "/", "reason": "this broker has no shovel"},
        {"what": "user", "name": "a", "vhost": "", "reason": "no"},
    ]
    api.will("POST", "/definitions", {"done": {"queues": 2}, "left_out": left_out})
    result = run("definitions", "import", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{file}: imported 1 users, 2 queues",
        "parameter s in /: this broker has no shovel",
        "user a: no",
    ]
    assert (api.last.body, api.last.query) == (DEFINITIONS, {"report": "true"})
    assert run("definitions", "import", "-", text="{}").exit_code == 0


@pytest.mark.parametrize(("text", "problem"), [("{", "not JSON"), ("[]", "not a file of def")])
def test_what_is_no_definitions_is_not_sent(
    run: Run, api: ScriptedApi, text: str, problem: str
) -> None:
    result = run("definitions", "import", "-", text=text)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not api.asked


def test_a_file_that_is_not_there_is_a_sentence(run: Run) -> None:
    result = run("definitions", "import", "/nope.json")
    assert (result.exit_code, result.stderr) == (
        1,
        "hareline: /nope.json: No such file or directory\n",
    )
