"""Another queue argument is one row in one file: with it, a broker declares and explains it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
TABLE = "hareline/queues/declare/table.py"
FIRST_FIELD = "    raw: Mapping[str, object] = field(compare=False)\n"
ROW = """
    one_row: str | None = _by(Argument("x-one-row", read.filled_text, _ANY, _KEEPING,
        "Note", "ask Ann before you delete it", "A note for those who look after the queue."))
"""
PROBE = """
import json, sys
from hareline.queues.declare.arguments import parse_queue_arguments
from tests.support.api_broker import api_broker

path = "/queues/%2F/q"
note = {"arguments": {"x-one-row": "for the night shift"}}
with api_broker() as broker:
    def status(body):
        answer = broker.ask("PUT", path, json=body)
        return answer.status_code, answer.json().get("reason") if answer.content else None
    found = {
        "product": sys.modules["hareline"].__file__,
        "field": parse_queue_arguments(note["arguments"], queue="q", vhost="/").one_row,
        "blank": status({"arguments": {"x-one-row": " "}}),
        "declared": status(note),
        "again": status(note),
        "another": status({"arguments": {"x-one-row": "for the day shift"}}),
        "shown": broker.get(path)["arguments"],
        "in_force": broker.get("/hareline" + path + "/effective-arguments")["arguments"][0],
        "described": [
            each
            for each in broker.get("/hareline/queue-arguments")["arguments"]
            if each["name"] == "x-one-row"
        ],
    }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a broker with a row for ``x-one-row`` says of it."""
    source = tmp_path_factory.mktemp("product") / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    table = source / TABLE
    text = table.read_text(encoding="utf-8")
    assert text.count(FIRST_FIELD) == 1
    table.write_text(text.replace(FIRST_FIELD, FIRST_FIELD + ROW), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    assert Path(answers["product"]).is_relative_to(source)
    return answers


def test_it_is_read_and_checked(found: dict[str, Any]) -> None:
    assert found["field"] == "for the night shift"
    assert found["declared"] == [201, None]
    status, reason = found["blank"]
    assert status == 400
    assert "invalid arg 'x-one-row' for queue 'q' in vhost '/': value_blank" in reason


def test_a_redeclaration_is_compared(found: dict[str, Any]) -> None:
    assert found["again"] == [204, None]
    status, reason = found["another"]
    assert status == 400
    assert "inequivalent arg 'x-one-row' for queue 'q'" in reason


def test_it_is_shown(found: dict[str, Any]) -> None:
    assert found["shown"] == {"x-one-row": "for the night shift"}
    assert found["in_force"] == {
        "name": "x-one-row",
        "value": "for the night shift",
        "origin": "queue_argument",
        "origin_name": None,
        "has_effect": True,
        "overridden": [],
    }


def test_forms_explain_it(found: dict[str, Any]) -> None:
    (described,) = found["described"]
    assert described == {
        "name": "x-one-row",
        "group": "keeping",
        "title": "Note",
        "input": "text",
        "summary": "A note for those who look after the queue.",
        "example": "ask Ann before you delete it",
        "page": "durability#what-is-kept",
        "choices": [],
        "minimum": None,
        "maximum": None,
        "is_operator": False,
        "queue_types": ["classic", "quorum", "stream"],
        "aliases": [],
        "field": "one_row",
        "has_effect": True,
        "needs": None,
        "policy_key": None,
        "is_live": False,
    }
