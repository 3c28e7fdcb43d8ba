"""Results of a run by group, with a second try of what failed.

With ``--second-try``, each test that failed runs once more when all others are over, alone in a
process of its own. One that passes then is flaky; up to ``FLAKY_MAX`` flaky tests leave a run
green. ``.cache/flaky.json`` adds up how often each test was flaky.

``--results=FILE`` writes what ``Results.to_json`` has. With a blank in place of the "=" pytest
would take a file that exists for the tests to run, before it has read this project's options.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from .groups import group_of

FLAKY_MAX: Final = 3
#: With more failures than this something is broken, and a second try would only take time.
TRIES_MAX: Final = 12
#: A test ends itself after 300 s.
TRY_TIMEOUT_S: Final = 600
OUTPUT_TAIL_CHARACTERS: Final = 8000
_FAILED: Final = ("failed", "error", "subtests failed")
#: pytest's closing line, unless the test was skipped.
_PASSED: Final = re.compile(r"^=*\s*1 passed\b.*\s*\Z", re.MULTILINE)


def add_options(parser: pytest.Parser) -> None:
    """Add ``--second-try`` and ``--results``."""
    parser.addoption(
        "--second-try",
        action="store_true",
        help="run each failed test once more at the end, alone; one that passes then is flaky",
    )
    parser.addoption(
        "--results", metavar="FILE", help="write outcomes and seconds of each group of tests there"
    )


def register(config: pytest.Config) -> None:
    """Count results in the process that reports; processes of pytest-xdist send theirs there."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(SentReports(), "sent-reports")
    else:
        config.pluginmanager.register(Results(config), "results-by-group")


class SentReports:
    """Escapes what is not UTF-8 in reports: pytest-xdist would end the whole run over it."""

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, object, object]:
        """Give pytest-xdist a report that it can send."""
        return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_encodable, value))
    return value


class Results:
    """Outcomes and seconds by group, of all reports of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failed: dict[str, list[pytest.TestReport]] = {}
        self._flaky: dict[str, str] = {}
        self._passed: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one phase of one test."""
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.setdefault(report.nodeid, []).append(report)
        elif report.skipped and not hasattr(report, "wasxfail"):
            self._skipped[report.nodeid] = _skip_reason(report)
        elif report.when == "call":  # as it should be; it may have been expected to fail
            self._passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take a file that is skipped as a whole, or cannot be read."""
        if report.skipped:
            self._skipped[report.nodeid] = _skip_reason(report)
        elif report.failed:
            self._failed[report.nodeid] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Give each failed test its second try, and count what is left as the run's failures."""
        result = yield
        failed = list(self._failed)
        if not self._config.getoption("second_try") or not 0 < len(failed) <= TRIES_MAX:
            return result
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(f"a second try for {len(failed)}")
        for nodeid in failed:
            passed, output = try_again(nodeid, self._config)
            if passed:
                self._count_as_flaky(nodeid)
            else:
                self._failed[nodeid][-1].sections.append(("second try", output))
        record_flaky(self._config.rootpath / ".cache/flaky.json", self._flaky)
        session.testsfailed = sum(map(len, self._failed.values()))
        if len(self._flaky) > FLAKY_MAX:
            session.testsfailed += len(self._flaky)
        return result

    def _count_as_flaky(self, nodeid: str) -> None:
        """Move the reports of a test, in pytest's own statistics too."""
        reports = self._failed.pop(nodeid)
        self._passed.discard(nodeid)
        self._flaky[nodeid] = first_error(reports[0])
        stats = self._config.pluginmanager.getplugin("terminalreporter").stats
        for category in (*_FAILED, "passed"):
            kept = [each for each in stats.pop(category, []) if each.nodeid != nodeid]
            if kept:
                stats[category] = kept
        stats.setdefault("flaky", []).append(reports[0])

    def to_json(self) -> dict[str, dict[str, Any]]:
        """By group: tests that passed, failed, are flaky and were skipped, why, and seconds."""
        passed = Counter(map(group_of, self._passed - self._failed.keys() - self._skipped.keys()))
        skipped: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for nodeid, reason in self._skipped.items():
            skipped[group_of(nodeid)][reason] += 1
        seconds: defaultdict[str, float] = defaultdict(float)
        for nodeid, taken in self._seconds.items():
            seconds[group_of(nodeid)] += taken
        return {
            group: {
                "passed": passed[group],
                "failed": _of(group, self._failed),
                "flaky": {nodeid: self._flaky[nodeid] for nodeid in _of(group, self._flaky)},
                "skipped": dict(skipped[group].most_common()),
                "seconds": round(seconds[group], 1),
            }
            for group in sorted(
                {*seconds, *map(group_of, self._skipped), *map(group_of, self._failed)}
            )
        }

    def pytest_sessionfinish(self) -> None:
        """Write the results where ``--results`` says."""
        file = self._config.getoption("results")
        if file is not None:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(json.dumps(self.to_json(), indent=1), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line a group, and a line a flaky test."""
        groups = self.to_json()
        if self._config.getoption("results") is not None and groups:
            terminalreporter.section("groups")
            terminalreporter.write_line(" ".join(f"{title:>10}" for title in _TITLES))
            for group, row in groups.items():
                cells = (group, *counts(row), f"{row['seconds']:.0f}")
                terminalreporter.write_line(" ".join(f"{cell:>10}" for cell in cells))
        if self._flaky:
            terminalreporter.section(f"flaky: {len(self._flaky)}")
            for nodeid, error in self._flaky.items():
                terminalreporter.write_line(f"{nodeid}: {error}")
            if len(self._flaky) > FLAKY_MAX:
                terminalreporter.write_line(f"more than {FLAKY_MAX} flaky tests fail the run")


_TITLES: Final = ("group", "passed", "failed", "flaky", "skipped", "seconds")


def counts(row: dict[str, Any]) -> tuple[int, int, int, int]:
    """Numbers of tests of one group: passed, failed, flaky, skipped."""
    return (
        row["passed"],
        len(row["failed"]),
        len(row["flaky"]),
        sum(row["skipped"].values()),
    )


def _of(group: str, nodeids: Iterable[str]) -> list[str]:
    return [nodeid for nodeid in nodeids if group_of(nodeid) == group]


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def first_error(report: pytest.TestReport) -> str:
    """The first line of what a failed test said."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return (text.strip().splitlines() or ["no text"])[0][:200]


def try_again(nodeid: str, config: pytest.Config) -> tuple[bool, str]:
    """Run one test in a process of its own; whether it passed, and the end of what was printed."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    profile = config.getoption("--hypothesis-profile", None)
    if profile:
        command += ["--hypothesis-profile", profile]
    try:
        tried = subprocess.run(
            [*command, nodeid],
            cwd=config.rootpath,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=TRY_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {TRY_TIMEOUT_S} s"
    has_passed = tried.returncode == 0 and bool(_PASSED.search(tried.stdout))
    return has_passed, tried.stdout[-OUTPUT_TAIL_CHARACTERS:]


def record_flaky(file: Path, flaky: dict[str, str]) -> None:
    """Add one to the count of each flaky test, and keep its latest first error."""
    if not flaky:
        return
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = {}
    for nodeid, error in flaky.items():
        known[nodeid] = {"times": known.get(nodeid, {}).get("times", 0) + 1, "error": error}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
