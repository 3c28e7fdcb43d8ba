"""The Celery application whose worker ``test_celery.py`` runs; the broker's URL is all it is told.

Environment: ``CELERY_BROKER_URL``; for the suite's own needs ``INTEROP_QUEUE`` (its default queue)
and ``INTEROP_RESULTS`` (result backend, ``rpc://`` unless given).
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

HOLD_POLL_S = 0.02
HOLD_DEADLINE_S = 60.0

app = Celery(
    "interop",
    broker=os.environ["CELERY_BROKER_URL"],
    backend=os.environ.get("INTEROP_RESULTS", "rpc://"),
)
app.conf.update(
    task_default_queue=os.environ.get("INTEROP_QUEUE", "celery"),
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    broker_connection_retry_on_startup=True,
    result_expires=60,
    task_track_started=True,
)


@app.task(name="interop.add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="interop.total")
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(name="interop.echo")
def echo(value: Any) -> Any:
    return value


@app.task(name="interop.now")
def now() -> float:
    """The wall clock when the worker ran the task."""
    return time.time()


@app.task(name="interop.fail")
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(name="interop.flaky", bind=True, max_retries=5)
def flaky(self: Any, failures: int) -> int:
    """Succeed at the attempt after ``failures`` failed ones, and say how many retries it took."""
    if self.request.retries < failures:
        raise self.retry(countdown=0, exc=RuntimeError("not yet"))
    return int(self.request.retries)


@app.task(
    name="interop.hold", bind=True, acks_late=True, reject_on_worker_lost=True, ignore_result=False
)
def hold(self: Any, directory: str) -> str:
    """Note the process in ``directory``, then wait there for a file named ``go``.

    Returns how the message came: ``first`` or ``redelivered``. A redelivered one does not wait.
    """
    if self.request.delivery_info["redelivered"]:
        return "redelivered"
    place = Path(directory)
    (place / f"{self.request.id}.pid").write_text(str(os.getpid()))
    end = time.monotonic() + HOLD_DEADLINE_S
    while not (place / "go").exists():
        if time.monotonic() > end:
            raise TimeoutError(f"nobody wrote {place / 'go'}")
        time.sleep(HOLD_POLL_S)
    return "first"
