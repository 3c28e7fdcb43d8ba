"""What is read back when it is needed, and what becomes of entries that cannot be read."""

from __future__ import annotations

from typing import cast

import pytest

from hareline import events
from hareline.message import StoredMessage, Table
from hareline.queues.core.credit import CreditWindow
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.orders import read_back
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.priority import rabbitmq_levels
from hareline.queues.orders.read_back import Contents
from hareline.queues.orders.sorted import SortedOrder
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.deep_queues import (
    WINDOW,
    bodies,
    deep,
    durable,
    publish,
    read,
    stored,
)

pytestmark = pytest.mark.usefixtures("small_windows")


class TestUnreadable:
    def test_what_cannot_be_read_costs_itself_alone_and_is_reported(self) -> None:
        paged = deep(50)
        assert paged.ledger is not None
        paged.content_store.broken = {paged.ledger.living[offset] for offset in (20, 21, 40)}
        expected = [body for body in bodies(0, 50) if body not in (b"0020", b"0021", b"0040")]
        taken: list[bytes] = []
        while entries := paged.queue.acquire(7):
            taken += read(entries)
        assert taken == expected
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (0, 0)
        assert {event for event, _ in paged.reports} == {events.MESSAGES_UNREADABLE}
        assert sum(cast("int", fields["count"]) for _, fields in paged.reports) == 3
        assert "nothing to read at" in str(paged.reports[0][1]["reason"])
        assert {20, 21, 40} <= set(paged.ledger.living), "the store lost it as well"

    def test_acquire_returns_as_many_as_asked_for_while_there_are_more(self) -> None:
        paged = durable(SortedOrder("k"))
        publish(paged, 60, headers=Table({"k": "a"}))
        paged.settle_down()
        assert paged.ledger is not None
        gone = [entry.offset for entry in stored(paged)]
        assert len(gone) > 20
        paged.content_store.broken = {paged.ledger.living[offset] for offset in gone[1:21]}
        sizes: list[int] = []
        while entries := paged.queue.acquire(8):
            sizes.append(len(entries))
        assert sizes == [8] * 5

    @pytest.mark.parametrize("limit", [1, 4, 9])
    @pytest.mark.parametrize("count", [1, 3])
    @pytest.mark.parametrize("is_shared", [False, True])
    def test_credit_follows_what_came(self, limit: int, count: int, *, is_shared: bool) -> None:
        """Also where the last ones of a queue are lost, and a round comes out short."""
        paged = durable(SortedOrder("k"))
        publish(paged, 60, headers=Table({"k": "a"}))
        paged.settle_down()
        assert paged.ledger is not None
        entries = [entry.offset for entry in stored(paged)]
        gone = {*entries[3:9], *entries[-5:]}
        paged.content_store.broken = {paged.ledger.living[offset] for offset in gone}
        window = CreditWindow(limit if is_shared else 0)
        consumers = [
            RecordingConsumer(
                paged.queue,
                f"c{index}",
                prefetch_count=0 if is_shared else limit,
                windows=(window,) if is_shared else (),
            )
            for index in range(count)
        ]
        for consumer in consumers:
            paged.queue.add_consumer(consumer)
        received = 0
        for _ in range(100):
            paged.turn.run()
            for consumer in consumers:
                assert len(consumer.unacked) <= limit
                assert is_shared or consumer.credit == limit - len(consumer.unacked)
            outstanding = sum(len(consumer.unacked) for consumer in consumers)
            assert window.used_count == (outstanding if is_shared else 0)
            received += outstanding
            for consumer in consumers:
                consumer.ack()
        assert received == 60 - len(gone)
        paged.turn.run()
        publish(paged, 2 * count, headers=Table({"k": "b"}))
        paged.turn.run()
        assert any(consumer.unacked for consumer in consumers), "all are still in their rings"

    def test_books_are_right_while_others_wait(self) -> None:
        paged = deep(50)
        assert paged.ledger is not None
        paged.content_store.broken = {paged.ledger.living[WINDOW]}
        paged.queue.acquire(WINDOW + 1)
        assert paged.queue.ready_count == 50 - WINDOW - 2
        assert paged.queue.ready_bytes == 4 * (50 - WINDOW - 2)

    def test_a_level_of_priority_may_be_lost_whole(self) -> None:
        paged = durable(rabbitmq_levels(2))
        for number in range(30):
            publish(paged, 1, priority=number % 3)
        paged.settle_down()
        assert paged.ledger is not None
        paged.content_store.broken = {paged.ledger.living[offset] for offset in range(1, 30, 3)}
        taken: list[bytes] = []
        while entries := paged.queue.acquire(4):
            taken += read(entries)
        left_whole = [body for body in taken if int(body) % 3 == 1]
        assert [body for body in taken if int(body) % 3 == 2] == bodies(0, 30)[2::3]
        assert [body for body in taken if int(body) % 3 == 0] == bodies(0, 30)[0::3]
        assert len(left_whole) < 10
        assert paged.queue.ready_count == 0
        assert paged.queue.lane.least() is None

    def test_a_browser_leaves_an_acquired_entry_to_its_consumer(self) -> None:
        paged = deep(30)
        browser = RecordingConsumer(paged.queue, prefetch_count=5)
        browser.is_browser = True
        paged.queue.add_consumer(browser)
        paged.turn.run()
        acquired = paged.queue.acquire(25)
        gone = next(entry for entry in acquired if isinstance(entry.message, StoredMessage))
        paged.queue.mark()
        paged.turn.run()
        assert paged.ledger is not None
        paged.content_store.broken = {paged.ledger.living[gone.offset]}
        browser.ack()
        paged.turn.run()
        assert browser.bodies == bodies(0, 5) + bodies(25, 30)
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (5, 20)
        assert paged.queue.unacked_count == 25
        assert paged.reports == []

    def test_entries_that_stay_are_lost_the_same_way(self) -> None:
        paged = durable(SortedOrder("k"))
        publish(paged, 30, headers=Table({"k": "a"}))
        paged.settle_down()
        assert paged.ledger is not None
        gone = [entry.offset for entry in stored(paged)][:2]
        paged.content_store.broken = {paged.ledger.living[offset] for offset in gone}
        assert len(paged.queue.acquire(30)) == 28
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (0, 0)
        assert [fields["count"] for _, fields in paged.reports] == [2]

    def test_readers_pass_over_it(self) -> None:
        order = LogOrder()
        paged = durable(order)
        paged.queue.install(lane=ReadingLane(paged.queue, order))
        publish(paged, 30)
        paged.settle_down()
        assert paged.ledger is not None
        paged.content_store.broken = {paged.ledger.living[3]}
        reader = RecordingConsumer(paged.queue)
        paged.queue.add_consumer(reader)
        paged.turn.run()
        assert reader.bodies == bodies(0, 3) + bodies(4, 30)
        assert paged.queue.ready_count == 29

    def test_a_parked_one_is_passed_over(self) -> None:
        paged = durable()
        picky = RecordingConsumer(paged.queue, selector=compile_selector("k = 1"))
        paged.queue.add_consumer(picky)
        publish(paged, 30, headers=Table({"k": 0}))
        paged.settle_down()
        assert len(paged.queue.lane.parking.entries()) == 30
        assert paged.ledger is not None
        paged.content_store.broken = {paged.ledger.living[offset] for offset in (0, 7)}
        entry = paged.queue.get()
        assert entry is not None
        assert entry.message.body == b"0001"
        other = RecordingConsumer(paged.queue, selector=compile_selector("k = 0"))
        paged.queue.add_consumer(other)
        paged.turn.run()
        assert other.bodies == bodies(2, 7) + bodies(8, 30)
        assert (paged.queue.ready_count, paged.queue.ready_bytes) == (0, 0)


class TestContents:
    def test_a_content_is_read_once_in_a_dispatch(self) -> None:
        paged = deep(30)
        assert paged.ledger is not None
        position = paged.ledger.living[20]
        contents = Contents(paged.content_store)
        content = contents.content(position)
        assert contents.content(position) is content
        assert position in contents
        assert paged.content_store.reads == 1
        contents.forget()
        assert position not in contents
        assert contents.content(position) == content
        assert paged.content_store.reads == 2

    def test_what_is_remembered_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(read_back, "RECENT_BYTES", 100)
        contents = Contents(deep().content_store)
        for position in range(100):
            contents.remember(position, bytes(10))
        assert sum(position in contents for position in range(100)) <= 11
        assert 99 in contents

    def test_entries_that_stay_are_read_in_one_run_and_once(self) -> None:
        paged = durable(SortedOrder("k"))
        publish(paged, 30, headers=Table({"k": "a"}))
        paged.settle_down()
        entries = stored(paged)
        assert len(entries) > WINDOW
        assert paged.paging.readable(entries, are_in_place=True) == entries
        assert paged.content_store.runs == [len(entries)]
        assert read(entries) == [b"%04d" % entry.offset for entry in entries]
        paged.paging.readable(entries, are_in_place=True)
        assert paged.content_store.runs == [len(entries)]
        assert paged.content_store.reads == 0

    def test_whole_ones_have_their_content_for_good(self) -> None:
        paged = durable(SortedOrder("k"))
        publish(paged, 30, headers=Table({"k": "a"}))
        paged.settle_down()
        entries = stored(paged)
        assert paged.paging.whole(entries) == entries
        assert not any(isinstance(entry.message, StoredMessage) for entry in entries)
