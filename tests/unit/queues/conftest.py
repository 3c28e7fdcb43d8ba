"""A real queue with a turn that the test finishes by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from hareline.queues.dispatch import placing, reading
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.deep_queues import make_windows_small
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue
from tests.support.turns import ManualTurn

Publish = Callable[..., None]


@pytest.fixture
def queue(turn: ManualTurn) -> Queue:
    return Queue("q", FifoOrder(), turn)


@pytest.fixture
def publish(queue: Queue) -> Publish:
    """``publish(b"one", b"two")`` enqueues one message for each body."""

    def enqueue_all(*bodies: bytes) -> None:
        for body in bodies:
            queue.enqueue(make_message(body, routing_key="q"))

    return enqueue_all


@pytest.fixture
def place() -> TimedQueue:
    return TimedQueue()


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few entries make a queue deep."""
    make_windows_small(monkeypatch)


@pytest.fixture(autouse=True)
def turns_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a turn does is not to depend on how fast the machine is."""
    monkeypatch.setattr(placing, "TURN_SHARE_S", inf)
    monkeypatch.setattr(reading, "TURN_SHARE_S", inf)
