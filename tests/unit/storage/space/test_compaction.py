"""What lives in a mostly dead segment is moved, once, as it is, and the segment goes."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.storage.journal.format.frame import MESSAGE
from hareline.storage.journal.format.message import MOVED, WAS_DELIVERED, decode_message
from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.store.compaction import CHUNK_BYTES, Dead
from hareline.storage.store.liveness import NOWHERE, SegmentBooks
from tests.support.store_stand import JOURNAL, FakeEntry, StoreStand, persistent
from tests.support.turns import ManualTurn


def segment_of(entry: FakeEntry) -> int:
    return entry.message.position >> OFFSET_BITS


def fill(stand: StoreStand, count: int, body: bytes = bytes(200)) -> list[FakeEntry]:
    """So many entries, a few in each batch, over several segments."""
    entries: list[FakeEntry] = []
    while len(entries) < count:
        entries += stand.entries(1, 4, body)
        stand.turn()
    return entries


def pinned(**options: Any) -> tuple[StoreStand, FakeEntry]:
    """One old unacked entry at the beginning of a journal that is dead otherwise."""
    stand = StoreStand(segment_bytes=8192, **options)
    entry = stand.entry(1, persistent(b"old and unacked"))
    stand.turn()
    rest = fill(stand, 200)
    stand.settle(1, rest)
    stand.turn()
    return stand, entry


def moved_records(stand: StoreStand) -> list[Any]:
    records = [decode_message(payload) for payload in stand.kinds(MESSAGE)]
    return [record for record in records if record.flags & MOVED]


def test_one_old_entry_does_not_pin_the_journal() -> None:
    stand, entry = pinned()
    assert stand.segment_count <= 2
    assert stand.store.freed_segments > 4
    assert stand.moved_bytes < 200
    assert stand.store.content_store is not None
    assert stand.store.content_store.read(entry.message.position).body == b"old and unacked"
    stand.crash()
    assert stand.reopen().bodies(1) == [b"old and unacked"]


def test_a_segment_that_dies_while_it_is_compacted_is_freed_without_any_further_traffic() -> None:
    """The compaction ends with a batch that has nothing to write, and frees with the next one."""
    stand = StoreStand(segment_bytes=8192)
    entries = fill(stand, 200)
    turn = ManualTurn()
    turn.write_pending = stand.store.write_pending
    stand.store.ask_for_turn = turn.arm

    def come_to_rest() -> None:
        while turn.is_armed or stand.syncer.submitted:
            turn.run()
            if stand.syncer.submitted:
                stand.syncer.step()

    stand.syncer.is_automatic = False
    stand.settle(1, entries[1::2] + entries[0:180:2])
    while not stand.source():  # until a compaction has begun, and has read nothing yet
        turn.run()
        stand.syncer.step()
    stand.settle(1, entries[180::2])
    come_to_rest()
    assert stand.source() == 0
    assert stand.moved_bytes == 0
    assert stand.segment_count == 1


def test_a_moved_entry_keeps_its_position_and_can_be_settled_by_it() -> None:
    stand, entry = pinned()
    before = entry.message.position
    assert segment_of(entry) not in stand.queue(1).books.live
    stand.settle(1, [entry])
    stand.turn()
    assert entry.message.position == before
    assert stand.queue(1).books.live == {}
    stand.crash()
    assert stand.reopen().bodies(1) == []


def test_pages_of_moved_entries_are_settled_by_their_old_positions() -> None:
    stand = StoreStand(segment_bytes=8192)
    old = stand.entries(1, 6, bytes(50))
    stand.turn()
    rest = fill(stand, 200)
    stand.settle(1, rest)
    stand.turn()
    assert segment_of(old[0]) not in stand.queue(1).books.live
    positions = [entry.message.position for entry in old]
    stand.queue(1).settle_paged(range(5), positions[:5])
    stand.turn()
    stand.crash()
    assert list(stand.reopen().found[1]) == [5]


def test_an_entry_is_moved_again_and_again_and_found_every_time() -> None:
    stand = StoreStand(segment_bytes=8192)
    entry = stand.entry(1, persistent(b"old"))
    stand.turn()
    for _ in range(12):
        stand.settle(1, fill(stand, 120))
        stand.turn()
    assert stand.moved_bytes > 3 * len(entry.message.content)
    assert stand.store.content_store is not None
    assert stand.store.content_store.read(entry.message.position).body == b"old"
    assert stand.segment_count <= 3
    stand.settle(1, [entry])
    stand.turn()
    stand.settle(1, fill(stand, 120))
    stand.turn()
    assert stand.moves() == {}  # nobody can ask by the old positions any more
    stand.crash()
    assert stand.reopen().bodies(1) == []


def test_a_deleted_queue_leaves_no_moves_behind() -> None:
    stand, _ = pinned()
    assert stand.moves() != {}
    stand.queue(1).forget()
    stand.turn()
    assert stand.moves() == {}


def test_only_the_living_entries_of_a_record_are_moved() -> None:
    stand = StoreStand(segment_bytes=8192)
    message = persistent(b"fan-out")
    entries = [stand.entry(queue_id, message) for queue_id in (1, 2, 3)]
    stand.turn()
    rest = fill(stand, 200)
    stand.settle(2, [entries[1]])
    stand.settle(1, rest)
    stand.turn()
    (record,) = moved_records(stand)
    assert [entry.queue_id for entry in record.entries] == [1, 3]
    stand.crash()
    again = stand.reopen()
    assert [again.bodies(queue_id) for queue_id in (1, 2, 3)] == [[b"fan-out"], [], [b"fan-out"]]


def test_what_is_settled_while_its_segment_is_compacted_is_not_moved() -> None:
    stand = StoreStand(segment_bytes=8192, is_automatic=False)
    old = stand.entries(1, 4, bytes(50))
    stand.turn()
    rest = fill(stand, 200)
    stand.settle(1, rest)
    stand.store.write_pending()
    while not stand.source():
        if not stand.syncer.step():
            stand.store.write_pending()
    stand.settle(1, old[1:3])
    stand.turn()
    offsets = [entry.offset for record in moved_records(stand) for entry in record.entries]
    assert sorted(set(offsets)) == [0, 3]
    stand.crash()
    assert list(stand.reopen().found[1]) == [0, 3]


def test_moved_entries_keep_their_counts_and_their_flags() -> None:
    stand = StoreStand(segment_bytes=8192)
    entries = stand.entries(1, 3, bytes(50))
    stand.acquire(1, entries[:1])  # written as delivered
    stand.turn()
    stand.acquire(1, entries[1:2])
    stand.release(1, entries[1:2])
    stand.turn()
    stand.settle(1, fill(stand, 200))
    stand.turn()
    listed = [entry for record in moved_records(stand) for entry in record.entries]
    assert [(entry.delivery_count, entry.flags) for entry in listed[-3:]] == [
        (0, WAS_DELIVERED),
        (1, 0),
        (0, 0),
    ]
    assert stand.queue(1).books.returns == {}
    stand.store.close()
    assert stand.reopen().counts(1) == [0, 1, 0]


def test_flags_of_an_earlier_life_are_not_carried_on() -> None:
    stand = StoreStand(segment_bytes=8192)
    entries = stand.entries(1, 1, bytes(50))
    stand.acquire(1, entries)
    stand.turn()
    stand.store.close()  # with nothing unacked, says the orderly end
    again = stand.reopen()
    assert again.counts(1) == [0]
    again.settle(1, fill(again, 200))
    again.turn()
    again.crash()
    assert again.reopen().counts(1)[:1] == [0]


def test_extra_writing_is_bounded_by_what_is_freed() -> None:
    stand = StoreStand(segment_bytes=8192)
    kept = []
    for _ in range(40):
        entries = stand.entries(1, 10, bytes(200))
        stand.turn()
        kept += entries[:1]
        stand.settle(1, entries[1:])
        stand.turn()
    assert stand.moved_bytes <= stand.store.freed_segments * 8192 // 2
    assert stand.segment_count * 8192 < 4 * len(kept) * 300 + 3 * 8192
    stand.crash()
    assert list(stand.reopen().found[1]) == [entry.offset for entry in kept]


def test_a_segment_is_read_in_pieces() -> None:
    stand = StoreStand(segment_bytes=1 << 20)
    old = stand.entries(1, 1)
    old += stand.entries(1, 1, bytes(3 * CHUNK_BYTES // 2))  # longer than a piece
    old += stand.entries(1, 1)
    stand.turn()
    for _ in range(3):
        for _ in range(15):
            rest = [stand.entry(1, persistent(bytes(60_000)))]
            stand.turn()
            stand.settle(1, rest)
            stand.turn()
    assert segment_of(old[0]) not in stand.queue(1).books.live
    stand.crash()
    assert [len(body) for body in stand.reopen().bodies(1)] == [4, 3 * CHUNK_BYTES // 2, 4]


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_crash_in_the_middle_loses_nothing_and_the_compaction_goes_on(steps: int) -> None:
    stand = StoreStand(segment_bytes=8192, is_automatic=False)
    old = [stand.entry(1, persistent(b"%d" % number)) for number in range(8)]
    stand.turn()
    rest = fill(stand, 150)
    stand.settle(1, rest)
    stand.store.write_pending()
    for _ in range(steps):
        if not stand.syncer.step():
            stand.store.write_pending()
    stand.crash()
    again = stand.reopen()
    expected = [b"%d" % number for number in range(8)]
    assert again.bodies(1)[:8] == expected
    again.settle(1, list(again.found[1].values())[8:])
    again.turn()
    again.settle(1, [again.found[1][old[3].offset]])
    again.settle(1, fill(again, 150))
    again.turn()
    again.crash()
    del expected[3]
    once_more = again.reopen()
    assert once_more.bodies(1) == expected
    assert once_more.segment_count <= 3


def test_a_segment_that_cannot_be_read_back_is_told_and_stays() -> None:
    stand = StoreStand(segment_bytes=8192, is_automatic=False)
    stand.entry(1, persistent(b"old"))
    stand.turn()
    rest = fill(stand, 200)
    octets = bytearray(stand.forgetful.content(f"{JOURNAL}/{1:016x}.log"))
    octets[400] ^= 1
    stand.forgetful.put(f"{JOURNAL}/{1:016x}.log", bytes(octets))
    stand.settle(1, rest)
    stand.turn()
    stand.settle_down()
    assert len(stand.reports) == 1
    assert "compaction given up" in stand.reports[0]
    assert f"{1:016x}.log" in stand.reports[0]
    assert not stand.store.failure
    stand.turn()
    assert len(stand.reports) == 1  # not again and again


def test_dead_runs_may_overlap() -> None:
    books = SegmentBooks(1, 4096)
    books.add_settled(5, 1, 10, 30)
    books.add_settled(6, 1, 12, 2)
    books.add_settled(NOWHERE, 1, 50, 1)
    books.add_settled(6, 2, 0, 1)
    dead = Dead(books)
    dead.add(4, 7, 8)
    dead.prepare()
    assert dead.has(4, 7)
    assert [offset for offset in range(60) if dead.has(1, offset)] == [*range(10, 40), 50]
    assert dead.has(2, 0)
    assert not dead.has(2, 1)
    assert not dead.has(3, 10)
    dead.add(3, 10, 12)
    assert [offset for offset in range(9, 14) if dead.has(3, offset)] == [10, 11]


def test_an_emptied_segment_does_not_outlive_what_says_that_its_entries_are_settled() -> None:
    """It still has copies of them. Segment 2 alone says that some of segment 1 are settled."""
    stand = StoreStand(segment_bytes=8192)
    stand.liveness().forward_limit_bytes = 0  # any segment that must say something again waits
    old = fill(stand, 24)
    while stand.segment_count < 2:
        old += fill(stand, 4)
    entry = stand.entry(2, persistent(b"moved, then settled"))
    stand.settle(1, old[:2])
    stand.turn()
    source = segment_of(entry)
    stand.settle(1, fill(stand, 120))
    stand.turn()
    assert source not in stand.queue(2).books.live
    home = max(stand.queue(2).books.live)
    stand.settle(1, fill(stand, 40))
    stand.turn()
    stand.settle(2, [entry])
    stand.turn()
    stand.settle(1, fill(stand, 80))
    stand.turn()
    names = [name for name in stand.files.list(JOURNAL) if name.endswith(".log")]
    assert f"{home:016x}.log" not in names
    stand.crash()
    again = stand.reopen()
    assert again.bodies(2) == []
    assert len(again.found[1]) == len(old) - 2
