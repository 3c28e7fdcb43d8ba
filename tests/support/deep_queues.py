"""Queues that are deep with a few messages, for the tests of paging: small windows, small pages."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hareline.message import UNWRITTEN, StoredMessage
from hareline.queues.core import pages
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.orders import fifo, log_columns, log_order, log_pages, window
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.order import EntryOrder
from tests.support.content_stores import PagedQueue
from tests.support.messages import make_message

WINDOW: Final = 8
PAGE: Final = 4


def make_windows_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """``WINDOW`` entries are a window, ``PAGE`` a page, and more than one window is deep."""
    monkeypatch.setattr(window, "WINDOW_ENTRIES", WINDOW)
    monkeypatch.setattr(window, "DEEP_FROM", 1)
    for module in (pages, fifo, log_order, window):
        monkeypatch.setattr(module, "PAGE_ENTRIES", PAGE)
    monkeypatch.setattr(log_columns, "LOG_PAGE_ENTRIES", PAGE)
    for name in ("LOG_PAGE_ENTRIES", "FILLED_AT_ONCE", "LOOKED_AT", "PEEKED"):
        monkeypatch.setattr(log_pages, name, PAGE)


def durable(order: EntryOrder | None = None) -> PagedQueue:
    return PagedQueue(FifoOrder() if order is None else order, is_durable=True)


def transient(order: EntryOrder | None = None) -> PagedQueue:
    return PagedQueue(FifoOrder() if order is None else order, is_durable=False)


def bodies(first: int, end: int) -> list[bytes]:
    return [b"%04d" % number for number in range(first, end)]


def publish(
    paged: PagedQueue,
    count: int,
    *,
    position: int = UNWRITTEN,
    ttl_ms: int = 0,
    **properties: Any,
) -> None:
    """``count`` messages, and the end of each turn; bodies are the offsets."""
    queue = paged.queue
    for _ in range(count):
        message = make_message(b"%04d" % queue.next_offset, **properties)
        message.position = position
        if ttl_ms:
            message = message.expiring_at(paged.environment.clock.now_ms + ttl_ms)
        if queue.needs_admission or ttl_ms:
            assert queue.put(message)
        else:
            queue.enqueue(message)
    paged.turn.run()


def deep(count: int = 50, order: EntryOrder | None = None, **properties: Any) -> PagedQueue:
    """A durable queue whose entries have left memory as far as they may."""
    paged = durable(order)
    publish(paged, count, **properties)
    paged.settle_down()
    return paged


def deep_log(count: int = 50, **properties: Any) -> tuple[PagedQueue, LogOrder]:
    """The same, of a queue that is only read."""
    order = LogOrder()
    paged = durable(order)
    paged.queue.install(lane=ReadingLane(paged.queue, order))
    publish(paged, count, **properties)
    paged.settle_down()
    return paged, order


def paged_count(paged: PagedQueue) -> int:
    """How many of its entries are numbers, or stand among them."""
    order = paged.queue.order.paged
    assert order is not None
    return order.paged_count


def read(entries: list[QueueEntry]) -> list[bytes]:
    return [entry.message.body for entry in entries]


def stored(paged: PagedQueue) -> list[QueueEntry]:
    """Ready entries without content."""
    entries = paged.queue.lane.ready_entries()
    return [entry for entry in entries if isinstance(entry.message, StoredMessage)]
