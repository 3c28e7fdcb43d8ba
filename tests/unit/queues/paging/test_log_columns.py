"""One page of a log: its columns, and what is remembered of it."""

from __future__ import annotations

from array import array

import pytest

from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.pages import Page
from hareline.queues.orders import log_columns
from hareline.queues.orders.log_columns import RECENT_ENTRY_BYTES, LogPage, Recent
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

QUEUE = Queue("q", LogOrder(), ManualTurn())


def page_of(*offsets: int) -> Page:
    page = Page()
    page.offsets = array("Q", offsets)
    page.positions = array("Q", [1000 + offset for offset in offsets])
    page.sizes = array("I", [10 + offset for offset in offsets])
    return page


def made(*parts: Page) -> LogPage:
    page = LogPage(parts[0].first_offset)
    for part in parts:
        page.append(part)
    return page


def entry(offset: int, body: bytes = b"") -> QueueEntry:
    return QueueEntry(QUEUE, make_message(body), offset)


def test_offsets_cost_nothing_as_long_as_none_is_missing() -> None:
    page = made(page_of(5, 6), page_of(7), page_of(8, 9))
    assert page.offsets == range(5, 10)
    assert (page.low, page.end, len(page), page.number_count) == (5, 10, 5, 5)
    page.append(page_of(11))
    assert list(page.offsets) == [5, 6, 7, 8, 9, 11]
    page.append(page_of(12, 14))
    assert list(page.offsets) == [5, 6, 7, 8, 9, 11, 12, 14]
    assert list(page.positions) == [1000 + offset for offset in page.offsets]
    assert page.end == 15


def test_the_head_is_removed_without_moving_the_rest() -> None:
    page = made(page_of(5, 6, 7, 8))
    page.remove(0)
    page.remove(1)
    assert page.offsets == range(5, 9)
    assert (page.start, len(page)) == (2, 2)
    page.remove(3)
    assert list(page.offsets) == [5, 6, 7]
    assert list(page.sizes) == [15, 16, 17]
    assert len(page) == 1


def test_a_stretch_is_a_page_by_itself() -> None:
    numbers = made(page_of(5, 6, 7, 8)).numbers(1, 3)
    assert list(numbers.offsets) == [6, 7]
    assert list(numbers.positions) == [1006, 1007]
    assert numbers.size_bytes == 16 + 17


def test_kept_entries_and_counts_belong_to_the_page() -> None:
    part = page_of(5, 7)
    part.kept = [entry(6), entry(9)]
    part.counts = {7: 2}
    other = page_of(10)
    other.counts = {10: 1}
    page = made(part, other)
    assert (len(page), page.end, page.counts) == (5, 11, {7: 2, 10: 1})
    assert page.room == log_columns.LOG_PAGE_ENTRIES - 5


def test_what_is_remembered_of_a_page_follows_its_growth() -> None:
    recent = Recent()
    page = made(page_of(0, 1, 2))
    assert recent.of(page, 0, 3) == [None] * 3
    one = entry(1)
    recent.remember(page, 1, [one])
    assert recent.of(page, 0, 3) == [None, one, None]
    page.append(page_of(3, 4))
    assert recent.of(page, 1, 5) == [one, None, None, None]
    recent.forget(page)
    assert recent.of(page, 1, 2) == [None]


def test_the_page_that_was_asked_for_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_columns, "RECENT_BYTES", 2 * (RECENT_ENTRY_BYTES + 8 + 100))
    recent = Recent()
    pages = [made(page_of(number)) for number in range(3)]
    for page in pages[:2]:
        recent.remember(page, 0, [entry(0, b"x" * 100)])
    assert recent.of(pages[0], 0, 1) != [None]
    recent.remember(pages[2], 0, [entry(2, b"x" * 100)])
    assert [recent.of(page, 0, 1) != [None] for page in pages] == [True, False, True]
    recent.remember(pages[1], 0, [entry(1, b"x" * 10_000)])
    assert [recent.of(page, 0, 1) != [None] for page in pages] == [False] * 3
