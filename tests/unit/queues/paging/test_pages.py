"""Pages: where entries stand that have left memory."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence

import pytest

from hareline.queues.core import pages
from hareline.queues.core.entry import SETTLED, QueueEntry
from hareline.queues.core.pages import Page, Pager, Pages
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

PAGE = 4
QUEUE = Queue("q", FifoOrder(), ManualTurn())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_ENTRIES", PAGE)


class PlainPager(Pager):
    """Even offsets become numbers, odd ones are kept; from ``unwritten`` on none are ready."""

    def __init__(self, unwritten: int = 1000) -> None:
        self.unwritten = unwritten
        self.lost: set[int] = set()

    def page_out(self, page: Page, entries: list[QueueEntry], *, keeps_unwritten: bool) -> int:
        for count, entry in enumerate(entries):
            if entry.state == SETTLED:
                continue
            is_unwritten = entry.offset >= self.unwritten
            if is_unwritten and not keeps_unwritten:
                return count
            if entry.offset % 2 or is_unwritten:
                page.kept.append(entry)
            else:
                page.offsets.append(entry.offset)
                page.positions.append(entry.offset + 1)
        return len(entries)

    def entries_of(self, page: Page) -> list[QueueEntry]:
        made = [new_entry(offset) for offset in page.offsets if offset not in self.lost]
        return sorted(made + page.kept, key=lambda entry: entry.offset)

    def unfold(self, page: Page) -> None:
        page.kept = self.entries_of(page)
        del page.offsets[:], page.positions[:]

    def shown(self, page: Page) -> list[QueueEntry]:
        return [new_entry(offset) for offset in page.offsets if offset not in self.lost]

    def entries_at(
        self,
        offsets: Sequence[int],
        positions: array[int],
        sizes: array[int],
        stored_each: int,
    ) -> list[QueueEntry]:
        return [new_entry(offset) for offset in offsets if offset not in self.lost]

    def drop_spooled(self, positions: array[int]) -> None:
        raise AssertionError("nothing is spooled here")


def new_entry(offset: int) -> QueueEntry:
    return QueueEntry(QUEUE, make_message(), offset)


def entries(first: int, end: int) -> deque[QueueEntry]:
    return deque(new_entry(offset) for offset in range(first, end))


def offsets(some: list[QueueEntry]) -> list[int]:
    return [entry.offset for entry in some]


def turn_all(shelved: Pages) -> list[int]:
    turned: list[int] = []
    while shelved.count:
        turned += offsets(shelved.turn())
    return turned


def test_entries_come_out_page_by_page_in_order() -> None:
    shelved = Pages(PlainPager())
    assert shelved.fill(entries(0, 10), 100) == (10, 0)
    assert (shelved.count, len(shelved), shelved.first_offset) == (10, 3, 0)
    assert offsets(shelved.turn()) == [0, 1, 2, 3]
    assert (shelved.count, shelved.first_offset) == (6, 4)
    assert turn_all(shelved) == [4, 5, 6, 7, 8, 9]


def test_the_last_page_is_filled_up_by_those_that_come_later() -> None:
    shelved = Pages(PlainPager())
    for offset in range(10):
        shelved.fill(entries(offset, offset + 1), 100)
    assert len(shelved) == 3
    assert turn_all(shelved) == list(range(10))


def test_it_stops_at_the_limit_and_at_what_is_not_written() -> None:
    shelved = Pages(PlainPager(unwritten=6))
    fresh = entries(0, 10)
    assert shelved.fill(fresh, 3) == (3, 0)
    assert shelved.fill(fresh, 100) == (3, 0)
    assert shelved.fill(fresh, 100) == (0, 0)
    assert offsets(list(fresh)) == [6, 7, 8, 9]
    assert turn_all(shelved) == [0, 1, 2, 3, 4, 5]


def test_settled_entries_are_left_out_and_counted() -> None:
    shelved = Pages(PlainPager())
    fresh = entries(0, 8)
    for offset in (0, 5, 7):
        fresh[offset].state = SETTLED
    assert shelved.fill(fresh, 100) == (8, 3)
    assert turn_all(shelved) == [1, 2, 3, 4, 6]


def test_only_settled_ones_make_no_page() -> None:
    shelved = Pages(PlainPager())
    fresh = entries(0, 8)
    for entry in fresh:
        entry.state = SETTLED
    assert shelved.fill(fresh, 100) == (8, 8)
    assert (shelved.count, len(shelved)) == (0, 0)


def test_what_comes_back_goes_before_all_others() -> None:
    shelved = Pages(PlainPager(unwritten=18))
    shelved.fill(entries(10, 14), 100)
    line = entries(0, 10)
    line[9].state = SETTLED
    assert shelved.take_back(line, 7) == 1
    assert offsets(list(line)) == [0, 1, 2]
    assert shelved.first_offset == 3
    assert turn_all(shelved) == [3, 4, 5, 6, 7, 8, 10, 11, 12, 13]


def test_what_comes_back_unwritten_is_kept() -> None:
    pager = PlainPager(unwritten=0)
    shelved = Pages(pager)
    line = entries(0, 6)
    assert shelved.take_back(line, 6) == 0
    assert offsets(shelved.kept()) == [0, 1, 2, 3, 4, 5]


def test_what_cannot_be_read_is_counted_as_lost() -> None:
    pager = PlainPager()
    shelved = Pages(pager)
    shelved.fill(entries(0, 8), 100)
    pager.lost = {2, 6}
    assert offsets(shelved.turn()) == [0, 1, 3]
    assert (shelved.count, shelved.lost) == (4, 1)
    assert offsets(list(shelved.entries())) == [4, 5, 7]
    assert (shelved.count, shelved.lost) == (3, 2)


def test_looking_at_them_makes_them_objects_where_they_stand() -> None:
    shelved = Pages(PlainPager())
    shelved.fill(entries(0, 10), 100)
    seen = list(shelved.entries())
    assert offsets(seen) == list(range(10))
    assert list(shelved.entries()) == seen
    assert shelved.turn() == seen[:4]


def test_a_page_that_is_lost_whole_is_no_page() -> None:
    pager = PlainPager()
    shelved = Pages(pager)
    shelved.append(page := Page())
    page.offsets.append(2)
    page.positions.append(3)
    shelved.count = 1
    pager.lost = {2}
    assert list(shelved.entries()) == []
    assert (shelved.count, len(shelved)) == (0, 0)


def test_sweeping_lets_go_of_settled_ones_and_of_empty_pages() -> None:
    shelved = Pages(PlainPager())
    shelved.fill(entries(0, 8), 100)
    kept = shelved.kept()
    for entry in (*shelved.entries(),):
        entry.state = SETTLED if entry.offset < 5 else entry.state
    shelved.sweep()
    assert (shelved.count, len(shelved)) == (3, 1)
    assert offsets(kept) == [1, 3, 5, 7]
    assert turn_all(shelved) == [5, 6, 7]


def test_dropping_shows_each_page_and_gives_the_kept_ones_back() -> None:
    shelved = Pages(PlainPager())
    shelved.fill(entries(0, 10), 100)
    dropped: list[int] = []
    kept, count = shelved.drop(lambda page: dropped.extend(page.offsets))
    assert dropped == [0, 2, 4, 6, 8]
    assert offsets(kept) == [1, 3, 5, 7, 9]
    assert (count, shelved.count, len(shelved)) == (5, 0, 0)


def test_a_page_knows_its_first_offset_whatever_stands_there() -> None:
    page = Page()
    page.kept.append(new_entry(5))
    assert page.first_offset == 5
    page.offsets.append(3)
    assert page.first_offset == 3
    page.kept.clear()
    assert page.first_offset == 3
