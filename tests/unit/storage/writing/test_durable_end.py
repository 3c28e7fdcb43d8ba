"""The offset below which all entries of a queue survive a crash, whatever the disk does."""

from __future__ import annotations

import errno

import pytest

from hareline.queues.core.entry import SETTLED
from hareline.storage.store import batch
from tests.support.store_stand import StoreStand, persistent


def end(stand: StoreStand, queue_id: int = 1) -> int:
    return stand.queue(queue_id).durable_end(stand.next_offsets.get(queue_id, 0))


def test_it_waits_for_what_has_gathered_and_for_what_is_on_its_way() -> None:
    stand = StoreStand(is_automatic=False)
    assert end(stand) == 0
    stand.entries(1, 3)
    assert end(stand) == 0
    stand.store.write_pending()
    stand.entries(1, 2)  # in the next batch
    assert end(stand) == 0
    stand.syncer.step()
    assert end(stand) == 3
    stand.settle_down()
    assert end(stand) == 5
    stand.entries(2, 1)
    assert end(stand) == 5


def test_it_is_what_a_crash_leaves() -> None:
    stand = StoreStand(is_automatic=False)
    stand.entries(1, 3)
    stand.turn()
    stand.entries(1, 2)
    before = end(stand)
    stand.crash()
    assert list(stand.reopen().found[1]) == list(range(before)) == [0, 1, 2]


def test_a_transaction_counts_when_its_end_is_durable() -> None:
    stand = StoreStand(is_automatic=False)
    stand.entries(1, 2)
    stand.turn()
    transaction = stand.store.begin_transaction()
    for _ in range(2):
        transaction.enter()
        stand.entries(1, 2)
        transaction.leave()
        stand.turn()
        stand.entry(1)  # of another publisher
        stand.turn()
        assert end(stand) == 2
    assert end(stand, 2) == 0
    transaction.enter()
    transaction.finish()
    transaction.leave()
    stand.store.write_pending()
    assert end(stand) == 2  # its COMMIT is on the way
    stand.settle_down()
    assert end(stand) == 8
    stand.crash()
    assert list(stand.reopen().found[1]) == list(range(8))


def test_a_transaction_within_one_batch_is_like_any_other_publish() -> None:
    stand = StoreStand(is_automatic=False)
    transaction = stand.store.begin_transaction()
    transaction.enter()
    stand.entries(1, 2)
    transaction.leave()
    assert end(stand) == 0
    transaction.finish()
    stand.store.write_pending()
    assert end(stand) == 0
    stand.settle_down()
    assert end(stand) == 2


def test_of_a_batch_in_parts_none_counts_before_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH_BYTES", 1000)
    stand = StoreStand(is_automatic=False)
    both = [persistent(bytes(300)) for _ in range(6)]
    for message in both[:3]:
        stand.entry(1, message)
        stand.entry(2, message)
    stand.entry(2, persistent(bytes(10)))  # in a later part than the two behind it
    for message in both[3:]:
        stand.entry(1, message)
        stand.entry(2, message)
    ends = set()
    stand.store.write_pending()
    while stand.syncer.submitted:
        ends.add((end(stand), end(stand, 2)))
        stand.syncer.step()
        stand.store.write_pending()
    assert ends == {(0, 0)}
    assert (end(stand), end(stand, 2)) == (6, 7)


def test_a_store_that_has_failed_makes_nothing_durable_any_more() -> None:
    stand = StoreStand(is_automatic=False)
    stand.entries(1, 2)
    stand.turn()
    stand.forgetful.fail_next("sync", errno.EIO)
    stand.entries(1, 1)
    stand.turn()
    assert stand.failures
    stand.entries(1, 1)
    stand.turn()
    assert end(stand) == 2
    stand.entries(2, 1)
    stand.turn()
    assert end(stand, 2) == 0


@pytest.mark.parametrize("is_log", [True, False])
def test_offsets_of_a_log_are_never_given_out_again(is_log: bool) -> None:
    """Also of entries that were dropped before they were written."""
    stand = StoreStand()
    stand.queue(1).writes_all = is_log
    stand.settle(1, stand.entries(1, 3))
    stand.turn()
    assert end(stand) == 3
    stand.crash()
    again = stand.reopen()
    assert again.found[1] == {}
    assert again.queue(1).next_offset == (3 if is_log else 0)


def test_the_end_of_a_log_whose_entries_went_before_they_were_written_waits_for_them() -> None:
    stand = StoreStand(is_automatic=False)
    stand.queue(1).writes_all = True
    entries = stand.entries(1, 3)
    for entry in entries:
        entry.state = SETTLED
    assert end(stand) == 0
    stand.turn()
    assert end(stand) == 3
