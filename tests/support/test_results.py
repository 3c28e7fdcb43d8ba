"""Second tries and results by group, through pytest itself and its processes side by side."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from .groups import group_of
from .results import FLAKY_MAX, TRIES_MAX, counts
from .small_project import CONFTEST

pytest_plugins = ["pytester"]

IMPORTS = "--import-mode=importlib"

PROJECT = Path(__file__).resolve().parents[2]

#: A test that passes from its second run on, and fails or passes always.
UNSTEADY = """
import pathlib, pytest

def fail_once(name):
    seen = pathlib.Path(name)
    if not seen.exists():
        seen.touch()
        raise ValueError(f"{name} has not been here before")

def test_steady(): pass
"""
FLAKY = "def test_{0}(): fail_once('{0}')\n"
RED = "def test_red(): raise KeyError('always')\n"


class Project:
    """A project of its own, with the results of this one and no other plugin."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.path = pytester.path
        self.write("conftest.py", CONFTEST)

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def run(self, *options: str) -> pytest.RunResult:
        command = ("-p", "xdist", "--second-try", "--results=results.json", IMPORTS)
        return self._pytester.runpytest_subprocess(*command, *options, "tests")

    def run_as_the_gate(self) -> pytest.RunResult:
        makefile = (PROJECT / "Makefile").read_text("utf-8")
        options = re.search("^GATE := (.*)$", makefile, re.MULTILINE)
        assert options is not None
        return self._pytester.runpytest_subprocess("-p", "xdist", IMPORTS, *shlex.split(options[1]))

    def results(self) -> dict[str, dict[str, Any]]:
        read: dict[str, dict[str, Any]] = json.loads((self.path / "results.json").read_text())
        return read


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Project(pytester)


def test_the_gate_runs_again_where_it_has_run(project: Project) -> None:
    project.write("checks/test_a.py", "def test_a(): pass\n")
    (project.path / "conftest.py").rename(project.path / "checks/conftest.py")
    project.write("pytest.ini", "[pytest]\ntestpaths = checks\nmarkers = acceptance\n")
    for _ in range(2):
        project.run_as_the_gate().assert_outcomes(passed=1)


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_failed_test_that_passes_then_is_flaky_and_the_run_is_green(
    project: Project, processes: str
) -> None:
    project.write("tests/server/test_a.py", UNSTEADY + FLAKY.format("hare"))
    result = project.run("-n", processes)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*flaky: 1*",
            "tests/server/test_a.py::test_hare: ValueError: hare has not been here before",
            "*= 1 passed, 1 flaky in *",
        ]
    )
    [row] = project.results().values()
    assert counts(row) == (1, 0, 1, 0)
    assert row["seconds"] >= 0


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_test_that_fails_twice_fails_the_run(project: Project, processes: str) -> None:
    project.write("tests/server/test_a.py", UNSTEADY + FLAKY.format("hare") + RED)
    result = project.run("-n", processes)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*second try*", "*= 1 failed, 1 passed, 1 flaky in *"])
    assert project.results()["server"]["failed"] == ["tests/server/test_a.py::test_red"]


def test_half_a_character_in_a_report_ends_no_run(project: Project) -> None:
    red = "import pytest\ndef test_red(): pytest.fail('\\udcff')\ndef test_green(): pass\n"
    project.write("tests/server/test_a.py", red)
    result = project.run("-n", "2")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*= 1 failed, 1 passed in *"])


def test_too_many_flaky_tests_fail_the_run(project: Project) -> None:
    flaky = [FLAKY.format(f"hare{number}") for number in range(FLAKY_MAX + 1)]
    project.write("tests/test_a.py", UNSTEADY + "".join(flaky))
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [f"more than {FLAKY_MAX} *", f"*= 1 passed, {FLAKY_MAX + 1} flaky *"]
    )


def test_so_many_failures_get_no_second_try(project: Project) -> None:
    flaky = [FLAKY.format(f"hare{number}") for number in range(TRIES_MAX + 1)]
    project.write("tests/test_a.py", UNSTEADY + "".join(flaky))
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*= {TRIES_MAX + 1} failed, 1 passed in *"])


def test_a_fixture_that_fails_once_counts_once(project: Project) -> None:
    source = """
@pytest.fixture
def before(): fail_once("before")
@pytest.fixture
def after():
    yield
    fail_once("after")
def test_before(before): pass
def test_after(after): pass
"""
    project.write("tests/test_a.py", UNSTEADY + source)
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*= 1 passed, 2 flaky in *"])
    assert counts(project.results()["house"]) == (1, 0, 2, 0)


def test_a_test_that_is_skipped_at_its_second_try_has_failed(project: Project) -> None:
    source = """
def test_hare():
    try:
        fail_once("hare")
    except ValueError:
        raise
    pytest.skip("second")
"""
    project.write("tests/test_a.py", UNSTEADY + source)
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*= 1 failed, 1 passed in *"])


def test_flaky_tests_add_up(project: Project) -> None:
    project.write("tests/test_a.py", UNSTEADY + FLAKY.format("hare"))
    for _ in range(2):
        (project.path / "hare").unlink(missing_ok=True)
        assert project.run().ret == 0
    known = json.loads((project.path / ".cache/flaky.json").read_text("utf-8"))
    assert known == {
        "tests/test_a.py::test_hare": {
            "times": 2,
            "error": "ValueError: hare has not been here before",
        }
    }


def test_results_have_each_group_and_why_tests_were_skipped(project: Project) -> None:
    project.write("tests/unit/wire/test_a.py", "def test_a(): pass\ndef test_b(): pass\n")
    project.write(
        "tests/interop/java/test_b.py",
        "import pytest\npytest.skip('mvn is not installed', allow_module_level=True)\n",
    )
    project.write(
        "tests/interop/test_c.py",
        "import pytest\ndef test_a(): pytest.skip('no pika')\n"
        "@pytest.mark.xfail\ndef test_b(): raise KeyError\n",
    )
    result = project.run("-n", "2")
    assert result.ret == 0
    rows = project.results()
    assert {group: counts(row) for group, row in rows.items()} == {
        "unit": (2, 0, 0, 0),
        "java": (0, 0, 0, 1),
        "interop": (1, 0, 0, 1),
    }
    assert rows["java"]["skipped"] == {"mvn is not installed": 1}
    assert rows["interop"]["skipped"] == {"no pika": 1}


def test_without_the_option_a_failure_is_a_failure(
    project: Project, pytester: pytest.Pytester
) -> None:
    project.write("tests/test_a.py", UNSTEADY + FLAKY.format("hare"))
    result = pytester.runpytest_subprocess(IMPORTS, "tests")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*= 1 failed, 1 passed in *"])


def test_a_group_is_a_folder() -> None:
    assert group_of("tests/test_house.py::test_a") == "house"
    assert group_of("tests/unit/wire/test_frames.py::test_a[x/y]") == "unit"
    assert group_of("tests/interop/test_pika.py::test_a") == "interop"
    assert group_of("tests/interop/java/test_jms.py") == "java"
