"""Pages of a log: what its readers see of them, and how entries leave."""

from __future__ import annotations

import tracemalloc
from array import array
from itertools import pairwise

import pytest

from hareline.broker.restoring import end_paged, restore_paged
from hareline.message import TRANSIENT, StoredMessage
from hareline.queues.core import pages
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.start_position import STREAM_OFFSET, StartPosition
from hareline.queues.orders import log_columns, log_pages, window
from hareline.queues.orders.log_columns import RECENT_ENTRY_BYTES
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.log_pages import LogPages
from hareline.queues.orders.window import set_spooling
from tests.support.consumers import RecordingConsumer
from tests.support.content_stores import PagedQueue
from tests.support.deep_queues import (
    PAGE,
    WINDOW,
    bodies,
    deep_log,
    publish,
    read,
)

pytestmark = pytest.mark.usefixtures("small_windows")


def pages_of(log: LogOrder) -> LogPages:
    assert log.pages is not None
    return log.pages


def offsets(entries: list[QueueEntry]) -> list[int]:
    return [entry.offset for entry in entries]


def break_at(paged: PagedQueue, *broken: int) -> None:
    """The disk has lost these entries."""
    assert paged.ledger is not None
    paged.content_store.broken = {paged.ledger.living[offset] for offset in broken}


def restored(count: int) -> tuple[PagedQueue, LogOrder]:
    """What a broker that has started again knows of a log, one message arriving each second."""
    paged, _ = deep_log(0)
    publish(paged, count)
    paged.store.sync()
    for number, record in enumerate(paged.store.memory.records.values()):
        record.arrival_ms = 1_000_000 + 1000 * number
    assert paged.ledger is not None
    again, log = deep_log(0)
    again.content_store.records = paged.content_store.records
    assert again.ledger is not None
    again.ledger.living = dict(paged.ledger.living)
    again.store.references = paged.store.references
    restore_paged(
        again.queue,
        array("Q", again.ledger.living),
        array("Q", again.ledger.living.values()),
        4 * count,
        sizes=array("I", [4] * count),
    )
    end_paged(again.queue)
    return again, log


class TestReading:
    def test_any_stretch_can_be_read_and_stays(self) -> None:
        _, log = deep_log(40)
        behind = pages_of(log)
        for start in range(32):
            for limit in range(1, 12):
                entries, end = behind.read(start, limit)
                assert offsets(entries) == list(range(start, min(32, start + limit)))
                assert end == entries[-1].offset + 1
                assert read(entries) == bodies(start, end)
        assert behind.count == 32

    def test_readers_at_the_same_place_share_a_read(self) -> None:
        paged, log = deep_log(40)
        first, _ = pages_of(log).read(4, 6)
        again, _ = pages_of(log).read(4, 6)
        assert list(map(id, first)) == list(map(id, again))
        overlapping, _ = pages_of(log).read(2, 6)
        assert overlapping[2:] == first[:4]
        assert sum(paged.content_store.runs) == 6 + 2

    def test_what_is_remembered_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_columns, "RECENT_BYTES", 5 * (RECENT_ENTRY_BYTES + 16))
        _, log = deep_log(40)
        behind = pages_of(log)
        for start in range(0, 32, PAGE):
            behind.read(start, PAGE)
        assert len(behind._recent._by_page) == 1
        monkeypatch.setattr(log_columns, "RECENT_BYTES", 0)
        assert offsets(behind.read(0, 8)[0]) == list(range(8))
        assert not behind._recent._by_page

    def test_fifty_readers_at_different_places_hold_nothing(self) -> None:
        paged, _ = deep_log(200)
        readers = []
        for number in range(50):
            reader = RecordingConsumer(paged.queue, prefetch_count=1)
            reader.start_position = StartPosition("offset", 3 * number)
            paged.queue.add_consumer(reader)
            readers.append(reader)
        paged.turn.run()
        assert [reader.bodies for reader in readers] == [
            bodies(3 * number, 3 * number + 1) for number in range(50)
        ]
        for reader in readers:
            reader.ack()
        paged.turn.run()
        assert readers[7].bodies == bodies(21, 23)

    def test_a_reader_walks_from_pages_into_the_window_and_on(self) -> None:
        paged, _ = deep_log(40)
        reader = RecordingConsumer(paged.queue, prefetch_count=3)
        paged.queue.add_consumer(reader)
        for _ in range(30):
            publish(paged, 1)
            paged.settle_down()
            reader.ack()
            paged.turn.run()
        for _ in range(10):
            reader.ack()
            paged.turn.run()
        assert reader.bodies == bodies(0, 70)

    def test_the_header_with_the_offset_is_on_what_comes_from_a_page(self) -> None:
        _, log = deep_log(40)
        entries, _ = pages_of(log).read(0, 32)
        assert [entry.message.header(STREAM_OFFSET) for entry in entries] == list(range(32))

    def test_an_entry_costs_less_than_twenty_octets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (log_columns, log_pages):
            monkeypatch.setattr(module, "LOG_PAGE_ENTRIES", 1024)
        for module in (pages, window):
            monkeypatch.setattr(module, "PAGE_ENTRIES", 256)
        count = 200_000
        paged, log = deep_log(0)
        columns = array("Q", range(count)), array("Q", range(1, count + 1)), array("I", [4] * count)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for start in range(0, count, 16_384):
                some = slice(start, start + 16_384)
                restore_paged(
                    paged.queue, columns[0][some], columns[1][some], 65_536, sizes=columns[2][some]
                )
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert log.paged_count == count
        assert (after - before) / count < 14


class TestDamage:
    def test_what_cannot_be_read_costs_itself_and_is_reported(self) -> None:
        paged, log = deep_log(40)
        break_at(paged, 0, 5, 6, 31)
        found: list[QueueEntry] = []
        offset = 0
        while offset < pages_of(log).end:
            entries, offset = pages_of(log).read(offset, 7)
            found += entries
        assert offsets(found) == [each for each in range(31) if each not in (0, 5, 6)]
        assert paged.queue.ready_count == 36
        assert paged.queue.ready_bytes == 36 * 4
        assert sum(fields["count"] for _, fields in paged.reports) == 4  # type: ignore[misc]
        assert log.first_offset == 1
        assert pages_of(log).last_offset == 30
        columns = log.positions(0, 100)
        assert list(columns[0]) == offsets(list(log))

    def test_pages_of_which_nothing_is_left_are_gone(self) -> None:
        paged, log = deep_log(20)
        break_at(paged, *range(12))
        assert read(list(log)) == bodies(12, 20)
        assert pages_of(log).count == pages_of(log).end == 0
        assert log.first_offset == 12

    def test_a_search_goes_on_where_the_disk_has_holes(self) -> None:
        again, log = restored(40)
        break_at(again, *range(8, 16))
        assert log.offset_since(1_000_000 + 9_000) == 16
        assert log.offset_since(1_000_000 + 7_000) == 7


class TestArrivals:
    @pytest.mark.parametrize("after_ms", [-1, 0, 1, 999, 1000, 15_500, 30_999, 38_001, 39_000])
    def test_the_first_since_an_instant_is_found_after_a_restart(self, after_ms: int) -> None:
        _, log = restored(40)
        assert log.offset_since(1_000_000 + after_ms) == max(0, -(-after_ms // 1000))

    def test_behind_the_last_there_is_none(self) -> None:
        _, log = restored(40)
        assert log.offset_since(1_000_000 + 39_001) is None

    def test_a_search_reads_a_page_and_one_entry_of_a_few_others(self) -> None:
        again, log = restored(400)
        assert log.offset_since(1_000_000 + 250_000) == 250
        assert sum(again.content_store.runs) <= 8 + PAGE
        again.content_store.runs.clear()
        assert log.first_arrival_ms == 1_000_000
        assert log.first_arrival_ms == 1_000_000
        assert len(again.content_store.runs) == 1

    def test_the_younger_begin_behind_an_instant(self) -> None:
        _, log = restored(40)
        assert pages_of(log).offset_of_younger(1_000_000 - 1, 1000) == 0
        assert pages_of(log).offset_of_younger(1_000_000 + 14_000, 1000) == 15
        assert pages_of(log).offset_of_younger(1_000_000 + 99_000, 1000) == 40
        assert pages_of(log).offset_of_younger(1_000_000 + 99_000, 2 * PAGE) == 2 * PAGE


class TestLeaving:
    def test_octets_are_counted_without_reading(self) -> None:
        paged, log = deep_log(40)
        behind = pages_of(log)
        assert [behind.offset_after(octets, 1000) for octets in (1, 4, 5, 36)] == [1, 1, 2, 9]
        assert behind.offset_after(1000, 6) == 6
        assert behind.offset_after(1000, 1000) == 32
        assert paged.content_store.runs == []

    def test_the_head_is_cut_off_and_the_store_hears_of_it(self) -> None:
        paged, log = deep_log(40)
        assert paged.ledger is not None
        pages_of(log).cut(10, paged.paging.drop_numbers)
        assert list(paged.ledger.living) == list(range(10, 40))
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (30, 120)
        assert paged.content_store.runs == []
        assert log.first_offset == 10
        assert read(list(log)) == bodies(10, 40)

    def test_one_by_one_in_any_order(self) -> None:
        paged, log = deep_log(40)
        assert paged.ledger is not None
        gone = [5, 0, 1, 31, 30, 12, 13, 14, 15, 6, 4, 7]
        for offset in gone:
            (entry,), _ = pages_of(log).read(offset, 1)
            assert entry.offset == offset
            paged.queue.drop([entry], "maxlen")
        left = [each for each in range(40) if each not in gone]
        assert offsets(list(log)) == list(paged.ledger.living) == left
        assert log.peek() is not None
        assert log.first_offset == 2
        assert pages_of(log).last_offset == 29
        assert paged.queue.ready_bytes == 4 * len(left)

    def test_entries_that_expire_stand_between_the_numbers(self) -> None:
        paged, log = deep_log(0)
        for number in range(40):
            publish(paged, 1, ttl_ms=5000 if number % 3 == 0 else 0)
        paged.settle_down()
        kept = log.kept_entries()
        assert offsets(kept) == list(range(0, 32, 3))
        assert all(isinstance(entry.message, StoredMessage) for entry in kept)
        reader = RecordingConsumer(paged.queue)
        paged.queue.add_consumer(reader)
        paged.turn.run()
        assert reader.bodies == bodies(0, 40)
        assert list(log.positions(0, 40)[0]) == list(range(40))
        paged.timers.advance(5001)
        assert read(list(log)) == [each for each in bodies(0, 40) if int(each) % 3]
        assert log.first_offset == 1
        assert log.kept_entries() == []

    def test_octets_of_entries_that_expire_count_too(self) -> None:
        paged, log = deep_log(0)
        for number in range(40):
            publish(paged, 1, ttl_ms=5000 * (number % 2))
        paged.settle_down()
        assert pages_of(log).offset_after(12, 100) == 3
        assert offsets(pages_of(log).kept_before(6)) == [1, 3, 5]

    def test_what_is_spooled_is_freed_once(self) -> None:
        paged, log = deep_log(0)
        set_spooling(paged.environment, [], True)
        publish(paged, 40, position=TRANSIENT)
        paged.settle_down()
        spooled = pages_of(log).count
        assert len(paged.content_store.spooled) == spooled > 20
        pages_of(log).read(0, 20)
        pages_of(log).read(0, 20)
        assert list(log.positions(0, 40)[1]) == [0] * 40
        assert read(log.take(5)) == bodies(0, 5)
        pages_of(log).cut(9, paged.paging.drop_numbers)
        first = log.peek()
        assert first is not None
        paged.queue.drop([first], "maxlen")
        assert len(paged.content_store.spooled) == spooled - 10
        paged.queue.purge()
        assert paged.content_store.spooled == []

    def test_a_purge_reads_nothing_and_new_ones_follow(self) -> None:
        paged, log = deep_log(40)
        assert paged.ledger is not None
        assert paged.queue.purge() == 40
        assert paged.ledger.living == {}
        assert paged.content_store.runs == []
        assert log.first_offset is log.last_offset is log.first_arrival_ms is None
        assert log.offset_since(0) is None
        publish(paged, 3)
        assert offsets(list(log)) == [40, 41, 42]

    def test_what_was_taken_finds_its_place_again(self) -> None:
        _, log = deep_log(40)
        taken = log.take(14)
        assert read(taken) == bodies(0, 14)
        log.restore([taken[3], taken[9], taken[13]])
        assert offsets(log.take(2)) == [3, 9]
        log.restore(taken[:3] + taken[4:9])
        assert offsets(list(log))[:10] == [0, 1, 2, 4, 5, 6, 7, 8, 13, 14]
        assert pages_of(log).count == 32 - 14 + 9
        assert all(one < other for one, other in pairwise(offsets(list(log))))

    def test_a_small_excess_stays_until_it_is_worth_the_work(self) -> None:
        paged, log = deep_log(WINDOW)
        assert log.page_out(paged.paging, WINDOW, 100) == 0
        assert log.pages is None

    def test_the_age_of_an_object_that_has_left_counts_no_more(self) -> None:
        paged, log = deep_log(0)
        publish(paged, 40, ttl_ms=50_000)
        paged.settle_down()
        assert log.first_arrival_ms is not None
        pages_of(log)._pages[0].first_ms = 5
        paged.queue.drop([log.kept_entries()[0]], "expired")
        assert log.first_arrival_ms != 5

    def test_a_settled_prefix_costs_nothing(self) -> None:
        paged, log = deep_log(40)
        pages_of(log).cut(3 * PAGE, paged.paging.drop_numbers)
        behind = pages_of(log)
        assert sum(len(page.positions) for page in behind._pages) == 32 - 3 * PAGE
