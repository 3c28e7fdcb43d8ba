"""A real Celery worker over the broker: tasks, results, remote control, events, lost workers.

The workers are processes; this side sends tasks by name, as a client without their code does. One
worker with ``rpc://`` results serves the module, one with SQLite results the chords, and tests
that kill a worker start one of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery", reason="celery (PyPI) is not installed")
import amqp
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError

from tests.support.broker_process import BrokerProcess, BrokerUnderTest, restarting
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

from .conftest import StartBroker

DEADLINE_S = 60.0
APP_DIRECTORY = Path(__file__).parent
#: How long a task is put off: so long that something else comes first, on a slow machine too.
COUNTDOWNS_S = (1.0, 5.0, 25.0)
SOLO = "-c 1 -P solo --without-mingle --without-gossip"
ADMIN = """
[[users]]
name = "admin"
password = "admin"
tags = ["administrator"]
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
"""


class Worker:
    """A ``celery worker`` process, with a client application that speaks to it."""

    def __init__(
        self,
        broker_url: str,
        directory: Path,
        *,
        results: str = "rpc://",
        options: str = "",
        queue: str | None = None,
    ) -> None:
        self.queue = queue or f"interop-celery-{uuid.uuid4().hex[:8]}"
        self.node = f"{self.queue}@here"
        self.log_path = directory / f"{self.queue}.log"
        environment = {
            **os.environ,
            "CELERY_BROKER_URL": broker_url,
            "INTEROP_QUEUE": self.queue,
            "INTEROP_RESULTS": results,
        }
        command = [sys.executable, "-m", "celery", "--workdir", str(APP_DIRECTORY)]
        command += ["-A", "celery_app", "worker", "-n", self.node, "-l", "INFO", "-E"]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *options.split()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # so that its pool can be killed with it
            )
        self.client = Celery("client", broker=broker_url, backend=results)
        self.client.conf.task_default_queue = self.queue
        try:
            wait_for(lambda: "ready." in self.log(), DEADLINE_S, "the worker to be ready")
        except AssertionError:
            self.kill()
            raise

    def log(self) -> str:
        text = self.log_path.read_text(errors="replace")
        assert self.process.poll() is None, text[-3000:]
        return text

    def task(self, name: str, *args: Any, **options: Any) -> Any:
        """The signature of ``interop.<name>``, to be sent to this worker."""
        return self.client.signature(f"interop.{name}", args=args, options=options)

    def run(self, name: str, *args: Any, **options: Any) -> Any:
        """Send a task and return its result."""
        return self.task(name, *args, **options).apply_async().get(timeout=DEADLINE_S)

    def inspect(self) -> Any:
        return self.client.control.inspect(destination=[self.node], timeout=DEADLINE_S, limit=1)

    def queues(self) -> list[str]:
        """The queues that the worker consumes from, as it says."""
        return [queue["name"] for queue in self.inspect().active_queues()[self.node]]

    def ready_messages(self, queue: str | None = None) -> int:
        """Messages in the queue that no worker holds."""
        with self.client.connection_for_read() as connection:
            declared = connection.default_channel.queue_declare(queue or self.queue, passive=True)
        return int(declared.message_count)

    def kill(self) -> None:
        """SIGKILL to the worker and its pool, as when a machine dies."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM is Celery's warm shutdown; then the worker's queue is deleted."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                status = self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            assert status == 0, self.log_path.read_text(errors="replace")[-3000:]
        with self.client.connection_for_write() as connection:
            connection.default_channel.queue_delete(self.queue)
        self.client.close()


@pytest.fixture(scope="module")
def worker(broker: BrokerUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """Two prefork children, results over rpc://, prefetch multiplier 1."""
    running = Worker(broker.url, tmp_path_factory.mktemp("worker"), options="-c 2 -P prefork")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def sqlite_worker(
    broker: BrokerUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    """Two threads, results in SQLite, which chords need."""
    pytest.importorskip("sqlalchemy", reason="sqlalchemy (PyPI) is not installed")
    directory = tmp_path_factory.mktemp("sqlite")
    running = Worker(
        broker.url,
        directory,
        results=f"db+sqlite:///{directory / 'results.sqlite'}",
        options="-c 2 -P threads --without-mingle --without-gossip",
    )
    yield running
    running.stop()


def started(directory: Path, count: int) -> list[int]:
    """The process ids of ``count`` holding tasks, when they all run."""

    def pids() -> list[int]:
        found = [path.read_text() for path in directory.glob("*.pid")]
        return [int(text) for text in found if text]

    return wait_for(
        lambda: pids() if len(pids()) == count else None, DEADLINE_S, f"{count} tasks to start"
    )


# Results


@pytest.mark.acceptance
def test_result_comes_back(worker: Worker) -> None:
    assert worker.run("add", 2, 3) == 5


def test_payload_comes_back_unchanged(worker: Worker) -> None:
    payload = {"text": "Grüße 世界", "big": "x" * 1_000_000, "nested": [1, None, {"a": 2.5}]}
    assert worker.run("echo", payload) == payload


@pytest.mark.acceptance
def test_group_results_keep_their_order(worker: Worker) -> None:
    result = group(worker.task("add", n, n) for n in range(50)).apply_async()
    assert result.get(timeout=DEADLINE_S) == [2 * n for n in range(50)]


def test_chain_hands_results_on(worker: Worker) -> None:
    result = chain(worker.task("add", 1, 2), worker.task("add", 10), worker.task("add", 100))
    assert result.apply_async().get(timeout=DEADLINE_S) == 113


def test_failure_is_raised_at_the_caller(worker: Worker) -> None:
    result = worker.task("fail", "so it goes").apply_async()
    with pytest.raises(ValueError, match="so it goes"):
        result.get(timeout=DEADLINE_S)
    assert result.state == "FAILURE"


def test_task_is_retried_until_it_succeeds(worker: Worker) -> None:
    assert worker.run("flaky", 3) == 3


def test_task_that_never_succeeds_fails_after_its_retries(worker: Worker) -> None:
    with pytest.raises(RuntimeError, match="not yet"):
        worker.run("flaky", 99)


@pytest.mark.acceptance
def test_concurrent_clients_each_get_their_own_results(worker: Worker) -> None:
    answers: dict[int, list[int]] = {}

    def ask(client: int) -> None:
        results = [worker.task("add", client * 1000, n).apply_async() for n in range(20)]
        answers[client] = [result.get(timeout=DEADLINE_S) for result in results]

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {c: [c * 1000 + n for n in range(20)] for c in range(4)}


@pytest.mark.acceptance
def test_chord_runs_its_body_after_every_header_task(sqlite_worker: Worker) -> None:
    header = [sqlite_worker.task("add", n, 1) for n in range(10)]
    result = chord(header, app=sqlite_worker.client)(sqlite_worker.task("total"))
    assert result.get(timeout=DEADLINE_S) == sum(range(1, 11))


@pytest.mark.acceptance
def test_chain_of_groups_becomes_chords(sqlite_worker: Worker) -> None:
    first = group(sqlite_worker.task("add", n, n) for n in range(5))
    flow = chain(first, sqlite_worker.task("total"), sqlite_worker.task("add", 1000))
    assert flow.apply_async().get(timeout=DEADLINE_S) == 1020


# Time


@pytest.mark.acceptance
def test_countdown_and_eta_are_kept_while_others_run(worker: Worker) -> None:
    for countdown in COUNTDOWNS_S:
        sent_at = time.time()
        delayed = worker.task("now").apply_async(countdown=countdown)
        assert worker.run("add", 1, 1) == 2
        state = delayed.state
        assert delayed.get(timeout=DEADLINE_S) - sent_at >= countdown
        if state == "PENDING":
            return
    pytest.fail("no other task came before it")


@pytest.mark.row("S14")
@pytest.mark.acceptance
def test_a_policy_keeps_what_has_an_eta_in_the_broker_while_all_restart(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker(ADMIN)
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}", "admin", "admin")
    policy = {"pattern": "^interop-celery-", "definition": {"hold-until-header": "eta"}}
    api.done("PUT", "/api/policies/%2F/eta", policy)
    worker = first = Worker(broker.url, tmp_path, options=SOLO)

    def held() -> int:
        return int(api.get(f"/api/queues/%2F/{worker.queue}")["messages_held"])

    for countdown in COUNTDOWNS_S:
        sent_at = time.time()
        delayed = first.task("now").apply_async(countdown=countdown)
        assert worker.run("add", 1, 1) == 2  # it has not been kept from other work
        was_held = held() == 1
        assert worker.inspect().scheduled()[worker.node] == []  # where it would wait otherwise
        worker.kill()
        with restarting(broker):
            pass
        was_held = was_held and held() == 1
        worker = Worker(broker.url, tmp_path, options=SOLO, queue=worker.queue)
        assert delayed.get(timeout=DEADLINE_S) - sent_at >= countdown
        if was_held:
            break
    else:
        pytest.fail("it was never held over a restart")
    assert held() == 0
    worker.stop()


@pytest.mark.acceptance
def test_revoked_task_does_not_run(worker: Worker) -> None:
    for countdown in COUNTDOWNS_S:
        result = worker.task("add", 1, 1).apply_async(countdown=countdown)
        replies = worker.client.control.revoke(
            result.id, reply=True, destination=[worker.node], timeout=DEADLINE_S, limit=1
        )
        assert [list(reply) for reply in replies] == [[worker.node]]
        try:
            result.get(timeout=DEADLINE_S)
        except TaskRevokedError:
            return
    pytest.fail("it ran each time")


def test_running_task_can_be_terminated(worker: Worker, tmp_path: Path) -> None:
    result = worker.task("hold", str(tmp_path)).apply_async()
    started(tmp_path, 1)
    worker.client.control.revoke(result.id, terminate=True, signal="SIGKILL")
    with pytest.raises(TaskRevokedError):
        result.get(timeout=DEADLINE_S)


# Remote control and events


def test_ping_reaches_every_worker_by_broadcast(worker: Worker, sqlite_worker: Worker) -> None:
    replies = worker.client.control.ping(timeout=DEADLINE_S, limit=2)
    assert sorted(replies, key=str) == sorted(
        ({node: {"ok": "pong"}} for node in (worker.node, sqlite_worker.node)), key=str
    )


def test_inspect_tells_what_the_worker_does(worker: Worker, tmp_path: Path) -> None:
    result = worker.task("hold", str(tmp_path)).apply_async()
    started(tmp_path, 1)
    [active] = worker.inspect().active()[worker.node]
    assert (active["id"], active["name"]) == (result.id, "interop.hold")
    assert "interop.add" in worker.inspect().registered()[worker.node]
    assert worker.queues() == [worker.queue]
    assert worker.inspect().stats()[worker.node]["pool"]["max-concurrency"] == 2
    (tmp_path / "go").touch()
    assert result.get(timeout=DEADLINE_S) == "first"


def test_worker_takes_up_and_leaves_a_queue_when_told(worker: Worker, name: str) -> None:
    control = worker.client.control
    told = {"reply": True, "destination": [worker.node], "timeout": DEADLINE_S, "limit": 1}
    assert "ok" in control.add_consumer(name, **told)[0][worker.node]
    assert worker.run("add", 2, 2, queue=name) == 4
    assert "ok" in control.cancel_consumer(name, **told)[0][worker.node]
    # Celery answers first and cancels then.
    wait_for(lambda: worker.queues() == [worker.queue], DEADLINE_S, "it to leave the queue")
    late = worker.task("add", 3, 3, queue=name).apply_async()
    assert worker.run("add", 1, 1) == 2
    assert worker.ready_messages(name) == 1
    assert "ok" in control.add_consumer(name, **told)[0][worker.node]
    assert late.get(timeout=DEADLINE_S) == 6
    control.cancel_consumer(name, **told)
    with worker.client.connection_for_write() as connection:
        connection.default_channel.queue_delete(name)


def test_event_receiver_sees_a_task_live_and_succeed(worker: Worker) -> None:
    seen: dict[str, list[str]] = {}
    capturing, stopping = threading.Event(), threading.Event()

    def on_event(event: dict[str, Any]) -> None:
        seen.setdefault(event.get("uuid", ""), []).append(event["type"])

    def capture() -> None:
        with worker.client.connection_for_read() as given:
            receiver = worker.client.events.Receiver(given, handlers={"*": on_event})
            with receiver.consumer_context() as (connection, _, _):
                capturing.set()
                while not stopping.is_set():
                    with contextlib.suppress(TimeoutError):
                        connection.drain_events(timeout=0.1)

    listener = threading.Thread(target=capture)
    listener.start()
    try:
        assert capturing.wait(DEADLINE_S)
        result = worker.task("add", 1, 2).apply_async()
        assert result.get(timeout=DEADLINE_S) == 3
        wait_for(lambda: "task-succeeded" in seen.get(result.id, []), DEADLINE_S, "task-succeeded")
    finally:
        stopping.set()
        listener.join()
    assert seen[result.id] == ["task-received", "task-started", "task-succeeded"]


# Prefetch, late acks and lost workers


@pytest.mark.acceptance
def test_prefetch_multiplier_one_leaves_the_rest_to_others(worker: Worker, tmp_path: Path) -> None:
    results = [worker.task("hold", str(tmp_path)).apply_async() for _ in range(5)]
    started(tmp_path, 2)
    # late acks: what runs is all that is unacked
    wait_for(lambda: worker.ready_messages() == 3, DEADLINE_S, "three messages that wait")
    (tmp_path / "go").touch()
    assert [result.get(timeout=DEADLINE_S) for result in results] == ["first"] * 5
    wait_for(lambda: worker.ready_messages() == 0, DEADLINE_S, "an empty queue")


@pytest.mark.acceptance
def test_task_of_a_killed_pool_process_is_delivered_again(worker: Worker, tmp_path: Path) -> None:
    result = worker.task("hold", str(tmp_path)).apply_async()
    [pid] = started(tmp_path, 1)
    os.kill(pid, signal.SIGKILL)
    assert result.get(timeout=DEADLINE_S) == "redelivered"


@pytest.mark.acceptance
def test_task_of_a_killed_worker_goes_to_another(
    broker: BrokerUnderTest, worker: Worker, tmp_path: Path
) -> None:
    doomed = Worker(
        broker.url, tmp_path, options="-c 1 -P prefork --without-mingle --without-gossip"
    )
    result = worker.task("hold", str(tmp_path), queue=doomed.queue).apply_async()
    started(tmp_path, 1)
    doomed.kill()
    told = {"reply": True, "destination": [worker.node], "timeout": DEADLINE_S, "limit": 1}
    worker.client.control.add_consumer(doomed.queue, **told)
    assert result.get(timeout=DEADLINE_S) == "redelivered"
    worker.client.control.cancel_consumer(doomed.queue, **told)
    doomed.stop()


@pytest.mark.acceptance
def test_worker_and_client_reconnect_after_a_restart(
    own_broker: BrokerProcess, tmp_path: Path
) -> None:
    worker = Worker(own_broker.url, tmp_path, options=SOLO)
    try:
        assert worker.run("add", 1, 1) == 2
        with restarting(own_broker):
            pass
        wait_for(
            lambda: worker.log().count("Connected to amqp") == 2,
            DEADLINE_S,
            "the worker to connect again",
        )
        answered = wait_for_answer(worker.task("add", 2, 2))
        assert answered == 4
    finally:
        worker.stop()


def wait_for_answer(task: Any) -> Any:
    """Send until a send and its result meet no stale connection; each failure costs one."""

    def attempt() -> Any:
        try:
            return task.apply_async().get(timeout=5)
        except (amqp.ConnectionError, OSError, TimeoutError):
            return None

    return wait_for(attempt, DEADLINE_S, "an answer over new connections")
