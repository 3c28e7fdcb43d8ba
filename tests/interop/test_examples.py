"""The programs under ``examples/``, run as their readers would: with the broker's URL alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerUnderTest
from tests.support.waiting import wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
DEADLINE_S = 120.0


@pytest.mark.acceptance
def test_pika_quickstart_publishes_and_consumes(broker: BrokerUnderTest) -> None:
    pytest.importorskip("pika", reason="pika (PyPI) is not installed")
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / "pika_quickstart.py")],
        env={**os.environ, "AMQP_URL": broker.url},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "Hello, Hareline!\n"


@pytest.mark.acceptance
def test_the_first_message_of_the_readme_arrives(broker: BrokerUnderTest) -> None:
    pytest.importorskip("pika", reason="pika (PyPI) is not installed")
    text = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    [program] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    usual_url = "amqp://guest:guest@127.0.0.1:5672/"
    assert usual_url in program
    finished = subprocess.run(
        [sys.executable, "-c", program.replace(usual_url, broker.url)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (finished.returncode, finished.stdout) == (0, "hello from pika\n"), finished.stderr


@pytest.mark.acceptance
def test_celery_application_needs_only_its_broker_url(
    broker: BrokerUnderTest, tmp_path: Path
) -> None:
    pytest.importorskip("celery", reason="celery (PyPI) is not installed")
    environment = {**os.environ, "CELERY_BROKER_URL": broker.url}
    directory = EXAMPLES / "celery_app"
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency", "2"]
    log_path = tmp_path / "worker.log"
    with log_path.open("wb") as log:
        worker = subprocess.Popen(
            [*command, "--loglevel", "INFO"],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: "ready." in log_path.read_text(), DEADLINE_S, "the worker to be ready")
        finished = subprocess.run(
            [sys.executable, "tasks.py"],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    finally:
        worker.terminate()
        status = worker.wait(DEADLINE_S)
    assert finished.returncode == 0, finished.stderr + log_path.read_text()
    lines = finished.stdout.splitlines()
    assert lines[:2] == ["the 4, said 2, tortoise 2", "tortoise: the race begins (attempt 2)"]
    assert status == 0, log_path.read_text()
