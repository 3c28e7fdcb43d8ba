"""A transaction over several batches is recovered whole or not at all.

``test_store_model`` has any order of everything; here is each rule by itself.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hareline.storage.interface import StoreTransaction
from hareline.storage.journal.format.frame import CHECKPOINT, COMMIT, MESSAGE, PART
from hareline.storage.journal.format.records import (
    Part,
    Run,
    decode_checkpoint,
    decode_commit,
    decode_part,
)
from hareline.storage.memory import MemoryStore
from hareline.storage.store.ledger import DurableTransaction
from tests.support.store_stand import FakeEntry, Reopened, StoreStand, persistent


@contextmanager
def share(transaction: DurableTransaction, stand: StoreStand) -> Iterator[None]:
    """What one turn does of it; the batch that gathers is on the disk at the end."""
    transaction.enter()
    yield
    transaction.leave()
    stand.turn()


def publish_in_shares(
    stand: StoreStand, transaction: DurableTransaction, shares: int = 3
) -> list[FakeEntry]:
    entries: list[FakeEntry] = []
    for _ in range(shares):
        with share(transaction, stand):
            entries += stand.entries(1, 4)
            entries.append(stand.entry(2))
    return entries


def after_crash(stand: StoreStand) -> Reopened:
    stand.crash()
    return stand.reopen()


# ----------------------------------------------------------------------------------- what is added


def test_what_is_added_counts_for_nothing_before_the_end() -> None:
    stand = StoreStand()
    before = stand.entry(1, persistent(b"before"))
    transaction = stand.store.begin_transaction()
    publish_in_shares(stand, transaction)
    after = stand.entry(1, persistent(b"after"))
    stand.turn()
    assert len(stand.kinds(MESSAGE)) == 17
    assert [decode_part(each) for each in stand.kinds(PART)] == [
        Part(1, [Run(1, 1, 4), Run(2, 0, 1)]),
        Part(1, [Run(1, 5, 4), Run(2, 1, 1)]),
        Part(1, [Run(1, 9, 4), Run(2, 2, 1)]),
    ]
    again = after_crash(stand)
    assert list(again.found[1]) == [before.offset, after.offset]
    assert again.bodies(2) == []


def test_all_of_it_counts_with_its_last_batch() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    entries = publish_in_shares(stand, transaction)
    with share(transaction, stand):
        entries.append(stand.entry(1))
        transaction.finish()
    assert [decode_commit(each) for each in stand.kinds(COMMIT)] == [[1]]
    assert len(stand.kinds(PART)) == 3  # the last share is in the batch with COMMIT
    again = after_crash(stand)
    assert len(again.bodies(1)) == 13
    assert len(again.bodies(2)) == 3


def test_the_end_alone_makes_a_batch() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    publish_in_shares(stand, transaction)
    transaction.finish()
    ticket = stand.store.ticket
    stand.settle_down()  # it has asked for a turn
    assert stand.store.durable_ticket == ticket
    assert len(after_crash(stand).bodies(1)) == 12


def test_one_that_is_over_before_a_batch_is_built_needs_no_records() -> None:
    stand = StoreStand(is_automatic=False)
    transaction = stand.store.begin_transaction()
    for _ in range(3):
        transaction.enter()
        stand.entries(1, 4)
        transaction.leave()
    transaction.finish()
    stand.turn()
    assert stand.kinds(PART) == stand.kinds(COMMIT) == []
    assert len(after_crash(stand).bodies(1)) == 12


def test_transactions_side_by_side_end_each_by_itself() -> None:
    stand = StoreStand()
    first, second = stand.store.begin_transaction(), stand.store.begin_transaction()
    for _ in range(2):
        for transaction, body in ((first, b"first"), (second, b"second")):
            transaction.enter()
            stand.entries(1, 2, body)
            transaction.leave()
        stand.turn()
    second.finish()
    stand.turn()
    assert after_crash(stand).bodies(1) == [b"second"] * 4


def test_runs_are_what_was_added_and_nothing_in_between() -> None:
    """Entries without a record (transient ones) have offsets too."""
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    with share(transaction, stand):
        stand.entries(1, 2)
        stand.next_offsets[1] += 3
        stand.entries(1, 1)
    assert decode_part(stand.kinds(PART)[0]).runs == [Run(1, 0, 2), Run(1, 5, 1)]


# --------------------------------------------------------------------------------- what is settled


def test_what_is_settled_is_not_written_before_the_end() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 12)
    stand.turn()
    transaction = stand.store.begin_transaction()
    for start in (0, 4, 8):
        with share(transaction, stand):
            stand.settle(1, entries[start : start + 4])
    assert stand.runs() == []
    transaction.finish()
    stand.settle_down()
    assert stand.runs() == [(1, 0, 4), (1, 4, 4), (1, 8, 4)]
    assert after_crash(stand).bodies(1) == []


def test_what_came_back_and_is_settled_is_forgotten() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 4)
    stand.turn()
    stand.acquire(1, entries)
    stand.release(1, entries)
    stand.turn()
    assert stand.queue(1).books.returns
    transaction = stand.store.begin_transaction()
    with share(transaction, stand):
        stand.settle(1, entries[::2])
    transaction.finish()
    stand.settle_down()
    assert list(stand.queue(1).books.returns) == [1, 3]
    assert after_crash(stand).counts(1) == [1, 1]


def test_a_crash_brings_back_what_was_settled_before_the_end() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 4)
    stand.turn()
    transaction = stand.store.begin_transaction()
    with share(transaction, stand):
        stand.settle(1, entries[:2])
    stand.settle(1, entries[3:])  # somebody else
    stand.turn()
    assert list(after_crash(stand).found[1]) == [0, 1, 2]


def test_what_is_settled_before_it_was_written_is_written_all_the_same() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    one, other = stand.entry(1, persistent(b"confirmed")), stand.entry(1)
    with share(transaction, stand):
        stand.settle(1, [one])
    stand.settle(1, [other])
    stand.turn()
    assert stand.runs() == [(1, 1, 1)]
    again = after_crash(stand)
    assert again.bodies(1) == [b"confirmed"]
    assert again.counts(1) == [1]  # somebody has had it


def test_what_was_added_and_settled_leaves_nothing_alive() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    with share(transaction, stand):
        entries = stand.entries(1, 4)
    with share(transaction, stand):
        entries += stand.entries(1, 4)
        stand.settle(1, entries)
    transaction.finish()
    stand.settle_down()
    assert stand.queue(1).books.live == {}
    assert after_crash(stand).bodies(1) == []


def test_what_was_added_may_be_settled_by_somebody_else_before_the_end() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    entries = publish_in_shares(stand, transaction)
    stand.settle(1, entries[:4])
    stand.turn()
    assert after_crash(stand).bodies(1) == []
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    entries = publish_in_shares(stand, transaction)
    stand.settle(1, entries[:4])
    transaction.finish()
    stand.settle_down()
    assert list(after_crash(stand).found[1]) == list(range(4, 12))


def test_a_queue_may_go_before_the_end() -> None:
    stand = StoreStand()
    entries = stand.entries(1, 4)
    stand.turn()
    transaction = stand.store.begin_transaction()
    with share(transaction, stand):
        stand.settle(1, entries)
        stand.entries(1, 4)
        stand.entries(2, 4)
    stand.queue(1).forget()
    transaction.finish()
    stand.settle_down()
    assert not stand.failures
    stand.crash()
    assert len(stand.reopen((2,)).bodies(2)) == 4


# ------------------------------------------------------------------------- segments and checkpoints


def numbers(stand: StoreStand) -> list[int]:
    return list(stand.store._liveness.segments)


def test_a_checkpoint_names_what_is_open() -> None:
    stand = StoreStand(segment_bytes=4096)
    transaction = stand.store.begin_transaction()
    while len(numbers(stand)) < 3:
        publish_in_shares(stand, transaction, 1)
    transaction.finish()
    stand.settle_down()
    while len(numbers(stand)) < 4:
        stand.entries(1, 4)
        stand.turn()
    checkpoints = [decode_checkpoint(each).transactions for each in stand.kinds(CHECKPOINT)]
    assert checkpoints == [(), (1,), (1,), ()]


def test_it_stays_committed_when_the_segment_that_says_so_is_freed() -> None:
    stand = StoreStand(segment_bytes=4096)
    stand.compactor_off()
    transaction = stand.store.begin_transaction()
    kept = publish_in_shares(stand, transaction)
    assert numbers(stand) == [1]
    filler: list[FakeEntry] = []

    def fill_until(number: int) -> None:
        while numbers(stand)[-1] < number:
            filler.extend(stand.entries(3, 4))
            stand.turn()

    fill_until(2)
    transaction.finish()
    stand.settle_down()
    fill_until(4)
    stand.settle(3, filler)
    stand.turn()
    assert numbers(stand)[:2] == [1, 4]
    assert stand.kinds(COMMIT) == []
    again = after_crash(stand)
    assert len(again.bodies(1)) + len(again.bodies(2)) == len(kept)


@pytest.mark.parametrize("is_finished", [True, False])
def test_nothing_is_compacted_before_the_end(is_finished: bool) -> None:
    """A record that is moved leaves the segment with the PART that names it."""
    stand = StoreStand(segment_bytes=8192)
    transaction = stand.store.begin_transaction()
    publish_in_shares(stand, transaction)
    filler: list[FakeEntry] = []
    while len(numbers(stand)) < 5:
        filler += stand.entries(3, 4)
        stand.turn()
    stand.settle(3, filler)
    stand.turn()
    assert stand.moved_bytes == 0
    assert stand.source() == 0
    if is_finished:
        transaction.finish()
        stand.settle_down()
        assert stand.moved_bytes
    assert len(after_crash(stand).bodies(1)) == (12 if is_finished else 0)


def test_a_compaction_that_was_begun_before_goes_on_and_takes_what_is_settled_along() -> None:
    stand = StoreStand(segment_bytes=8192)
    old = stand.entries(1, 3)
    stand.turn()
    filler: list[FakeEntry] = []
    while len(numbers(stand)) < 5:
        filler += stand.entries(3, 4)
        stand.turn()
    stand.syncer.is_automatic = False
    stand.settle(3, filler)
    while not stand.source():
        stand.store.write_pending()
        assert stand.syncer.step()
    transaction = stand.store.begin_transaction()
    transaction.enter()
    stand.settle(1, old[:2])
    transaction.leave()
    stand.settle_down()
    assert stand.source() == 0
    assert stand.moved_bytes
    transaction.finish()
    stand.settle_down()
    assert not stand.failures
    assert list(after_crash(stand).found[1]) == [2]


# -------------------------------------------------------------------------------- after the crash


def test_what_was_undone_is_settled_by_the_next_start_and_frees_its_segments() -> None:
    stand = StoreStand(segment_bytes=4096)
    transaction = stand.store.begin_transaction()
    while len(numbers(stand)) < 3:
        publish_in_shares(stand, transaction, 1)
    again = after_crash(stand)
    again.turn()
    assert numbers(again) == [again.state.next_segment]
    assert again.queue(1).books.live == {}
    for _ in range(2):
        stand = after_crash(again)
        assert stand.bodies(1) == []
        again = stand


def test_the_numbers_of_a_former_run_mean_nothing_in_the_next() -> None:
    stand = StoreStand()
    publish_in_shares(stand, stand.store.begin_transaction())
    again = after_crash(stand)
    offset = again.queue(1).next_offset
    again.next_offsets[1] = offset
    transaction = again.store.begin_transaction()
    publish_in_shares(again, transaction)
    transaction.finish()
    again.settle_down()
    once_more = after_crash(again)
    assert list(once_more.found[1]) == list(range(offset, offset + 12))


def test_a_crash_in_the_next_start_undoes_it_again() -> None:
    stand = StoreStand()
    stand.entry(1, persistent(b"other"))
    publish_in_shares(stand, stand.store.begin_transaction())
    stand.crash()
    disk = stand.forgetful
    disk.fail_when(lambda operation: errno.EIO if operation.name == "write" else None)
    assert stand.reopen().store.failure
    disk.heal()
    disk.crash()
    assert stand.reopen().bodies(1) == [b"other"]


def test_an_orderly_end_in_between_undoes_it_too() -> None:
    stand = StoreStand()
    publish_in_shares(stand, stand.store.begin_transaction())
    stand.store.close()
    assert stand.reopen().bodies(1) == []


def test_a_store_that_fails_in_between_goes_on_in_memory() -> None:
    stand = StoreStand()
    transaction = stand.store.begin_transaction()
    publish_in_shares(stand, transaction, 1)
    stand.forgetful.fail_next("sync", errno.EIO)
    publish_in_shares(stand, transaction, 1)
    assert stand.store.failure
    publish_in_shares(stand, transaction, 1)
    transaction.finish()
    stand.settle_down()
    stand.store.begin_transaction().finish()
    stand.forgetful.heal()
    assert after_crash(stand).bodies(1) == []


def test_a_store_that_keeps_nothing_has_nothing_to_do() -> None:
    transaction = MemoryStore().begin_transaction()
    transaction.enter()
    transaction.leave()
    transaction.finish()
    assert type(transaction) is StoreTransaction
