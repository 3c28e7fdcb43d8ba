"""The example of two JMS clients and a Python program, run as its readers would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

import pytest

from tests.support.broker_process import BrokerProcess

from ..suite_runs import CACHE, reason_line, run
from .maven_runs import UNRESOLVED

EXAMPLES = Path(__file__).parents[3] / "examples"
DEADLINE_S = 120.0
#: Downloads on a fresh machine, compiling, and some five seconds of work.
MAVEN_DEADLINE_S = 280.0
OURS = {"HARELINE": f"{quote(sys.executable)} -m hareline"}


def test_jms_example_is_one_command_and_prints_what_its_readme_says() -> None:
    assert _run_jms(OURS) == _readme_output("warehouse")


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_jms_and_python_read_each_other_s_messages(own_broker: BrokerProcess) -> None:
    pytest.importorskip("pika", reason="pika (PyPI) is not installed")
    address = {"BROKER_HOST": own_broker.host, "BROKER_PORT": str(own_broker.port)}
    assert _run_jms(address) == _readme_output("warehouse")
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / "jms" / "bookkeeper.py")],
        env={**os.environ, "AMQP_URL": own_broker.url},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == _readme_output("70 hares")
    second = _run_jms(address)
    dispatched = [line for line in second if " dispatched " in line]
    assert dispatched == [
        "warehouse | dispatched 250 hedgehogs",
        "warehouse | dispatched 70 hares",
        "warehouse | dispatched 90 tortoises",
    ]


@pytest.mark.acceptance
def test_jms_example_says_what_it_is_waiting_for() -> None:
    said = [
        line.removeprefix("run.sh: ").split()[0]
        for line in _output_of_jms(OURS)
        if line.startswith("run.sh: ")
    ]
    assert said == ["building", "starting", "running"]


def test_jms_example_without_maven_names_it(tmp_path: Path) -> None:
    for program in ("sh", "dirname"):
        (tmp_path / program).symlink_to(shutil.which(program) or "")
    (tmp_path / "javac").symlink_to("sh")
    script = EXAMPLES / "jms" / "run.sh"
    finished = run(["sh", script], cwd=EXAMPLES, timeout_s=30, environment={"PATH": str(tmp_path)})
    assert finished.status == 1
    assert finished.output.splitlines() == [
        "run.sh: mvn is missing; the example needs a JDK (11 or newer) and Maven"
    ]


def _run_jms(environment: Mapping[str, str]) -> list[str]:
    """What shop and warehouse of the example print; skips as `_output_of_jms` does."""
    return [line for line in _output_of_jms(environment) if "| " in line]


def _output_of_jms(environment: Mapping[str, str]) -> list[str]:
    """The lines that examples/jms/run.sh prints; skips where Maven or its downloads are missing."""
    for program in ("mvn", "javac"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    finished = run(
        ["sh", EXAMPLES / "jms" / "run.sh"],
        cwd=EXAMPLES,
        timeout_s=MAVEN_DEADLINE_S,
        environment={"EXAMPLE_BUILD": str(CACHE / "examples-jms"), **environment},
    )
    if finished.status != 0 and UNRESOLVED.search(finished.output):
        pytest.skip(f"Maven cannot fetch the JMS clients: {reason_line(finished.output)}")
    assert finished.status == 0, finished.tail
    printed = finished.output.replace("\x1b[0m", "")  # Maven's, on a stream that is joined here
    return printed.splitlines()


def _readme_output(first_words: str) -> list[str]:
    """The block of output in the example's README that begins like this."""
    text = (EXAMPLES / "jms" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if block.startswith(first_words)]
    return str(block).splitlines()
