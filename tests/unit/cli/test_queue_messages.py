"""``hareline queue``, the messages: what is asked, and what is said of the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_api import ScriptedApi

from .conftest import Run

MESSAGE = {
    "offset": 7,
    "state": "ready",
    "exchange": "",
    "routing_key": "q",
    "payload_bytes": 2,
    "properties": {},
    "payload": "hi",
    "payload_encoding": "string",
}
RESULT: dict[str, Any] = {"bytes": 9, "offsets": [1, 2], "refused": {}, "left": 0}
REFUSED = {"full": {"count": 3, "reason": "the queue is full"}}


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_browse_asks_for_a_page_and_prints_it(run: Run, api: ScriptedApi) -> None:
    page = {"messages": [MESSAGE], "position": None, "ready": 1}
    api.will("POST", "/queues/%2F/q/browse", page)
    result = run("queue", "browse", "q", "--end", "--where", "a = 1", "--limit", "5")
    assert (result.exit_code, result.stdout) == (0, "7\tready\t\tq\t2\t\tstring\thi\n")
    assert api.last.body == {
        "start": "end",
        "selector": "a = 1",
        "encoding": "auto",
        "truncate": 50000,
        "count": 5,
    }
    assert json.loads(run("queue", "browse", "q", "--json").stdout) == [MESSAGE]


def test_browse_goes_on_where_a_page_ended(run: Run, api: ScriptedApi) -> None:
    page = {"messages": [MESSAGE], "position": "7", "ready": 3}
    api.will("POST", "/queues/%2F/q/browse", page)
    result = run("queue", "browse", "q", "--limit", "2", "--json")
    assert len(json.loads(result.stdout)) == 2
    assert [each.body.get("position") for each in api.asked] == [None, "7"]
    assert [each.body["count"] for each in api.asked] == [2, 1]


def test_all_of_a_queue_is_purged_or_the_first(run: Run, api: ScriptedApi) -> None:
    api.will("DELETE", "/queues/%2F/q/contents", status=204)
    assert run("queue", "purge", "q").stdout == "queue 'q' in vhost '/': purged\n"
    done = {"deleted": 2, **RESULT, "complete": True}
    api.will("POST", "/queues/%2F/q/purge", lines(done))
    result = run("queue", "purge", "q", "--limit", "2")
    assert result.stdout == "queue 'q' in vhost '/': 2 messages deleted\n"
    assert (api.last.body, api.last.query) == ({"limit": 2}, {"progress": "true"})


@pytest.mark.parametrize(
    ("operation", "verb", "place", "body"),
    [
        ("move", "moved", ("--to-queue", "t"), {"to_queue": "t"}),
        ("copy", "copied", ("--to-exchange", "e"), {"to_exchange": "e"}),
        (
            *("copy", "copied", ("--to-exchange", "e", "-k", "k")),
            {"to_exchange": "e", "routing_key": "k"},
        ),
        ("retry", "retried", (), {}),
        ("delete-messages", "deleted", (), {}),
    ],
)
def test_an_operation_sends_its_selection_and_says_how_many(
    run: Run,
    api: ScriptedApi,
    operation: str,
    verb: str,
    place: tuple[str, ...],
    body: dict[str, str],
) -> None:
    path = operation.removesuffix("-messages")
    progress = {verb: 1, **RESULT, "complete": False}
    api.will("POST", f"/queues/%2F/q/{path}", lines(progress, {**progress, "complete": True}))
    chosen = ["--offset", "1", "--offset", "2", "--where", "x > 1", "--limit", "9"]
    result = run("queue", operation, "q", *place, *chosen)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"queue 'q' in vhost '/': 1 message {verb}\n"
    assert api.last.body == {"offsets": [1, 2], "selector": "x > 1", "limit": 9, **body}
    result = run("queue", operation, "q", *place, "--all", "--json")
    assert json.loads(result.stdout) == {verb: 1, **RESULT}
    assert api.last.body == {"all": True, **body}


def test_what_was_refused_is_said_and_ends_with_1(run: Run, api: ScriptedApi) -> None:
    answer = {"moved": 4, **RESULT, "refused": REFUSED, "complete": True}
    api.will("POST", "/queues/%2F/q/move", lines(answer))
    result = run("queue", "move", "q", "--to-queue", "t", "--all")
    assert result.exit_code == 1
    assert result.stdout == "queue 'q' in vhost '/': 4 messages moved\n"
    assert result.stderr == ("hareline: messages that stay where they are: 3: the queue is full\n")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            lines({"error": "x", "reason": "the store failed", "moved": 2, **RESULT}),
            "queue 'q' in vhost '/': the store failed; 2 were moved",
        ),
        (
            lines({"moved": 2, **RESULT, "complete": False}),
            "queue 'q' in vhost '/': the broker ended the answer early",
        ),
    ],
)
def test_an_operation_that_broke_off_is_an_error(
    run: Run, api: ScriptedApi, answer: bytes, problem: str
) -> None:
    api.will("POST", "/queues/%2F/q/move", answer)
    result = run("queue", "move", "q", "--to-queue", "t", "--all")
    assert (result.exit_code, result.stderr) == (1, f"hareline: {problem}\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("move", "q", "--to-queue", "t"), "say which messages: --where, --offset, --limit or"),
        (("retry", "q"), "say which messages"),
        (("move", "q", "--all"), "give --to-queue or --to-exchange"),
        (("copy", "q", "--all", "--to-queue", "a", "--to-exchange", "b"), "give --to-queue or"),
        (("copy", "q", "--all", "--to-queue", "a", "-k", "k"), "--routing-key goes with --to-ex"),
    ],
)
def test_a_slip_is_not_sent(
    run: Run, api: ScriptedApi, arguments: tuple[str, ...], problem: str
) -> None:
    result = run("queue", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not api.asked


HEAD = {"format": "hareline-messages", "version": 1}
END = {"end": True, "messages": 1, "unreadable": 0}


def compact(*rows: Any) -> bytes:
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def test_messages_are_exported_to_a_private_file(
    run: Run, api: ScriptedApi, tmp_path: Path
) -> None:
    content = compact(HEAD, {"offset": 1}, END)
    api.will("POST", "/queues/%2F/q/export", content)
    file = tmp_path / "q.jsonl"
    result = run("queue", "export", "q", str(file), "--limit", "3")
    assert (result.exit_code, result.stdout) == (0, f"{file}: 1 messages\n")
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o600
    assert api.last.body == {"limit": 3}
    assert run("queue", "export", "q", "-").stdout_bytes == content


def test_an_export_that_was_cut_off_is_an_error(run: Run, api: ScriptedApi, tmp_path: Path) -> None:
    api.will("POST", "/queues/%2F/q/export", compact(HEAD, {"offset": 1}))
    result = run("queue", "export", "q", str(tmp_path / "f"))
    assert result.exit_code == 1
    assert "cut off" in result.stderr


def test_messages_that_cannot_be_read_are_said(run: Run, api: ScriptedApi, tmp_path: Path) -> None:
    api.will("POST", "/queues/%2F/q/export", compact(HEAD, {**END, "unreadable": 2}))
    result = run("queue", "export", "q", str(tmp_path / "f"))
    assert (result.exit_code, result.stderr) == (
        1,
        "hareline: 2 messages could not be read from disk\n",
    )


def test_no_file_is_made_for_a_queue_that_is_not_there(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "f"
    assert run("queue", "export", "q", str(file)).exit_code == 4
    assert not file.exists()


def test_a_file_is_imported(run: Run, api: ScriptedApi, tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_bytes(compact(HEAD))
    api.will("POST", "/queues/%2F/q/import", {"imported": 2, **RESULT})
    result = run("queue", "import", "q", str(file))
    assert (result.exit_code, result.stdout) == (
        0,
        "queue 'q' in vhost '/': 2 messages imported\n",
    )
    assert api.last.body == HEAD
    assert run("queue", "import", "q", "/nope").exit_code == 1


def test_a_file_that_is_refused_is_a_sentence(run: Run, api: ScriptedApi, tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_bytes(compact({"a": 1}))
    answer = {"error": "bad_request", "reason": "line 1: not the head of a file"}
    api.will("POST", "/queues/%2F/q/import", answer, 400)
    result = run("queue", "import", "q", str(file))
    assert result.exit_code == 1
    assert "line 1: not the head of a file" in result.stderr
