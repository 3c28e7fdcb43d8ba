"""Files of dead messages: what is on disk when, what is marked, and how broken ones are refused."""

from __future__ import annotations

import errno
import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hareline.cli.deadletter import files
from hareline.cli.deadletter.command import origin_of
from hareline.cli.deadletter.files import Dump, Marks, files_of, is_marked, marks_of, messages_of
from hareline.cli.failures import CommandFailed
from hareline.message.exported import imported

from ..conftest import Run

HEAD = {"format": "hareline-messages", "version": 1}
DEATH: dict[str, Any] = {
    "count": ["l", 1],
    "reason": ["S", "expired"],
    "queue": ["S", "orders"],
    "time": ["T", 1_700_000_000],
    "exchange": ["S", "shop"],
    "routing-keys": ["A", [["S", "new"], ["S", "copy"]]],
}


def dead(**death: Any) -> dict[str, Any]:
    headers = {"x-death": ["A", [["F", {**DEATH, **death}]]]}
    return {
        "exchange": "",
        "routing_key": "dead",
        "properties": {"headers": headers},
        "body": "a",
        "body_encoding": "utf-8",
    }


def written(folder: Path, *lines: Any, name: str = "1.jsonl", end: bool = True) -> Path:
    """A file of these lines; octets stand as they are."""
    rows = [HEAD, *lines, *([{"end": True}] if end else [])]
    octets = [row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows]
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_bytes(b"".join(octets))
    return file


@pytest.mark.row("E9")
def test_a_dump_is_a_new_private_file_of_a_new_private_folder(tmp_path: Path) -> None:
    folder = tmp_path / "dead"
    for _ in range(2):
        with closing(Dump(folder, {"queue": "q"})) as dump:
            dump.add(dead())
            dump.end()
    file = folder / "2.jsonl"
    assert files_of(folder) == [folder / "1.jsonl", file]
    assert file.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    head, message, end = map(json.loads, file.read_text().splitlines())
    assert (head, message) == ({**HEAD, "queue": "q"}, dead())
    assert end == {"end": True, "messages": 1, "unreadable": 0}


def test_messages_that_were_not_synced_are_cut_off(tmp_path: Path) -> None:
    with closing(Dump(tmp_path, {})) as dump:
        dump.add(dead())
        dump.sync()
        synced = dump.path.stat().st_size
        dump.add(dead())
    assert dump.path.stat().st_size == synced
    assert [number for number, _ in messages_of(dump.path)] == [1]
    with closing(Dump(tmp_path, {})) as dump:
        dump.add(dead())
    assert files_of(tmp_path) == [tmp_path / "1.jsonl"]


@pytest.mark.row("E9")
def test_the_file_is_synced_before_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Dump(tmp_path, {})) as dump:
        synced: list[str] = []
        sync = os.fsync

        def noted(fd: int) -> None:
            synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
            sync(fd)

        monkeypatch.setattr(os, "fsync", noted)
        was_full = []
        for _ in range(files.BATCH_MESSAGES):
            dump.add(dead())
            was_full.append(dump.is_full)
        assert was_full.index(True) == files.BATCH_MESSAGES - 1
        dump.sync()
        dump.add(dead())
        was_full.append(dump.is_full)
        assert was_full[-2:] == [True, False]
    assert synced == [str(dump.path), str(tmp_path)]


def test_a_large_body_makes_a_batch_full(tmp_path: Path) -> None:
    with closing(Dump(tmp_path, {})) as dump:
        dump.add({"body": "x" * files.BATCH_BYTES})
        assert dump.is_full


@pytest.mark.row("E9")
def test_a_full_disk_is_a_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with closing(Dump(tmp_path, {})) as dump:
        dump.add(dead())
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(CommandFailed, match=r"1\.jsonl: No space left on device"):
            dump.end()
    assert not dump.path.exists()


def test_marks_are_there_as_soon_as_they_are_made(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert marks_of(file) == b""
    with closing(Marks(file)) as marks:
        marks.add(3)
        assert marks_of(file) == b"\0\0\1"
    with closing(Marks(file)) as marks:
        assert [number for number in range(1, 6) if number in marks] == [3]
    assert is_marked(b"\0\1", 2)


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        written(tmp_path, name=f"{number}.jsonl")
    assert [file.stem for file in files_of(tmp_path)] == ["1", "9", "10"]


@pytest.mark.row("E9")
@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([b"{nonsense\n"], "line 2: is not a JSON object"),
        ([dead(), b"[]\n"], "line 3: is not a JSON object"),
        ([b"[" * 100_000 + b"\n"], "line 2: is not a JSON object"),
        ([{**dead(), "body": 1}], "line 2: body: not a text"),
        ([{**dead(), "properties": {"a": 1}}], "line 2: properties: there is no property 'a'"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, lines: list[Any], problem: str, run: Run) -> None:
    file = written(tmp_path, *lines)
    result = run("deadletter", "show", str(tmp_path))
    assert (result.exit_code, result.stderr) == (1, f"hareline: {file}: {problem}\n")


@pytest.mark.parametrize("head", [b"", b"\xff\n", b"{}\n", b'{"format": "hareline-messages"}\n'])
def test_another_file_is_refused(tmp_path: Path, head: bytes, run: Run) -> None:
    (tmp_path / "1.jsonl").write_bytes(head)
    result = run("deadletter", "show", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.endswith("1.jsonl: line 1: is not the head of a dump\n")


def test_a_file_that_was_cut_off_is_read_up_to_there(tmp_path: Path, run: Run) -> None:
    written(tmp_path, dead(), json.dumps(dead()).encode()[:-1], end=False)
    result = run("deadletter", "show", str(tmp_path))
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert result.stderr.endswith("1.jsonl: was cut off, and may lack messages\n")


@pytest.mark.row("E9")
@pytest.mark.parametrize("operation", ["show", "replay"])
def test_a_folder_that_is_missing_or_empty_is_an_error(
    tmp_path: Path, operation: str, run: Run
) -> None:
    result = run("deadletter", operation, str(tmp_path / "none"))
    assert (result.exit_code, result.stderr) == (
        *(4, f"hareline: {tmp_path}/none: no such directory\n"),
    )
    result = run("deadletter", operation, str(tmp_path))
    assert (result.exit_code, result.stderr) == (4, f"hareline: {tmp_path}: has no dump\n")


@pytest.mark.row("E9")
def test_the_list_tells_of_the_first_death(tmp_path: Path, run: Run) -> None:
    file = written(tmp_path, dead(), dead(time=["l", 1 << 60]), {**dead(), "properties": {}})
    with closing(Marks(file)) as marks:
        marks.add(2)
    assert run("deadletter", "show", str(tmp_path)).stdout.splitlines() == [
        "1.1\texpired\torders\t1700000000000\t1\tshop\tnew\tfalse",
        "1.2\texpired\torders\t\t1\tshop\tnew\ttrue",
        "1.3\t\t\t\t1\t\tdead\tfalse",
    ]
    assert len(json.loads(run("deadletter", "show", str(tmp_path), "--json").stdout)) == 3


def test_one_message_is_shown_with_text_that_is_not_utf8(tmp_path: Path, run: Run) -> None:
    strange = "Not UTF-8, base64 is: /w=="
    line = {**dead(), "properties": {"headers": {"a": ["S", strange]}}}
    written(tmp_path, line)
    result = run("deadletter", "show", str(tmp_path), "1.1", "--json")
    assert json.loads(result.stdout)["properties"]["headers"] == {"a": strange}
    result = run("deadletter", "show", str(tmp_path), "1.2")
    assert (result.exit_code, result.stderr) == (4, f"hareline: {tmp_path}: has no message 1.2\n")


@pytest.mark.parametrize(
    "death", [{"routing-keys": ["S", "x"]}, {"routing-keys": ["A", [["I", 1]]]}]
)
def test_a_death_without_routing_keys_is_none(death: dict[str, Any]) -> None:
    origin = origin_of(imported(dead(**death)))
    assert (origin.has_died, origin.keys) == (False, ["dead"])
