"""``python -m benchmarks.micro``: runs what it is asked to run, and keeps the record."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.macro.shapes import MESSAGES
from benchmarks.micro import __main__ as micro
from benchmarks.micro import instructions


def test_every_file_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert micro.main(["--list"]) == 0
    listed = capsys.readouterr().out.split()
    assert {"path", "queue", "exchanges", "differing", "any_shape"} <= set(listed)
    assert listed == sorted(listed)
    assert len(listed) == len(list(micro.HERE.glob("bench_*.py")))


@pytest.mark.acceptance
def test_the_way_of_a_message_is_measured_and_recorded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "record.json"
    assert micro.main(["path", "--repetitions", "1", "--json", str(file)]) == 0
    results = json.loads(file.read_text())["path"]["results"]
    printed = capfd.readouterr().out
    assert len(results) >= 5
    for result in results:
        assert result["unit"] == "message"
        assert 50 < result["min_ns"] <= result["median_ns"]
        assert result["name"] in printed


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        micro.main(["nix"])
    assert ended.value.code == 2
    assert "no benchmark 'nix'" in capsys.readouterr().err


def test_one_that_fails_is_named_and_the_others_are_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ran: list[str] = []

    def run(name: str, flags: list[str]) -> object | None:
        ran.append(name)
        return None if name == "path" else {"results": []}

    monkeypatch.setattr(micro, "run", run)
    file = tmp_path / "record.json"
    assert micro.main(["path", "queue", "--json", str(file)]) == 1
    assert ran == ["path", "queue"]
    assert capsys.readouterr().err.endswith("failed: path\n")
    assert json.loads(file.read_text()) == {"queue": {"results": []}}


@pytest.mark.acceptance
def test_messages_that_are_not_alike_are_measured_on_each_way(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    assert micro.main(["any_shape", "--repetitions", "1", "--json", str(file)]) == 0
    results = json.loads(file.read_text())["any_shape"]["results"]
    assert [result["name"].partition(", 100 B, ")[2] for result in results] == [
        "auto-ack",
        "ack every 100",
        "confirms, auto-ack",
        "persistent with confirms",
    ]
    assert all(result["operations"] == MESSAGES for result in results)


class TestInstructions:
    def test_they_are_read_from_what_cachegrind_prints(self) -> None:
        text = "==12== \n==12== I   refs:      12,345,678\n"
        assert instructions.references_in(text) == 12_345_678
        with pytest.raises(instructions.CountError, match="printed no number"):
            instructions.references_in("==12== nothing of the kind\n")

    def test_one_repetition_is_the_difference_of_two_runs(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[tuple[list[str], list[str]]] = []

        def run(tool: list[str], name: str, flags: list[str]) -> str:
            calls.append((tool[1:2], flags))
            return f"I refs: {5_000 + 2_000 * int(flags[1]):,}"

        monkeypatch.setattr(instructions, "_run", run)
        monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
        case = instructions.Case("some case", "message", 100)
        assert instructions.count("path", case) == 20.0
        assert calls == [
            (
                ["--tool=cachegrind"],
                ["--repetitions", times, "--messages", "3000", "--only", "some case"],
            )
            for times in ("1", "2")
        ]

    def test_without_valgrind_it_says_so(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(shutil, "which", lambda program: None)
        case = instructions.Case("one", "op", 1)
        monkeypatch.setattr(instructions, "cases_of", lambda name, only: [case])
        assert instructions.main(["path"]) == 1
        assert "valgrind is not installed" in capsys.readouterr().err

    def test_the_cases_are_those_that_the_benchmark_measures(self) -> None:
        (case,) = instructions.cases_of("encoder", "deliver")[:1]
        assert case.operations > 1
        with pytest.raises(instructions.CountError, match="no case of encoder has 'nothing'"):
            instructions.cases_of("encoder", "nothing")
