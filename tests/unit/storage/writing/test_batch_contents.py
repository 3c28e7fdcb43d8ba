"""What goes into a batch, seen in what comes back after a crash; and what waits for the next."""

from __future__ import annotations

import pytest

from hareline.message import UNWRITTEN
from hareline.storage.journal.format.frame import MESSAGE
from hareline.storage.store.ledger import SETTLED
from tests.support.store_stand import StoreStand, persistent


def test_what_has_left_is_written_as_long_as_its_dead_letter_waits() -> None:
    stand = StoreStand()
    leaving, gone, other = stand.entries(1, 3)
    ledger = stand.queue(1)
    for entry in (leaving, gone):
        entry.state = SETTLED
    ledger.hold_for_dead_letter(leaving)
    ledger.settle(gone)
    stand.turn()  # its publisher may be told of it now
    assert leaving.message.position > 0
    stand.crash()
    again = stand.reopen()
    assert sorted(again.found[1]) == [leaving.offset, other.offset]


def test_what_has_left_is_gone_with_its_dead_letter() -> None:
    stand = StoreStand()
    early, late, other = stand.entries(1, 3)
    ledger = stand.queue(1)
    for entry in (early, late):
        entry.state = SETTLED
        ledger.hold_for_dead_letter(entry)
    ledger.release_hold(early)  # before it was ever written
    stand.turn()
    ledger.release_hold(late)
    stand.turn()
    stand.crash()
    assert list(stand.reopen().found[1]) == [other.offset]
    assert early.message.position < 0


def test_a_settled_entry_does_not_keep_its_message_out_of_other_queues() -> None:
    stand = StoreStand()
    message = persistent(b"fan-out")
    gone, kept = stand.entry(1, message), stand.entry(2, message)
    stand.settle(1, [gone])
    stand.turn()
    assert kept.message.position > 0
    stand.crash()
    again = stand.reopen()
    assert (again.bodies(1), again.bodies(2)) == ([], [b"fan-out"])


def test_with_retention_even_what_was_settled_before_is_written() -> None:
    stand = StoreStand(retention_age_s=3600)
    message = persistent(b"fan-out")
    entries = [stand.entry(1), stand.entry(1, message), stand.entry(2, message), stand.entry(1)]
    stand.settle(1, [entries[0], entries[1]])
    stand.settle(2, [entries[2]])
    stand.turn()
    assert len(stand.kinds(MESSAGE)) == 3
    assert sorted(stand.runs()) == [(1, 0, 1), (1, 1, 1), (2, 0, 1)]
    stand.crash()
    again = stand.reopen()
    assert list(again.found[1]) == [2]
    assert list(again.found[2]) == []


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_message_of_several_queues_is_whole_in_a_batch_that_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hareline.storage.store.batch.BATCH_BYTES", 300)
    stand = StoreStand(is_automatic=False)
    messages = [persistent(bytes(200)) for _ in range(4)]
    entries = [[stand.entry(queue_id, message) for message in messages] for queue_id in (1, 2)]
    early = entries[1].pop(0)
    stand.settle(2, [early])  # before it is written
    stand.store.write_pending()  # the first messages, and not all
    written = [message for message in messages if message.position > 0]
    assert 0 < len(written) < len(messages)
    for queue_id, of_queue in zip((1, 2), entries, strict=True):
        stand.settle(queue_id, [entry for entry in of_queue if entry.message in written])
    stand.settle_down()
    assert stand.failures == []
    stand.crash()
    again = stand.reopen()
    expected = [entry.offset for entry in entries[0] if entry.message not in written]
    assert list(again.found[1]) == list(again.found[2]) == expected


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_more_than_a_batch_takes_goes_into_several_and_the_ticket_waits_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hareline.storage.store.batch.BATCH_BYTES", 1000)
    stand = StoreStand(is_automatic=False)
    told: list[int] = []
    old = stand.entries(1, 3)
    stand.store.write_pending()
    stand.syncer.drain()
    entries = stand.entries(1, 10, bytes(300)) + stand.entries(2, 10, bytes(300))
    shared = persistent(bytes(300))
    stand.entry(2, shared)
    stand.entry(3, shared)
    stand.settle(1, old)
    ticket = stand.store.ticket
    stand.store.when_durable(ticket, lambda: told.append(len(stand.kinds(MESSAGE))))
    count = 0
    while not told:
        stand.store.write_pending()
        assert stand.store.durable_ticket < ticket
        assert not stand.runs()  # what was settled comes behind all messages
        stand.syncer.drain()
        count += 1
    assert count > 5
    assert len(stand.runs()) == 1
    stand.crash()
    again = stand.reopen()
    assert len(again.found[1]) + len(again.found[2]) == len(entries) + 1
    assert len(again.found[3]) == 1


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_messages_that_have_to_wait_for_the_next_batch_keep_their_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hareline.storage.store.batch.BATCH_BYTES", 300)
    stand = StoreStand(is_automatic=False)
    messages = [persistent(bytes(200)) for _ in range(6)]
    for message in messages:
        stand.entry(1, message)
        stand.entry(2, message)
    stand.store.write_pending()
    waiting = [message for message in messages if message.position < 0]
    assert 0 < len(waiting) < len(messages)
    assert {message.position for message in waiting} == {UNWRITTEN}


def test_a_message_that_was_read_back_is_written_as_it_was() -> None:
    stand = StoreStand()
    expiring = persistent(b"body").expiring_at(77)
    first = stand.entry(1, expiring)
    stand.turn()
    second = stand.entry(2, first.message)
    stand.turn()
    assert (second.message.expires_at_ms, second.message.body) == (77, b"body")
    content_store = stand.store.content_store
    assert content_store is not None
    assert content_store.read(second.message.position).expires_at_ms == 77
