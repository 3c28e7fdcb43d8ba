"""JUnit suites that Maven runs: which cases their sources name, and what became of each.

Used by ``test_java_client.py`` and ``test_jms.py``. Maven resolves the pinned versions into its
ordinary local repository, so a second run needs no network; what it builds goes below ``.cache``.
Invariant: a case has the same name in the sources and in the reports: its class, without the
package that all classes of the module share, a dot, and its method.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.broker_process import BrokerUnderTest

from ..suite_runs import CaseResult, SuiteRun, names_in, reason_line, run

UNRESOLVED = re.compile(
    r"could not (be resolved|resolve|transfer)|no plugin found for prefix", re.IGNORECASE
)

_CASE = re.compile(r"@Test\s+void (?P<name>\w+)\(")
_PARENT = re.compile(r"^(?:abstract |final |public )*class \w+ extends (?P<name>\w+)", re.MULTILINE)


@dataclass(frozen=True)
class MavenModule:
    """A directory with a ``pom.xml``; ``package`` is what the names of all its classes begin with.

    ``build`` is where Maven writes, as the property ``interop.build`` tells it.
    """

    directory: Path
    build: Path
    package: str

    def cases(self) -> list[str]:
        """The cases of the classes ``...Test``, those included that a class has from its parent."""
        root = self.directory / "src/test/java" / self.package.replace(".", "/")
        return [
            f"{'.'.join((*source.relative_to(root).parent.parts, source.stem))}.{name}"
            for source in sorted(root.rglob("*Test.java"))
            for name in _cases_of(source)
        ]

    def run(self, properties: Mapping[str, object], *, timeout_s: float, skip: str) -> SuiteRun:
        """Run the whole suite; skips, with ``skip`` as the reason, if Maven cannot download."""
        reports = self.build / "surefire-reports"
        shutil.rmtree(reports, ignore_errors=True)
        given = {**properties, "interop.build": self.build, "style.color": "never"}
        command = ["mvn", "-q", "-B", *maven_options(), "test"]
        command += [f"-D{key}={value}" for key, value in given.items()]
        finished = run(command, cwd=self.directory, timeout_s=timeout_s)
        if not reports.exists() and UNRESOLVED.search(finished.output):
            pytest.skip(f"{skip}: {reason_line(finished.output)}")
        results = {}
        for report in reports.glob("TEST-*.xml"):
            for case in ElementTree.parse(report).getroot().iter("testcase"):
                name = case.attrib["classname"].removeprefix(f"{self.package}.")
                results[f"{name}.{case.attrib['name']}"] = _result(case)
        return SuiteRun(finished, results)


def maven_options() -> list[str]:
    """Options in the environment variable MAVEN_ARGS, which Maven itself reads from 3.9 on."""
    return os.environ.get("MAVEN_ARGS", "").split()


def properties_of(broker: BrokerUnderTest) -> dict[str, object]:
    """Properties that give a suite the broker's address, user and virtual host."""
    return {
        "broker.host": broker.host,
        "broker.port": broker.port,
        "broker.username": broker.username,
        "broker.password": broker.password,
        "broker.vhost": broker.vhost,
    }


def _cases_of(source: Path) -> list[str]:
    """The cases of a class, its parent's first; a parent is a class of the same package."""
    parent = _PARENT.search(source.read_text(encoding="utf-8"))
    file = source.with_name(f"{parent['name']}.java") if parent else None
    inherited = _cases_of(file) if file is not None and file.exists() else []
    return inherited + names_in([source], _CASE)


def _result(case: ElementTree.Element) -> CaseResult:
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            return CaseResult("fail", f"{found.get('message') or kind}\n{found.text or ''}")
    skipped = case.find("skipped")
    if skipped is not None:
        first_line = (skipped.get("message") or skipped.text or "").strip().partition("\n")[0]
        return CaseResult("skip", first_line.partition("Assumption failed: ")[2] or first_line)
    return CaseResult("pass", "")
