"""Celery Flower, run as people run it, beside a Celery worker: what its broker page has."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery", reason="celery (PyPI) is not installed")
pytest.importorskip("flower", reason="flower (PyPI) is not installed")
import httpx

from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_for

from .test_celery import APP_DIRECTORY, DEADLINE_S, Worker

#: The columns of a row of the page: name, messages, unacked, ready, consumers, idle since.
CELL = re.compile(r"<td[^>]*>\s*(.*?)\s*</td>", re.DOTALL)


class Flower:
    """``celery flower`` on a socket of its own. ``ask`` gives the text of a page."""

    def __init__(self, broker: BrokerProcess, queue: str, directory: Path) -> None:
        self._log_path = directory / "flower.log"
        socket = directory / "flower.socket"
        command = [sys.executable, "-m", "celery", "--workdir", str(APP_DIRECTORY)]
        command += ["-A", "celery_app", "flower", f"--unix-socket={socket}"]
        command += [f"--broker-api=http://guest:guest@127.0.0.1:{broker.management_port}/api/"]
        environment = {
            **os.environ,
            "CELERY_BROKER_URL": broker.url,
            "INTEROP_QUEUE": queue,
            "FLOWER_UNAUTHENTICATED_API": "true",
        }
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket)),
            base_url="http://flower",
            timeout=DEADLINE_S,
        )

    def ask(self, path: str) -> str:
        """The page, or nothing while Flower has none yet."""
        assert self._process.poll() is None, self.log()[-3000:]
        try:
            answer = self._http.get(path)
        except httpx.TransportError:
            return ""
        return answer.text if answer.status_code == 200 else ""

    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    def stop(self) -> None:
        self._http.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


@pytest.fixture(scope="module")
def worker(daemon: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    running = Worker(daemon.url, tmp_path_factory.mktemp("worker"), options="-c 1 -P solo")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def flower(
    daemon: BrokerProcess, worker: Worker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flower]:
    running = Flower(daemon, worker.queue, tmp_path_factory.mktemp("flower"))
    try:
        yield running
    finally:
        running.stop()


def row_of(flower: Flower, queue: str) -> list[str]:
    """The cells of this queue on the broker page; none while it is not there."""
    for row in flower.ask("/broker").split("<tr"):
        cells = CELL.findall(row)
        if cells and queue in cells[0]:
            return [re.sub(r"<[^>]+>", "", cell).strip() for cell in cells]
    return []


@pytest.mark.acceptance
def test_the_broker_page_has_the_queue_of_the_worker(flower: Flower, worker: Worker) -> None:
    assert worker.run("add", 2, 3) == 5
    wanted = [worker.queue, "0", "0", "0", "1"]  # the task is acknowledged behind its result

    def row() -> list[str]:
        cells = row_of(flower, worker.queue)
        return cells if cells[:5] == wanted else []

    assert wait_for(row, DEADLINE_S, "the queue's row")[5] != "N/A"
    assert "broker" not in [line.lower() for line in flower.log().splitlines() if "ERROR" in line]


@pytest.mark.acceptance
def test_flowers_own_api_counts_the_messages(flower: Flower, worker: Worker) -> None:
    def length() -> Any:
        answer = flower.ask("/api/queues/length")
        return f'"name": "{worker.queue}"' in answer and '"messages": 0' in answer

    wait_for(length, DEADLINE_S, "the length of the queue")
