"""Highest sequences are in the batch of the messages that moved them, and in every new segment."""

from __future__ import annotations

import errno

import pytest

from hareline.storage.interface import ProducerSequence
from hareline.storage.journal.format.frame import CHECKPOINT, COMMIT, MESSAGE, PRODUCERS
from hareline.storage.journal.format.records import (
    KeptSequence,
    Producers,
    decode_commit,
    decode_producers,
)
from hareline.storage.store.ledger import DurableTransaction
from tests.support.segments import Listener, read_all
from tests.support.store_stand import JOURNAL, FakeEntry, Reopened, StoreStand, persistent


def move(
    stand: StoreStand, producer_id: bytes, sequence: int, vhost: str = "/"
) -> ProducerSequence:
    """What the virtual host does for a message that a durable queue has taken."""
    ledger = stand.store.open_sequences(vhost)
    known = ledger.by_id.setdefault(producer_id, ProducerSequence(producer_id))
    known.highest = sequence
    known.used_ms = stand.now_ms
    ledger.note(known)
    return known


def publish(stand: StoreStand, producer_id: bytes, sequence: int, vhost: str = "/") -> FakeEntry:
    entry = stand.entry(1, persistent(b"%d" % sequence))
    move(stand, producer_id, sequence, vhost)
    return entry


def records(stand: StoreStand) -> list[Producers]:
    return [decode_producers(payload) for payload in stand.kinds(PRODUCERS)]


def kinds_by_batch(stand: StoreStand) -> list[list[int]]:
    batches, _, _ = read_all(stand.files, Listener(), directory=JOURNAL)
    return [[kind for _, kind, _ in batch.records] for batch in batches]


def highest(stand: StoreStand, vhost: str = "/") -> dict[bytes, int]:
    by_id = stand.store.open_sequences(vhost).by_id
    assert all(known.highest == known.written for known in by_id.values())
    return {producer_id: known.highest for producer_id, known in by_id.items()}


def after_crash(stand: StoreStand) -> Reopened:
    stand.crash()
    return stand.reopen()


# ------------------------------------------------------------------------------------ one batch


def test_a_sequence_is_in_the_batch_of_its_message() -> None:
    stand = StoreStand(is_automatic=False)
    publish(stand, b"a", 0)
    publish(stand, b"a", 1)
    publish(stand, b"b", 70)
    publish(stand, b"a", 5, "other")
    ticket = stand.store.ticket
    stand.turn()
    assert records(stand) == [
        Producers(
            b"/",
            False,
            [KeptSequence(b"a", 1, stand.now_ms), KeptSequence(b"b", 70, stand.now_ms)],
        ),
        Producers(b"other", False, [KeptSequence(b"a", 5, stand.now_ms)]),
    ]
    assert kinds_by_batch(stand)[-1] == [MESSAGE] * 4 + [PRODUCERS] * 2
    assert stand.store.open_sequences("/").by_id[b"a"].ticket == ticket
    again = after_crash(stand)
    assert highest(again) == {b"a": 1, b"b": 70}
    assert highest(again, "other") == {b"a": 5}


def test_what_has_not_moved_is_not_written_again() -> None:
    stand = StoreStand()
    publish(stand, b"a", 0)
    publish(stand, b"b", 0)
    stand.turn()
    publish(stand, b"b", 1)
    stand.turn()
    assert records(stand)[-1].sequences == [KeptSequence(b"b", 1, stand.now_ms)]
    stand.entry(1)
    stand.turn()
    assert len(records(stand)) == 2


def test_a_crash_before_the_batch_loses_the_message_and_its_sequence() -> None:
    stand = StoreStand(is_automatic=False)
    publish(stand, b"a", 0)
    stand.turn()
    publish(stand, b"a", 1)
    again = after_crash(stand)
    assert highest(again) == {b"a": 0}
    assert len(again.bodies(1)) == 1


def test_a_sequence_is_written_though_its_message_was_settled_at_once() -> None:
    stand = StoreStand(is_automatic=False)
    stand.settle(1, [publish(stand, b"a", 3)])
    stand.turn()
    assert stand.kinds(MESSAGE) == []
    assert highest(after_crash(stand)) == {b"a": 3}


def test_a_store_that_has_failed_writes_no_sequence() -> None:
    stand = StoreStand(is_automatic=False)
    publish(stand, b"a", 0)
    stand.turn()
    stand.forgetful.fail_next("write", errno.EIO)
    publish(stand, b"a", 1)
    stand.turn()
    assert stand.store.failure
    known = stand.store.open_sequences("/").by_id[b"a"]
    assert known.ticket > stand.store.durable_ticket
    stand.forgetful.heal()
    publish(stand, b"a", 2)
    stand.turn()
    assert highest(after_crash(stand)) == {b"a": 0}


# -------------------------------------------------------------------------------------- segments


def test_each_segment_begins_with_all_producers() -> None:
    stand = StoreStand()
    publish(stand, b"old", 9)
    publish(stand, b"a", 0)
    stand.turn()
    begun = 0
    for number in range(1, 40):
        stand.settle(1, [publish(stand, b"a", number)])
        stand.entry(2, persistent(bytes(30_000)))
        stand.turn()
    for batch in kinds_by_batch(stand)[1:]:
        if CHECKPOINT in batch:
            assert batch[1] == PRODUCERS
            assert batch.count(PRODUCERS) == 1
            begun += 1
    assert begun > 3
    whole = [each for each in records(stand) if each.is_whole]
    assert [each.sequences[0] for each in whole] == [KeptSequence(b"old", 9, stand.now_ms)] * begun
    assert [each.sequences[1].sequence for each in whole] == sorted(
        {each.sequences[1].sequence for each in whole}
    )
    assert highest(after_crash(stand)) == {b"old": 9, b"a": 39}


def test_sequences_survive_the_segments_that_had_them() -> None:
    stand = StoreStand()
    first = publish(stand, b"old", 9)
    kept = [stand.entry(2, persistent(bytes(20_000)))]
    stand.turn()
    stand.settle(1, [first])
    for _ in range(60):  # segments with a little life are compacted, the others freed
        entries = stand.entries(1, 2, bytes(20_000))
        kept.append(stand.entry(2, persistent(b"small")))
        stand.turn()
        stand.settle(1, entries)
        stand.turn()
    assert stand.store.freed_segments > 3
    assert stand.moved_bytes
    again = after_crash(stand)
    assert highest(again) == {b"old": 9}
    assert len(again.found[2]) == len(kept)


def test_what_is_forgotten_is_left_out_of_the_next_segment() -> None:
    stand = StoreStand()
    publish(stand, b"a", 0)
    publish(stand, b"b", 0)
    stand.turn()
    del stand.store.open_sequences("/").by_id[b"a"]
    while not records(stand)[-1].is_whole:
        stand.entry(2, persistent(bytes(60_000)))
        stand.turn()
    assert highest(after_crash(stand)) == {b"b": 0}


def test_producers_of_a_virtual_host_that_is_not_served_are_carried_over() -> None:
    stand = StoreStand()
    publish(stand, b"a", 4, "gone")
    stand.turn()
    for _ in range(3):
        stand.store.close()
        stand = stand.reopen()  # with a segment of its own each time
    assert highest(stand, "gone") == {b"a": 4}


def test_a_producer_that_only_had_transient_messages_is_not_written() -> None:
    stand = StoreStand()
    ledger = stand.store.open_sequences("/")
    ledger.by_id[b"t"] = ProducerSequence(b"t")
    ledger.by_id[b"t"].highest = 7
    publish(stand, b"a", 0)
    stand.turn()
    stand.store.close()
    assert highest(stand.reopen()) == {b"a": 0}


def test_a_sequence_may_be_lower_after_its_producer_was_forgotten() -> None:
    stand = StoreStand()
    publish(stand, b"a", 100)
    stand.turn()
    del stand.store.open_sequences("/").by_id[b"a"]
    publish(stand, b"a", 1)
    stand.turn()
    assert highest(after_crash(stand)) == {b"a": 1}


# ---------------------------------------------------------------------------------- transactions


def share(stand: StoreStand, transaction: DurableTransaction, producer: bytes, number: int) -> None:
    transaction.enter()
    publish(stand, producer, number)
    transaction.leave()
    stand.turn()


def test_a_transaction_moves_nothing_before_its_end() -> None:
    stand = StoreStand()
    publish(stand, b"a", 0)
    stand.turn()
    transaction = stand.store.begin_transaction()
    for number in (1, 2, 3):
        share(stand, transaction, b"a", number)
    again = after_crash(stand)
    assert highest(again) == {b"a": 0}
    assert again.bodies(1) == [b"0"]


def test_a_transaction_moves_all_with_its_commit() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    for number in (1, 2, 3):
        share(stand, transaction, b"a", number)
        share(stand, transaction, b"b", number + 10)
    ledger = stand.store.open_sequences("/")
    assert ledger.is_undecided(ledger.by_id[b"a"])
    transaction.finish()
    assert not ledger.is_undecided(ledger.by_id[b"a"])
    assert ledger.by_id[b"a"].ticket == stand.store.ticket
    stand.turn()
    assert kinds_by_batch(stand)[-1] == [COMMIT, PRODUCERS]
    assert highest(after_crash(stand)) == {b"a": 3, b"b": 13}


def test_a_segment_that_begins_within_a_transaction_has_the_sequences_before_it() -> None:
    stand = StoreStand()
    publish(stand, b"a", 0)
    stand.turn()
    transaction = stand.store.begin_transaction()
    for number in range(1, 9):
        transaction.enter()
        stand.entry(1, persistent(bytes(60_000)))
        move(stand, b"a", number)
        transaction.leave()
        stand.turn()
    assert sum(each.is_whole for each in records(stand)) >= 1
    assert highest(after_crash(stand)) == {b"a": 0}


def test_the_transaction_at_work_knows_its_own_sequences() -> None:
    stand = StoreStand()
    first, second = stand.store.begin_transaction(), stand.store.begin_transaction()
    share(stand, first, b"a", 1)
    ledger = stand.store.open_sequences("/")
    known = ledger.by_id[b"a"]
    first.enter()
    assert not ledger.is_undecided(known)
    first.leave()
    second.enter()
    assert ledger.is_undecided(known)
    second.leave()


@pytest.mark.parametrize("is_second_first", [False, True])
def test_of_two_transactions_of_one_producer_the_last_to_end_moves_it(
    is_second_first: bool,
) -> None:
    stand = StoreStand()
    one, two = stand.store.begin_transaction(), stand.store.begin_transaction()
    share(stand, one, b"a", 1)
    share(stand, two, b"a", 2)
    if is_second_first:
        one, two = two, one
    one.finish()
    publish(stand, b"a", 3)  # and one outside of both
    stand.turn()
    assert stand.kinds(PRODUCERS) == []
    two.finish()
    stand.turn()
    assert highest(after_crash(stand)) == {b"a": 3}


def test_what_a_transaction_moved_and_was_forgotten_begins_again() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    share(stand, transaction, b"a", 50)
    del stand.store.open_sequences("/").by_id[b"a"]
    publish(stand, b"a", 0)
    transaction.finish()
    stand.turn()
    assert highest(after_crash(stand)) == {b"a": 0}


# ------------------------------------------------------------------- more than one batch may have


def fill_several_batches(monkeypatch: pytest.MonkeyPatch, stand: StoreStand) -> None:
    monkeypatch.setattr("hareline.storage.store.batch.BATCH_BYTES", 1000)
    for number in range(30):
        publish(stand, b"a", number)
        stand.entry(2, persistent(b"beside"))


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_batch_that_is_divided_counts_with_its_sequences_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = StoreStand(is_automatic=False)
    fill_several_batches(monkeypatch, stand)
    stand.store.write_pending()
    stand.syncer.step()  # the first batch is on the disk
    assert 0 < len(stand.kinds(MESSAGE)) < 60
    assert stand.kinds(PRODUCERS) == []
    again = after_crash(stand)
    assert again.bodies(1) == again.bodies(2) == []
    assert highest(again) == {}


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_batch_that_is_divided_ends_with_its_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = StoreStand(is_automatic=False)
    fill_several_batches(monkeypatch, stand)
    stand.turn()
    batches = kinds_by_batch(stand)
    assert sum(MESSAGE in batch for batch in batches) > 2
    assert [batch for batch in batches if PRODUCERS in batch] == [batches[-1]]
    assert [decode_commit(payload) for payload in stand.kinds(COMMIT)] == [[1]]
    again = after_crash(stand)
    assert len(again.bodies(1)) == len(again.bodies(2)) == 30
    assert highest(again) == {b"a": 29}


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_message_of_a_divided_batch_may_be_in_several_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hareline.storage.store.batch.BATCH_BYTES", 1000)
    stand = StoreStand(is_automatic=False)
    for number in range(30):
        message = persistent(b"%d" % number)
        stand.entry(1, message)
        stand.entry(2, message)
        move(stand, b"a", number)
    stand.store.write_pending()
    stand.syncer.step()
    assert stand.kinds(MESSAGE)
    again = after_crash(stand)
    assert again.bodies(1) == again.bodies(2) == []


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_batch_that_is_divided_is_above_the_durable_end_until_its_sequences_are_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = StoreStand(is_automatic=False)
    stand.entries(1, 2)
    stand.turn()
    fill_several_batches(monkeypatch, stand)
    both = persistent(b"both")
    stand.entry(2, both)
    stand.entry(1, both)
    ends = []
    stand.store.write_pending()
    while stand.syncer.submitted:
        ends.append((stand.queue(1).durable_end(33), stand.queue(2).durable_end(31)))
        stand.syncer.step()
        if len(ends) == 1:
            publish(stand, b"a", 31)  # while the parts are written
        stand.store.write_pending()
    assert len(ends) > 2
    assert ends == [(2, 0)] * len(ends)
    assert (stand.queue(1).durable_end(34), stand.queue(2).durable_end(31)) == (34, 31)
