"""What leaves memory, when, and what it is when it comes back."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from hareline.broker.restoring import (
    restore_paged,
)
from hareline.message import TRANSIENT, UNWRITTEN, StoredMessage, Table
from hareline.queues.core import pages
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders import fifo
from hareline.queues.orders import window as paging
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.priority import rabbitmq_levels
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.orders.window import set_spooling
from hareline.queues.policies.hold import Hold
from hareline.queues.policies.overflow import Overflow
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.content_stores import PagedQueue
from tests.support.deep_queues import (
    PAGE,
    WINDOW,
    bodies,
    deep,
    durable,
    paged_count,
    publish,
    read,
    stored,
    transient,
)
from tests.support.freed import all_freed
from tests.support.messages import make_message

pytestmark = pytest.mark.usefixtures("small_windows")


class TestDurable:
    def test_what_is_behind_the_window_leaves_memory_and_comes_back_in_order(self) -> None:
        paged = deep(50)
        assert paged_count(paged) == 50 - WINDOW
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (50, 200)
        assert paged.content_store.runs == []
        entries = paged.queue.acquire(50)
        assert read(entries) == bodies(0, 50)
        assert [entry.offset for entry in entries] == list(range(50))
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (0, 0)
        for entry in entries:
            paged.queue.settle(entry)
        assert paged.ledger is not None
        assert paged.ledger.living == {}

    def test_nothing_leaves_memory_before_it_is_durable(self) -> None:
        paged = durable()
        publish(paged, 50)
        paged.turn.run()
        assert paged_count(paged) == 0
        paged.store.sync()
        paged.turn.run()
        assert paged_count(paged) == 50 - WINDOW

    def test_a_failed_store_is_not_waited_for(self) -> None:
        paged = durable()
        paged.store.failure = "no disk"
        publish(paged, 50)
        assert paged.store.waiting == []
        assert read(paged.queue.acquire(50)) == bodies(0, 50)

    def test_a_shallow_queue_never_touches_the_shelf(self) -> None:
        paged = deep(WINDOW)
        assert paged_count(paged) == 0
        assert read(paged.queue.acquire(WINDOW)) == bodies(0, WINDOW)
        assert (paged.content_store.reads, paged.content_store.runs) == (0, [])

    def test_the_window_is_in_octets_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(paging, "WINDOW_BYTES", 12)
        paged = deep(WINDOW)
        assert paged_count(paged) == WINDOW - 3

    def test_pages_are_read_one_at_a_time_when_it_is_their_turn(self) -> None:
        paged = deep(50)
        paged.queue.acquire(WINDOW)
        assert paged.content_store.runs == []
        paged.queue.acquire(1)
        assert paged.content_store.runs == [PAGE]
        paged.queue.acquire(PAGE)
        assert paged.content_store.runs == [PAGE, PAGE]

    def test_a_page_of_large_bodies_is_short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (pages, paging):
            monkeypatch.setattr(module, "PAGE_BYTES", 8)
        paged = deep(20)
        paged.queue.acquire(WINDOW + 1)
        assert paged.content_store.runs == [2]

    def test_a_step_is_bounded_and_asks_for_the_next(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(paging, "STEP_ENTRIES", 10)
        paged = durable()
        for _ in range(5):
            publish(paged, 10)
        paged.store.sync()
        paged.turn.step()
        first = paged_count(paged)
        assert 0 < first < 50 - WINDOW
        assert paged.turn.is_armed
        paged.turn.run()
        assert paged_count(paged) == 50 - WINDOW

    def test_new_entries_follow_those_on_disk(self) -> None:
        paged = deep(30)
        publish(paged, 10)
        assert read(paged.queue.acquire(20)) == bodies(0, 20)
        paged.settle_down()
        publish(paged, 10)
        assert read(paged.queue.acquire(50)) == bodies(20, 50)

    def test_what_comes_back_takes_its_place_before_what_is_on_disk(self) -> None:
        paged = deep(50)
        entries = paged.queue.acquire(20)
        paged.queue.release([entries[3], entries[15]])
        again = paged.queue.acquire(4)
        assert read(again) == [b"0003", b"0015", b"0020", b"0021"]
        assert [entry.delivery_count for entry in again] == [1, 1, 0, 0]

    @pytest.mark.row("B1")
    def test_many_that_come_back_leave_memory_again_with_their_counts(self) -> None:
        paged = deep(50)
        paged.queue.release(paged.queue.acquire(40))
        paged.settle_down()
        assert paged_count(paged) >= 50 - WINDOW - PAGE
        entries = paged.queue.acquire(50)
        assert read(entries) == bodies(0, 50)
        assert [entry.delivery_count for entry in entries] == [1] * 40 + [0] * 10

    def test_a_message_that_shows_its_delivery_count_stays(self) -> None:
        paged = durable()
        paged.queue.shows_delivery_count = True
        publish(paged, 50)
        paged.settle_down()
        paged.queue.release(paged.queue.acquire(40))
        paged.settle_down()
        entries = paged.queue.acquire(50)
        shown = [entry.message.headers.get("x-delivery-count") for entry in entries]
        assert shown == [1] * 40 + [None] * 10

    def test_entries_that_expire_stay_and_leave_without_being_read(self) -> None:
        paged = deep(50, ttl_ms=1000)
        assert paged_count(paged) == 50 - WINDOW
        paged.timers.advance(1001)
        assert paged.queue.ready_count == 0
        assert (paged.content_store.reads, paged.content_store.runs) == (0, [])
        assert paged.ledger is not None
        assert paged.ledger.living == {}

    def test_of_a_mixed_queue_what_is_transient_stays_in_its_place(self) -> None:
        paged = durable()
        for _ in range(20):
            publish(paged, 1)
            publish(paged, 1, position=TRANSIENT)
        paged.settle_down()
        entries = paged.queue.acquire(40)
        assert read(entries) == bodies(0, 40)
        assert [entry.message.position > 0 for entry in entries] == [True, False] * 20

    @pytest.mark.row("C1")
    def test_priorities_stay_strict(self) -> None:
        paged = durable(rabbitmq_levels(9))
        for number in range(60):
            publish(paged, 1, priority=number % 3)
        paged.settle_down()
        publish(paged, 1, priority=9)
        expected = [b"0060"] + [
            b"%04d" % number for level in (2, 1, 0) for number in range(level, 60, 3)
        ]
        assert read(paged.queue.acquire(61)) == expected
        assert len(paged.content_store.runs) > 5

    @pytest.mark.parametrize(
        "order", [lambda: SortedOrder("k"), lambda: LastValueOrder("k")], ids=["sorted", "lvq"]
    )
    def test_other_orders_lose_contents_and_nothing_else(
        self, order: Callable[[], EntryOrder]
    ) -> None:
        paged = durable(order())
        for number in range(40):
            publish(paged, 1, headers=Table({"k": f"{number * 7 % 40:02}"}))
        paged.settle_down()
        assert len(stored(paged)) == 40 - WINDOW
        places = sorted(range(40), key=lambda number: number * 7 % 40)
        expected = places if isinstance(paged.queue.order, SortedOrder) else list(range(40))
        assert read(paged.queue.acquire(40)) == [b"%04d" % number for number in expected]

    def test_held_entries_lose_their_content_and_get_it_back(self) -> None:
        paged = durable()
        paged.queue.hold = Hold(paged.queue, paged.environment)
        paged.queue.install()
        publish(paged, 30, headers=Table({"x-delay": 1000}))
        paged.settle_down()
        held = paged.queue.hold.entries()
        gone = [entry for entry in held if isinstance(entry.message, StoredMessage)]
        assert len(gone) == 30 - WINDOW
        paged.timers.advance(1001)
        assert read(paged.queue.acquire(30)) == bodies(0, 30)

    def test_parked_entries_lose_their_content_and_get_it_back(self) -> None:
        paged = durable()
        picky = RecordingConsumer(paged.queue, selector=compile_selector("k = 1"))
        paged.queue.add_consumer(picky)
        for number in range(40):
            publish(paged, 1, headers=Table({"k": number % 2}))
        paged.settle_down()
        assert isinstance(paged.queue.lane, SelectiveLane)
        parked = paged.queue.lane.parking.entries()
        gone = [entry for entry in parked if isinstance(entry.message, StoredMessage)]
        assert (len(parked), len(gone)) == (20, 20 - WINDOW)
        other = RecordingConsumer(paged.queue, selector=compile_selector("k = 0"))
        paged.queue.add_consumer(other)
        paged.turn.run()
        assert other.bodies == bodies(0, 40)[::2]

    def test_readers_of_a_log_read_from_disk_what_is_old(self) -> None:
        order = LogOrder()
        paged = durable(order)
        paged.queue.install(lane=ReadingLane(paged.queue, order))
        publish(paged, 40)
        paged.settle_down()
        assert paged_count(paged) == len(order) - len(order.entries) == 40 - WINDOW
        readers = [RecordingConsumer(paged.queue) for _ in range(3)]
        for reader in readers:
            paged.queue.add_consumer(reader)
        paged.turn.run()
        assert [reader.bodies for reader in readers] == [bodies(0, 40)] * 3
        assert paged.content_store.reads == 0
        assert sum(paged.content_store.runs) == 40 - WINDOW, "read for the others again"

    def test_an_entry_on_disk_costs_a_few_machine_words(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (pages, fifo, paging):
            monkeypatch.setattr(module, "PAGE_ENTRIES", 256)
        count = 40_000
        paged = durable()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            restore_paged(
                paged.queue, array("Q", range(count)), array("Q", range(1, count + 1)), 4 * count
            )
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert paged_count(paged) == count
        # the two columns as they came are the caller's, and another 16 octets for each entry
        assert (after - before) / count < 16 + 18


class TestAll:
    def test_a_purge_settles_everything_and_reads_nothing(self) -> None:
        paged = deep(50)
        (held,) = paged.queue.acquire(1)
        assert paged.queue.purge() == 49
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (0, 0)
        assert paged.ledger is not None
        assert list(paged.ledger.living) == [held.offset]
        assert (paged.content_store.reads, paged.content_store.runs) == (0, [])
        publish(paged, 3)
        assert read(paged.queue.acquire(5)) == bodies(50, 53)

    def test_a_purge_of_priorities_settles_every_level(self) -> None:
        paged = durable(rabbitmq_levels(3))
        for number in range(60):
            publish(paged, 1, priority=number % 4)
        paged.settle_down()
        assert paged.queue.purge() == 60
        assert paged.queue.acquire(1) == []
        assert len(paged.queue.order) == 0
        publish(paged, 2, priority=1)
        assert read(paged.queue.acquire(5)) == bodies(60, 62)

    def test_a_deleted_queue_reads_nothing(self) -> None:
        paged = deep(50)
        ledger = paged.ledger
        paged.queue.delete()
        assert ledger is not None
        assert ledger.is_forgotten
        assert (paged.content_store.reads, paged.content_store.runs) == (0, [])

    def test_a_deleted_queue_is_forgotten_after_its_last_dead_letter(self) -> None:
        paged = deep(30)
        taken: list[Iterator[QueueEntry]] = []

        class Letters:
            def wants(self, reason: str) -> bool:
                return reason == "deleted"

            def publish_all(self, entries: Iterator[QueueEntry], reason: str) -> None:
                taken.append(entries)

        paged.queue.dead_letters = cast("DeadLetters", Letters())
        ledger = paged.ledger
        paged.queue.delete()
        assert ledger is not None
        (entries,) = taken
        published = [next(entries).message.body for _ in range(30)]
        assert published == bodies(0, 30)
        assert not ledger.is_forgotten
        assert next(entries, None) is None
        assert ledger.is_forgotten

    @pytest.mark.parametrize("make", [durable, transient], ids=["durable", "transient"])
    def test_a_deleted_queue_is_freed_at_once(self, make: Callable[[], PagedQueue]) -> None:
        with all_freed(Queue):
            paged = make()
            set_spooling(paged.environment, [paged.queue], True)
            publish(paged, 50)
            paged.settle_down()
            assert paged_count(paged) > 0
            paged.queue.delete()
            paged.turn.run()
            del paged

    def test_looking_at_everything_brings_back_all_but_contents(self) -> None:
        paged = deep(50)
        entries = paged.queue.lane.ready_entries()
        assert [entry.offset for entry in entries] == list(range(50))
        assert len(stored(paged)) == 50 - WINDOW
        paged.queue.drop([entries[30]], "expired")
        expected = bodies(0, 30) + bodies(31, 50)
        assert read(paged.queue.acquire(50)) == expected

    def test_a_browser_sees_what_is_on_disk_while_others_take_it(self) -> None:
        paged = deep(30)
        browser = RecordingConsumer(paged.queue, prefetch_count=10)
        browser.is_browser = True
        paged.queue.add_consumer(browser)
        paged.turn.run()
        taker = RecordingConsumer(paged.queue)
        paged.queue.add_consumer(taker)
        paged.turn.run()
        assert taker.bodies == bodies(0, 30)
        assert browser.bodies == bodies(0, 10)


class TestSpooling:
    def test_transient_messages_stay_below_the_mark(self) -> None:
        paged = transient()
        publish(paged, 50, position=TRANSIENT)
        paged.settle_down()
        assert paged_count(paged) == 0
        assert paged.content_store.spooled == []

    def test_a_queue_that_has_no_disk_is_not_dispatched_for_the_mark(self) -> None:
        paged = transient()
        queue = Queue("in memory", FifoOrder(), paged.turn, environment=paged.environment)
        queue.enqueue(make_message(b"x"))
        paged.turn.run()
        set_spooling(paged.environment, [queue], True)
        assert not queue.is_marked

    @pytest.mark.row("C8")
    def test_above_the_mark_they_are_spooled_and_keep_their_order(self) -> None:
        paged = transient()
        publish(paged, 50, position=TRANSIENT)
        set_spooling(paged.environment, [paged.queue], True)
        paged.turn.run()
        kept = WINDOW // paging.PRESSED_SHARE
        assert len(paged.content_store.spooled) == 50 - kept
        set_spooling(paged.environment, [paged.queue], False)
        publish(paged, 10, position=TRANSIENT)
        entries = paged.queue.acquire(60)
        assert read(entries) == bodies(0, 60)
        assert {entry.message.position for entry in entries} == {TRANSIENT}
        assert paged.content_store.spooled == [], "in memory and in the spool"

    @pytest.mark.row("C8")
    def test_priorities_are_strict_after_the_spool(self) -> None:
        paged = transient(rabbitmq_levels(9))
        set_spooling(paged.environment, [paged.queue], True)
        for number in range(40):
            publish(paged, 1, position=TRANSIENT, priority=number % 10)
        assert len(paged.content_store.spooled) > 30
        expected = sorted(range(40), key=lambda number: (-(number % 10), number))
        assert read(paged.queue.acquire(40)) == [b"%04d" % number for number in expected]

    def test_what_was_persistent_still_is(self) -> None:
        paged = transient()
        set_spooling(paged.environment, [paged.queue], True)
        publish(paged, 50)
        entries = paged.queue.acquire(50)
        assert {entry.message.position for entry in entries} == {UNWRITTEN}

    def test_a_step_spools_so_many_octets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(paging, "STEP_SPOOLED_BYTES", 40)
        paged = transient()
        publish(paged, 50, position=TRANSIENT)
        set_spooling(paged.environment, [paged.queue], True)
        paged.turn.step()
        assert 0 < len(paged.content_store.spooled) <= 11
        paged.turn.run()
        assert len(paged.content_store.spooled) == 50 - WINDOW // paging.PRESSED_SHARE

    @pytest.mark.parametrize("order", [FifoOrder, lambda: SortedOrder("k")], ids=["fifo", "sorted"])
    def test_what_finds_no_room_in_the_spool_stays_in_memory(
        self, order: Callable[[], EntryOrder]
    ) -> None:
        paged = transient(order())
        paged.content_store.is_full = True
        set_spooling(paged.environment, [paged.queue], True)
        publish(paged, 50, position=TRANSIENT)
        assert paged.content_store.spooled == []
        paged.content_store.is_full = False
        publish(paged, 50, position=TRANSIENT)
        assert len(paged.content_store.spooled) > 40
        assert read(paged.queue.acquire(100)) == bodies(0, 100)

    def test_a_purge_drops_what_is_spooled(self) -> None:
        paged = transient()
        set_spooling(paged.environment, [paged.queue], True)
        publish(paged, 50, position=TRANSIENT)
        assert paged.queue.purge() == 50
        assert paged.content_store.spooled == []

    def test_what_stays_an_object_is_dropped_when_it_is_freed(self) -> None:
        paged = transient(SortedOrder("k"))
        set_spooling(paged.environment, [paged.queue], True)
        publish(paged, 30, position=TRANSIENT)
        assert len(paged.content_store.spooled) == 30 - WINDOW // paging.PRESSED_SHARE
        for entry in paged.queue.acquire(30):
            paged.queue.settle(entry)
        del entry
        assert paged.content_store.spooled == []

    def test_what_came_before_the_mark_is_spooled_in_every_order(self) -> None:
        for order in (SortedOrder("k"), LogOrder(), LastValueOrder("k")):
            paged = transient(order)
            publish(paged, 30, position=TRANSIENT)
            set_spooling(paged.environment, [paged.queue], True)
            paged.turn.run()
            assert len(paged.content_store.spooled) == 30 - WINDOW // paging.PRESSED_SHARE, order
            assert read(paged.queue.acquire(30)) == bodies(0, 30)

    def test_transient_ones_of_a_durable_queue_are_spooled_where_they_stand(self) -> None:
        paged = durable()
        for _ in range(20):
            publish(paged, 1)
            publish(paged, 1, position=TRANSIENT)
        paged.settle_down()
        assert paged.content_store.spooled == []
        set_spooling(paged.environment, [paged.queue], True)
        paged.settle_down()
        assert len(paged.content_store.spooled) > 10
        assert read(paged.queue.acquire(40)) == bodies(0, 40)

    @pytest.mark.row("A24")
    @pytest.mark.parametrize("counts", [False, True], ids=["rabbitmq", "qpid"])
    def test_flow_to_disk_keeps_so_much_in_memory_as_the_limit_says(self, counts: bool) -> None:
        paged = transient()
        overflow = paged.queue.overflow = Overflow(
            paged.queue,
            paged.environment,
            max_length=5,
            max_length_bytes=None,
            policy="flow-to-disk",
            counts_unacked=counts,
        )
        paged.queue.install()
        publish(paged, 50, position=TRANSIENT)
        assert len(paged.content_store.spooled) == 45
        assert paged.queue.ready_count == 50
        depth_bytes = overflow.depth_bytes
        assert paged.queue.purge() == 50
        assert depth_bytes > overflow.depth_bytes == 0
        assert paged.content_store.spooled == []
