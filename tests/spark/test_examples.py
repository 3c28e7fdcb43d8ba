"""The programs under examples/spark, run as their readers would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.acceptance

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
DEADLINE_S = 300.0


def output_of(program: str) -> str:
    pytest.importorskip("pika", reason="pika (PyPI) is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "AMQP_URL"}
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "Traceback" not in finished.stderr
    return finished.stdout


def test_counts_come_back_into_the_broker_and_are_right() -> None:
    lines = output_of("windows.py").splitlines()
    assert lines[-1] == f"{len(lines) - 1} counts of 2000 clicks, the same as in plain Python"
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d  /\w* +\d+", line) for line in lines[:-1])


def test_the_cells_of_the_notebook_run_from_top_to_bottom() -> None:
    lines = output_of("windows_notebook.py").splitlines()
    counted = [line for line in lines if re.fullmatch(r"\S+ /\w* \d+", line)]
    assert sum(int(line.split()[-1]) for line in counted) == 2_000
    assert lines[-1] == "2001 messages in the stream"
