"""Entries of an earlier life: they come back as objects, or as numbers in pages."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from hareline.broker.restoring import (
    end_paged,
    has_levels,
    restore_entries,
    restore_paged,
    takes_pages,
)
from hareline.message import Message
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.orders.priority import rabbitmq_levels
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold
from hareline.queues.policies.overflow import Overflow
from tests.support.content_stores import PagedQueue
from tests.support.deep_queues import (
    PAGE,
    WINDOW,
    bodies,
    durable,
    paged_count,
    publish,
    read,
)
from tests.support.messages import make_message

pytestmark = pytest.mark.usefixtures("small_windows")


class TestRestored:
    def columns(
        self, paged: PagedQueue, first: int, end: int
    ) -> tuple[array[int], array[int], int]:
        """Messages that an earlier life has left in the store."""
        for offset in range(first, end):
            message = make_message(b"%04d" % offset)
            message.position = 1000 + offset
            paged.content_store.records[1000 + offset] = message
            assert paged.ledger is not None
            paged.ledger.living[offset] = 1000 + offset
            paged.store.references[1000 + offset] = 1
        offsets = array("Q", range(first, end))
        return offsets, array("Q", range(1000 + first, 1000 + end)), 4 * (end - first)

    def put(self, paged: PagedQueue, offset: int, **properties: Any) -> None:
        """One of them with these properties."""
        self.columns(paged, offset, offset + 1)
        message = make_message(b"%04d" % offset, **properties)
        message.position = 1000 + offset
        paged.content_store.records[1000 + offset] = message

    def message(self, paged: PagedQueue, offset: int) -> Message:
        self.columns(paged, offset, offset + 1)
        return paged.content_store.read(1000 + offset)

    def test_entries_come_back_from_their_columns(self) -> None:
        paged = durable()
        assert takes_pages(paged.queue)
        restore_paged(paged.queue, *self.columns(paged, 5, 40), {6: 2, 30: 1})
        end_paged(paged.queue)
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (35, 140)
        publish(paged, 2)
        entries = paged.queue.acquire(40)
        assert read(entries) == bodies(5, 42)
        counts = {entry.offset: entry.delivery_count for entry in entries if entry.delivery_count}
        assert counts == {6: 2, 30: 1}

    def restore_mixed(
        self, paged: PagedQueue, count: int, kept: Collection[int], **options: Any
    ) -> None:
        """``count`` entries, of which these stay objects and expire in a second."""
        self.columns(paged, 0, count)
        others = [offset for offset in range(count) if offset not in kept]
        expires_at_ms = paged.environment.clock.now_ms + 1000
        messages = [
            (each, each % 2, paged.content_store.read(1000 + each).expiring_at(expires_at_ms))
            for each in kept
        ]
        restore_paged(
            paged.queue,
            array("Q", others),
            array("Q", [1000 + offset for offset in others]),
            4 * len(others),
            kept=messages,
            **options,
        )

    @pytest.mark.parametrize(
        "kept",
        [{0}, {10}, {29}, {0, 29}, {3, 4, 5, 6, 7, 8}, {*range(0, 30, 2)}, {*range(30)}],
        ids=str,
    )
    def test_entries_that_stay_objects_have_their_places_among_them(self, kept: set[int]) -> None:
        paged = durable()
        queue = paged.queue
        self.restore_mixed(paged, 30, sorted(kept))
        end_paged(queue)
        assert (queue.ready_count, queue.ready_bytes) == (30, 120)
        assert paged_count(paged) == 30
        assert paged.content_store.runs == [], "contents stay on disk"
        entries = queue.acquire(40)
        assert read(entries) == bodies(0, 30)
        assert [entry.offset for entry in entries if entry.delivery_count] == [
            offset for offset in sorted(kept) if offset % 2
        ]

    def test_those_among_them_that_expire_still_do(self) -> None:
        paged = durable()
        queue = paged.queue
        self.restore_mixed(paged, 20, (0, 7, 10, 19))
        end_paged(queue)
        paged.timers.advance(1001)
        assert queue.ready_count == 16
        gone = (0, 7, 10, 19)
        assert read(queue.acquire(40)) == [b"%04d" % n for n in range(20) if n not in gone]

    def test_a_page_has_no_more_entries_than_others_have(self) -> None:
        paged = durable()
        self.restore_mixed(paged, 30, range(0, 30, 4))
        order = paged.queue.order
        assert isinstance(order, FifoOrder)
        assert order._pages is not None
        assert [len(page) for page in order._pages._pages] == [PAGE] * 7 + [2]

    def test_every_level_of_priority_has_pages_of_its_own(self) -> None:
        paged = PagedQueue(rabbitmq_levels(9), is_durable=True)
        queue = paged.queue
        assert takes_pages(queue)
        assert has_levels(queue)
        levels = (0, 3, 9, 9, 0, 3, 9)
        for level in (3, 0, 9):
            offsets = [each for each, its in enumerate(levels) if its == level]
            for offset in offsets:
                self.put(paged, offset, priority=level)
            columns = array("Q", offsets), array("Q", [1000 + each for each in offsets])
            restore_paged(queue, *columns, 4 * len(offsets), {2: 1}, level=level)
        end_paged(queue)
        assert (queue.ready_count, queue.ready_bytes, queue.next_offset) == (7, 28, 7)
        entries = queue.acquire(4)
        assert [entry.offset for entry in entries] == [2, 3, 6, 1]
        assert [entry.delivery_count for entry in entries] == [1, 0, 0, 0]
        publish(paged, 1)  # of level 0
        queue.release(entries)
        assert [entry.offset for entry in queue.lane.ready_entries()] == [2, 3, 6, 1, 5, 0, 4, 7]
        least = queue.lane.least()
        assert least is not None
        assert least.offset == 0

    def test_one_that_shows_how_often_it_came_back_is_whole(self) -> None:
        paged = durable()
        queue = paged.queue
        queue.shows_delivery_count = True
        self.columns(paged, 0, 10)
        restore_paged(queue, *self.columns(paged, 0, 5), kept=[(5, 2, self.message(paged, 5))])
        end_paged(queue)
        entries = queue.acquire(10)
        assert [entry.message.header("x-delivery-count") for entry in entries] == [None] * 5 + [2]

    def test_a_purge_reads_none_of_them(self) -> None:
        paged = durable()
        self.restore_mixed(paged, 20, (0, 7, 19))
        end_paged(paged.queue)
        assert paged.queue.purge() == 20
        assert (paged.content_store.runs, paged.queue.ready_bytes) == ([], 0)
        assert paged.ledger is not None
        assert not paged.ledger.living

    def test_a_limit_is_kept_when_all_are_there(self) -> None:
        paged = durable()
        queue = paged.queue
        queue.overflow = Overflow(
            queue, paged.environment, max_length=8, max_length_bytes=None, policy="drop-head"
        )
        queue.install()
        self.restore_mixed(paged, 20, (3, 15))
        end_paged(queue)
        assert read(queue.acquire(40)) == bodies(12, 20)

    def test_nothing_to_restore_is_no_page(self) -> None:
        paged = durable()
        restore_paged(paged.queue, array("Q"), array("Q"), 0)
        end_paged(paged.queue)
        assert paged.queue.acquire(1) == []

    @pytest.mark.pure("replaces a constant, which is compiled in")
    def test_whole_ones_leave_memory_on_their_way_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hareline.broker.restoring.RESTORED_PER_STEP", 10)
        paged = durable()
        in_memory: list[int] = []

        def entries() -> Iterator[tuple[int, int, Message]]:
            for offset in range(100):
                in_memory.append(offset - paged_count(paged))
                yield offset, 0, self.message(paged, offset)

        restore_entries(paged.queue, entries())
        assert max(in_memory) <= WINDOW + 11
        assert paged_count(paged) == 100 - WINDOW
        assert read(paged.queue.acquire(100)) == bodies(0, 100)

    def test_only_queues_whose_entries_nobody_else_has_take_pages(self) -> None:
        assert not takes_pages(durable(SortedOrder("k")).queue)
        assert not takes_pages(durable(LastValueOrder("k")).queue)
        assert takes_pages(durable(rabbitmq_levels(1)).queue)
        with_ttl = durable()
        with_ttl.queue.expiry = Expiry(with_ttl.queue, with_ttl.environment, message_ttl_ms=5)
        assert takes_pages(with_ttl.queue)
        with_hold = durable()
        with_hold.queue.hold = Hold(with_hold.queue, with_hold.environment)
        assert not takes_pages(with_hold.queue)
        for counts in (False, True):
            limited = durable()
            limited.queue.overflow = Overflow(
                limited.queue,
                limited.environment,
                max_length=5,
                max_length_bytes=None,
                policy="none",
                counts_unacked=counts,
            )
            assert takes_pages(limited.queue) is not counts
