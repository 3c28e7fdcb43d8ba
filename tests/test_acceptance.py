"""The run of all groups: what it runs, reports and leaves out, and that no test is in no group."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import acceptance
from tests.support.groups import INSIDE
from tests.support.small_project import CONFTEST

PROJECT = Path(__file__).resolve().parent.parent
#: Seconds of the gate that each group has that meets the outside.
GROUP_LIMIT_S = 60


SKIPPED = "import pytest\npytest.skip('no mvn', allow_module_level=True)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a green group "unit", a red one "server" and one that is skipped, "java"."""
    files = {
        "conftest.py": CONFTEST,
        "tests/test_house.py": "def test_a(): pass\n",
        "tests/unit/test_a.py": "def test_a(): pass\n",
        "tests/server/test_a.py": "def test_a(): pass\ndef test_red(): raise KeyError('always')\n",
        "tests/interop/java/test_a.py": SKIPPED,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.setattr(acceptance, "ROOT", tmp_path)
    monkeypatch.setattr(acceptance, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(acceptance, "current_commit", lambda: "abc")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["acceptance.py", *arguments])
    return acceptance.main()


def test_each_test_file_is_in_one_group() -> None:
    found = [name for files in acceptance.groups().values() for name in files]
    there = [
        file.relative_to(PROJECT).as_posix()
        for file in (PROJECT / "tests").rglob("test_*.py")
        if "node_modules" not in file.parts
    ]
    assert sorted(found) == sorted(there)
    assert set(acceptance.groups()) >= INSIDE | {"server", "interop", "java", "spark", "browser"}


@pytest.mark.acceptance
def test_the_groups_of_the_gate_keep_to_their_seconds() -> None:
    """On the last run of `make test` here."""
    file = PROJECT / ".cache/gate-results.json"
    if not file.exists():
        pytest.skip("`make test` has not run here")
    rows = json.loads(file.read_text("utf-8"))
    seconds = {group: row["seconds"] for group, row in rows.items() if group not in INSIDE}
    assert {group: took for group, took in seconds.items() if took > GROUP_LIMIT_S} == {}


def test_a_red_group_does_not_stop_the_others(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 1
    rows = json.loads((project / "results/abc.json").read_text("utf-8"))
    assert {group: row["green"] for group, row in rows.items()} == {
        "java": True,
        "server": False,
        "unit": True,
        "house": True,
    }
    printed = capsys.readouterr().out
    assert "server (2 of 4) ... 1 passed, 1 failed, 0 flaky, 0 skipped in" in printed
    assert "- failed: tests/server/test_a.py::test_red" in printed
    assert "- java, 1 skipped: no mvn" in printed
    assert "| **all** | 3 | 1 | 0 | 1 |" in (project / "results/abc.md").read_text("utf-8")


def test_it_continues_with_what_is_not_green(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "unit") == 0
    (project / "tests/server/test_a.py").write_text("def test_a(): pass\n")
    capsys.readouterr()
    assert run(monkeypatch, "--continue", "unit", "server") == 0
    printed = capsys.readouterr().out
    assert "unit: green already on abc" in printed
    assert "server (2 of 2) ... 1 passed" in printed
    assert "| unit | 1 |" in printed


def test_an_unknown_group_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, "jvaa")
    assert "no group jvaa; the groups are java, server, unit, house" in capsys.readouterr().err
