"""How `make test` divides the suite: divisions stay together, and the long ones come first."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from .side_by_side import LONG, division_of, rank_of, workers

pytest_plugins = ["pytester"]

PROJECT = Path(__file__).resolve().parents[2]
RUNS_MAVEN = re.compile(r'[\[(,] ?"mvn"|import .*Maven')


@pytest.mark.parametrize("beginning", LONG)
def test_there_are_tests_of_each_name(beginning: str) -> None:
    path = PROJECT / beginning
    assert path.is_file() or any(path.rglob("test_*.py"))


def test_the_tests_of_a_file_stay_together() -> None:
    assert division_of("tests/unit/test_turn.py::test_a") == "tests/unit/test_turn.py"
    assert division_of("tests/unit/test_turn.py::TestB::test_c[x::y]") == "tests/unit/test_turn.py"


def test_files_that_share_what_is_dear_stay_together() -> None:
    files = ("tests/spark/test_a.py", "tests/spark/writing/test_b.py")
    spark = {division_of(f"{file}::test_a") for file in files}
    assert spark == {"spark"}
    assert division_of("tests/unit/spark/test_places.py::test_a") != "spark"
    folder = "tests/interop/java"
    java = (f"{folder}/test_jms.py::test_a", f"{folder}/test_java_client.py::test_b[c]")
    assert {division_of(nodeid) for nodeid in java} == {"java"}


def test_tests_that_share_nothing_are_divided() -> None:
    tests = [f"tests/fairness/test_fairness.py::test_a[{load}]" for load in ("x", "y")]
    assert [division_of(nodeid) for nodeid in tests] == tests


def test_all_that_runs_maven_is_in_its_division() -> None:
    """Its local repository is not made for two that fill it at a time."""
    mine = Path(__file__).name
    running = [
        file.relative_to(PROJECT).as_posix()
        for file in sorted((PROJECT / "tests").rglob("test_*.py"))
        if file.name != mine and RUNS_MAVEN.search(file.read_text("utf-8"))
    ]
    assert len(running) >= 4
    assert {division_of(file) for file in running} == {"java"}


def test_what_takes_long_comes_first() -> None:
    files = ["tests/unit/test_a.py", "tests/server/test_b.py", "tests/spark/test_c.py"]
    files += [
        "tests/interop/java/test_jms.py",
        "tests/server/test_restart.py",
        "tests/test_docs.py",
    ]
    assert sorted(files, key=rank_of) == [
        "tests/spark/test_c.py",
        "tests/interop/java/test_jms.py",
        "tests/server/test_restart.py",
        "tests/server/test_b.py",
        "tests/unit/test_a.py",
        "tests/test_docs.py",
    ]


def test_there_is_more_than_one_process() -> None:
    assert workers() >= 2


def test_a_run_keeps_divisions_in_one_process_each(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through pytest-xdist itself, with the hooks of the suite."""
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}{os.pathsep}{PROJECT / 'src'}")
    support = ("groups", "results", "side_by_side")
    for name in ("conftest.py", *(f"support/{module}.py" for module in support)):
        path = pytester.path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((PROJECT / "tests" / name).read_bytes())
    source = "\n".join(f"def test_{number}(): pass" for number in range(6))
    for name in ("tests/spark/test_a.py", "tests/spark/test_b.py", "tests/test_c.py"):
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
    result = pytester.runpytest_subprocess(
        *("-n", "2", "--dist", "loadscope", "-v", "--import-mode=importlib"),
        *("-p", "no:schemathesis", "tests"),
    )
    result.assert_outcomes(passed=18)
    lines = [line.split() for line in result.outlines if line.startswith("[gw")]
    of_file: dict[str, set[str]] = {}
    for line in lines:
        nodeid = next(word for word in line if "::" in word)
        of_file.setdefault(nodeid.partition("::")[0], set()).add(line[0])
    assert len(of_file) == 3
    assert all(len(processes) == 1 for processes in of_file.values())
    assert of_file["tests/spark/test_a.py"] == of_file["tests/spark/test_b.py"]
    assert of_file["tests/test_c.py"] != of_file["tests/spark/test_a.py"]
