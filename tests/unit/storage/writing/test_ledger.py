"""What a ledger makes of the calls of its queue, seen in what comes back after a crash."""

from __future__ import annotations

from array import array

import pytest

from hareline.queues.core import entry as entries_module
from hareline.storage.interface import SPOOLED
from hareline.storage.journal.format.frame import COVER, RETURN, SETTLE
from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.store.ledger import ACQUIRED, COVER_AHEAD_MAX, COVER_AHEAD_MIN, SETTLED
from tests.support.messages import make_message
from tests.support.store_stand import FakeEntry, StoreStand, persistent


def test_states_are_those_of_the_queue() -> None:
    assert (ACQUIRED, SETTLED) == (entries_module.ACQUIRED, entries_module.SETTLED)


def test_acks_of_consecutive_entries_are_one_run() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 100)
    stand.turn()
    stand.settle(1, entries[10:60])
    stand.turn()
    assert stand.runs() == [(1, 10, 50)]


def test_acks_in_any_order_are_one_run_if_nothing_is_left_out() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 100)
    stand.turn()
    stand.settle(1, entries[0:50:2] + entries[1:50:2] + entries[70:60:-1])
    stand.turn()
    assert stand.runs() == [(1, 0, 50), (1, 61, 10)]


def test_acks_in_several_turns_while_the_disk_is_busy_are_one_run() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 10)
    stand.turn()
    stand.syncer.is_automatic = False
    stand.entry(1)
    stand.store.write_pending()
    for entry in entries[:6]:
        stand.settle(1, [entry])
        stand.store.write_pending()
    stand.settle_down()
    stand.turn()
    assert stand.runs() == [(1, 0, 6)]


def test_transient_spooled_and_unwritten_entries_leave_no_trace_when_they_are_settled() -> None:
    stand = StoreStand()
    ledger = stand.queue(1)
    spooled = FakeEntry(make_message(b"x"), 1)
    spooled.message.position = SPOOLED | 1
    stand.settle(1, [FakeEntry(make_message(b"x"), 0), spooled, FakeEntry(persistent(), 2)])
    assert not ledger.is_gathered
    stand.turn()
    assert stand.kinds(SETTLE) == []


def test_entries_settled_before_they_were_written_are_never_written() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 5)
    stand.settle(1, entries[1:4])
    stand.turn()
    stand.crash()
    assert list(stand.reopen().found[1]) == [0, 4]


def test_pages_of_consecutive_entries_are_one_run() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 50)
    stand.turn()
    stand.queue(1).settle_paged(
        array("Q", [entry.offset for entry in entries[5:40]]),
        array("Q", [entry.message.position for entry in entries[5:40]]),
    )
    stand.settle(1, entries[40:45])
    stand.turn()
    assert stand.runs() == [(1, 5, 40)]


def test_pages_pass_over_what_was_spooled() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 6)
    stand.turn()
    positions = array("Q", [entry.message.position for entry in entries])
    positions[2] = SPOOLED | 77
    stand.queue(1).settle_paged(array("Q", range(6)), positions)
    stand.turn()
    assert stand.runs() == [(1, 0, 2), (1, 3, 3)]


def test_an_empty_page_is_nothing() -> None:
    stand = StoreStand()
    stand.queue(1).settle_paged(array("Q"), array("Q"))
    assert not stand.queue(1).is_gathered


def test_pages_over_several_segments_are_settled_in_each() -> None:
    stand = StoreStand(segment_bytes=4096)
    entries = []
    for _ in range(10):
        entries += stand.entries(1, 10, bytes(100))
        stand.turn()
    positions = [entry.message.position for entry in entries]
    assert len({position >> OFFSET_BITS for position in positions}) > 2
    stand.queue(1).settle_paged(array("Q", range(100)), array("Q", positions))
    stand.turn()
    assert stand.queue(1).books.live == {}
    stand.crash()
    assert stand.reopen().bodies(1) == []


# ------------------------------------------------------------------ redelivered is honest


def test_what_was_delivered_before_it_was_written_comes_back_as_redelivered() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 4)
    stand.acquire(1, entries[:2])
    stand.turn()
    assert stand.queue(1).deliver_ticket == 0
    stand.crash()
    assert stand.reopen().counts(1) == [1, 1, 0, 0]


def test_a_delivery_of_a_backlog_waits_until_a_cover_is_durable() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 4)
    stand.turn()
    stand.syncer.is_automatic = False
    stand.acquire(1, entries[:1])
    ledger, store = stand.queue(1), stand.store
    assert ledger.deliver_ticket == store.ticket > store.durable_ticket
    store.write_pending()
    assert ledger.deliver_ticket > store.durable_ticket
    stand.settle_down()
    assert ledger.deliver_ticket == store.durable_ticket
    assert stand.kinds(COVER) != []
    stand.crash()
    assert stand.reopen().counts(1) == [1, 1, 1, 1]  # may have been delivered


def test_what_lies_beyond_the_cover_was_not_delivered() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 200)
    for _ in range(20):  # quiet turns
        stand.store.when_durable(stand.store.ticket, lambda: None)
        stand.turn()
    stand.acquire(1, entries[:3])
    stand.turn()
    stand.crash()
    counts = stand.reopen().counts(1)
    assert counts == [1] * (COVER_AHEAD_MIN + 3) + [0] * (200 - 3 - COVER_AHEAD_MIN)


def test_covers_are_renewed_ahead_so_that_a_drained_backlog_waits_once() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 4 * COVER_AHEAD_MAX)
    stand.turn()
    waits = 0
    for start in range(0, len(entries), 256):
        stand.acquire(1, entries[start : start + 256])
        waits += stand.queue(1).deliver_ticket > stand.store.durable_ticket
        stand.turn()
    assert waits <= 2  # until it is known to be drained quickly


def test_what_is_acquired_while_a_cover_is_on_its_way_waits_for_it_if_it_must() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 400)
    stand.turn()
    stand.acquire(1, entries[:1])
    stand.turn()
    stand.syncer.is_automatic = False
    ledger, store = stand.queue(1), stand.store
    before = ledger.deliver_ticket
    first_watermark = ledger.redelivery_watermark
    stand.acquire(1, entries[1 : first_watermark - 10])  # half-way: the next cover is gathered
    assert ledger.redelivery_watermark > first_watermark
    assert ledger.deliver_ticket == before <= store.durable_ticket
    stand.acquire(
        1, entries[first_watermark - 10 : first_watermark + 100]
    )  # beyond what is durable
    assert ledger.deliver_ticket > store.durable_ticket
    store.write_pending()
    stand.settle_down()
    assert ledger.deliver_ticket <= store.durable_ticket


def test_a_queue_whose_entries_are_delivered_in_their_turn_needs_no_cover() -> None:
    stand = StoreStand()
    for _ in range(5):
        entries = stand.entries(1, 10)
        stand.acquire(1, entries)
        stand.turn()
        stand.settle(1, entries)
    stand.turn()
    assert stand.kinds(COVER) == []


def test_delivery_counts_survive() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 3)
    stand.turn()
    for _ in range(3):
        stand.acquire(1, entries[:1])
        stand.release(1, entries[:1])
    stand.turn()
    stand.store.close()
    again = stand.reopen()
    assert again.counts(1) == [3, 0, 0]
    again.store.close()
    assert again.reopen().counts(1) == [3, 0, 0]


def test_a_count_before_the_record_is_written_is_in_the_record() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 1)
    stand.acquire(1, entries)
    stand.release(1, entries)
    stand.acquire(1, entries)
    stand.release(1, entries)
    stand.turn()
    assert stand.kinds(RETURN) == []
    stand.crash()
    assert stand.reopen().counts(1) == [2]


def test_what_a_crash_left_unclear_stays_marked_after_an_orderly_stop() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 2)
    stand.acquire(1, entries[:1])
    stand.turn()
    stand.crash()
    again = stand.reopen()
    assert again.counts(1) == [1, 0]
    again.store.close()
    assert again.reopen().counts(1) == [1, 0]


def test_an_orderly_stop_voids_covers() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 3)
    stand.turn()
    stand.acquire(1, entries[:1])
    stand.turn()
    stand.release(1, entries[:1])
    stand.store.close()
    assert stand.reopen().counts(1) == [1, 0, 0]


def test_what_was_released_and_settled_in_one_turn_is_gone() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 2)
    stand.turn()
    stand.acquire(1, entries)
    stand.release(1, entries)
    stand.settle(1, entries[:1])
    stand.turn()
    assert list(stand.queue(1).books.returns) == [1]
    stand.crash()
    assert list(stand.reopen().found[1]) == [1]


@pytest.mark.parametrize("count", [1, 40])
def test_counts_are_forgotten_with_their_entries(count: int) -> None:
    stand = StoreStand()
    entries = stand.entries(1, 50)
    stand.turn()
    stand.acquire(1, entries)
    stand.release(1, entries[:count])
    stand.turn()
    assert len(stand.queue(1).books.returns) == count
    stand.settle(1, entries)
    stand.turn()
    assert stand.queue(1).books.returns == {}


# ------------------------------------------------------------------ runs


def test_a_run_of_new_entries_is_gathered_behind_those_that_came_alone() -> None:
    stand = StoreStand()
    first = stand.entry(1, persistent(b"first"))
    run = [FakeEntry(persistent(b"%d" % number), number) for number in range(1, 4)]
    ledger = stand.queue(1)
    ledger.add_run(run)
    assert ledger.added == [first, *run]
    run.clear()  # the caller may go on with its list
    stand.turn()
    stand.crash()
    assert stand.reopen().bodies(1) == [b"first", b"1", b"2", b"3"]


def test_a_run_alone_asks_for_a_turn_and_an_empty_one_does_not() -> None:
    stand = StoreStand()
    stand.queue(1).add_run([])
    assert (stand.turns, stand.queue(1).is_gathered) == (0, False)
    stand.queue(1).add_run([FakeEntry(persistent(), 0)])
    assert stand.turns == 1


def test_a_run_that_is_settled_in_part_before_it_is_written_leaves_out_that_part() -> None:
    stand = StoreStand()
    run = [FakeEntry(persistent(b"%d" % number), number) for number in range(4)]
    stand.queue(1).add_run(run)
    stand.settle(1, run[1:3])
    stand.turn()
    stand.crash()
    assert list(stand.reopen().found[1]) == [0, 3]


# ------------------------------------------------------------------ deleted queues


def test_a_deleted_queue_has_nothing_and_gathers_nothing() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 4)
    stand.entries(2, 1)
    stand.turn()
    ledger = stand.queue(1)
    late = stand.entry(1)
    ledger.forget()
    ledger.add(late)
    ledger.add_run([late])
    ledger.settle(entries[0])
    ledger.on_acquired(entries)
    ledger.on_released(entries)
    ledger.settle_paged([1, 2], [entries[1].message.position, entries[2].message.position])
    assert not ledger.is_gathered
    assert (ledger.added, ledger.runs, ledger.returned) == ([], [], [])
    stand.turn()
    stand.crash()
    again = stand.reopen(queue_ids=(2,))
    assert len(again.found[2]) == 1


def test_offsets_go_on_where_they_were_though_all_segments_that_had_them_are_gone() -> None:
    stand = StoreStand(segment_bytes=4096)
    for _ in range(40):
        entries = stand.entries(1, 5, bytes(100))
        stand.turn()
        stand.settle(1, entries)
        stand.turn()
    assert stand.store.freed_segments > 2
    assert stand.segment_count == 1
    stand.crash()
    again = stand.reopen()
    assert again.found[1] == {}
    assert again.queue(1).next_offset == 200
