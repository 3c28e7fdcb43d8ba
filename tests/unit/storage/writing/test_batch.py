"""A batch as it stands in the journal: one record a message, and all of it or nothing."""

from __future__ import annotations

import errno

from hareline.storage.journal.format.frame import MESSAGE
from hareline.storage.journal.format.message import decode_message
from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.store.ledger import SETTLED
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


def test_a_batch_that_does_not_fit_into_the_segment_stands_in_the_next_one() -> None:
    stand = StoreStand(segment_bytes=8192)
    entries = stand.entries(1, 5, bytes(1000))
    stand.turn()
    stand.settle(1, entries[:1])
    entries += stand.entries(1, 5, bytes(1000))
    entries += stand.entries(1, 1, b"left out")
    stand.settle(1, entries[10:])
    stand.turn()
    numbers = [entry.message.position >> OFFSET_BITS for entry in entries[:10]]
    assert numbers == [numbers[0]] * 5 + [numbers[0] + 1] * 5
    content_store = stand.store.content_store
    assert content_store is not None
    positions = [entry.message.position for entry in entries[:10]]
    assert [each.size for each in content_store.read_run(positions)] == [1000] * 10
    stand.crash()
    assert list(stand.reopen().found[1]) == list(range(1, 10))


def test_a_batch_that_is_known_not_to_fit_is_packed_for_the_next_segment_at_once() -> None:
    stand = StoreStand(segment_bytes=8192, is_automatic=False)
    stand.entry(1)
    stand.store.write_pending()
    entries = stand.entries(1, 9, bytes(1000))
    stand.store.write_pending()  # counts them while the first batch is written
    stand.settle_down()
    assert len({entry.message.position >> OFFSET_BITS for entry in entries}) == 1
    stand.crash()
    assert len(stand.reopen().found[1]) == 10
