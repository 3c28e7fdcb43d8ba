"""A credit window: at most so many deliveries, at most so many octets, and who waits for it."""

from __future__ import annotations

import pytest

from hareline.broker.queues.credit import CreditWindow
from hareline.broker.queues.queue import Queue
from tests.support.consumers import RecordingConsumer


def test_a_window_without_limits_admits_everything() -> None:
    window = CreditWindow()
    assert not window.is_limited
    for _ in range(1000):
        assert window.admits(1 << 40)
        window.use(1 << 40)


@pytest.mark.parametrize(("count", "size"), [(1, 0), (0, 1), (1, 1)])
def test_either_limit_makes_a_window_limited(count: int, size: int) -> None:
    assert CreditWindow(count, size).is_limited


def test_a_count_limit_admits_exactly_so_many_deliveries() -> None:
    window = CreditWindow(limit_count=2)
    window.use(10)
    assert window.admits(10)
    window.use(10)
    assert not window.admits(0)
    window.restore(10)
    assert window.admits(10)


def test_an_octet_limit_admits_up_to_the_last_octet() -> None:
    window = CreditWindow(limit_bytes=100)
    window.use(60)
    assert window.admits(40)
    assert not window.admits(41)


def test_an_oversized_message_passes_when_nothing_is_outstanding() -> None:
    window = CreditWindow(limit_bytes=100)
    assert window.admits(101)
    window.use(101)
    assert not window.admits(1)
    window.restore(101)
    assert window.admits(5000)


def test_an_oversized_message_waits_while_something_is_outstanding() -> None:
    window = CreditWindow(limit_bytes=100)
    window.use(1)
    assert not window.admits(100)


def test_empty_bodies_cost_no_octets() -> None:
    window = CreditWindow(limit_bytes=10)
    window.use(10)
    assert window.admits(0)


def test_both_limits_must_admit() -> None:
    window = CreditWindow(limit_count=2, limit_bytes=100)
    window.use(90)
    assert not window.admits(11)
    assert window.admits(10)
    window.use(10)
    assert not window.admits(0)


def test_a_smaller_limit_counts_what_is_outstanding() -> None:
    window = CreditWindow(limit_count=5)
    for _ in range(4):
        window.use(1)
    window.resize(3, 0)
    assert not window.admits(1)
    window.restore(1)
    assert not window.admits(1)
    window.restore(1)
    assert window.admits(1)


def test_resizing_to_nothing_lifts_the_limits() -> None:
    window = CreditWindow(limit_count=1, limit_bytes=1)
    window.use(1)
    window.resize(0, 0)
    assert not window.is_limited
    assert window.admits(100)


def test_waking_puts_the_waiting_consumers_back_into_their_rings(queue: Queue) -> None:
    window = CreditWindow(limit_count=1)
    consumer = RecordingConsumer(queue, windows=(window,))
    window.waiting.append(consumer)
    window.wake_waiting()
    assert window.waiting == []
    assert consumer.is_active
