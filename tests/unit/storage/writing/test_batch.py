"""A batch as it stands in the journal: one record a message, and all of it or nothing."""

from __future__ import annotations

import errno

from hareline.storage.journal.format.frame import MESSAGE
from hareline.storage.journal.format.message import decode_message
from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.writing.ledger import SETTLED
from tests.support.segments import Listener, read_all
from tests.support.store_stand import JOURNAL, StoreStand, persistent


def test_a_message_in_ten_queues_is_stored_once() -> None:
    stand = StoreStand()
    message = persistent(bytes(500))
    queue_ids = range(1, 11)
    entries = [stand.entry(queue_id, message) for queue_id in queue_ids]
    stand.entry(1, persistent(b"between"))
    stand.turn()
    records = [decode_message(payload) for payload in stand.kinds(MESSAGE)]
    assert [len(record.entries) for record in records] == [10, 1]
    assert len({entry.message.position for entry in entries}) == 1
    stand.settle(3, [entries[2]])
    stand.turn()
    stand.crash()
    again = stand.reopen(queue_ids=queue_ids)
    assert [len(again.found[queue_id]) for queue_id in queue_ids] == [2, 1, 0, *[1] * 7]


def test_a_message_that_is_written_already_is_written_again_for_a_queue_that_gets_it_later() -> (
    None
):
    stand = StoreStand()
    first = stand.entry(1, persistent(b"twice"))
    stand.turn()
    second = stand.entry(2, first.message)
    stand.turn()
    assert second.message is not first.message
    assert second.message.position > first.message.position > 0
    stand.settle(1, [first])
    stand.turn()
    stand.crash()
    assert stand.reopen().bodies(2) == [b"twice"]


def test_what_has_left_counts_as_delivered_after_a_crash() -> None:
    stand = StoreStand()
    (leaving,) = stand.entries(1, 1)
    leaving.state = SETTLED
    stand.queue(1).hold_for_dead_letter(leaving)
    stand.turn()
    stand.crash()
    assert stand.reopen().counts(1) == [1]


def test_a_batch_is_all_or_nothing() -> None:
    stand = StoreStand(is_automatic=False)
    stand.entry(1)
    stand.entry(2)
    stand.store.write_pending()
    stand.forgetful.fail_next("sync", errno.EIO)
    stand.syncer.step()
    stand.crash()
    again = stand.reopen()
    assert (again.bodies(1), again.bodies(2)) == ([], [])


def test_the_first_batch_vouches_for_all_that_was_recovered() -> None:
    stand = StoreStand()
    stand.entry(1)
    stand.turn()
    stand.crash()
    again = stand.reopen()
    last = again.state.segments[-1]
    batches, _, _ = read_all(again.files, Listener(), directory=JOURNAL)
    assert batches[-1].durable == last.number << OFFSET_BITS | last.end
