"""``python -m benchmarks.micro``: runs what it is asked to run, and keeps the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.micro import __main__ as micro


def test_every_file_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert micro.main(["--list"]) == 0
    listed = capsys.readouterr().out.split()
    assert {"path", "queue", "exchanges"} <= set(listed)
    assert listed == sorted(listed)
    assert len(listed) == len(list(micro.HERE.glob("bench_*.py")))


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
