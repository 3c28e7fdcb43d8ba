"""Dead segments go at once, and what they said of living ones is said again."""

from __future__ import annotations

import pytest

from hareline.storage.journal.format.frame import FREE, RETURN, SETTLE
from hareline.storage.journal.format.records import decode_free
from hareline.storage.store.liveness import FREED_MAX
from tests.support.store_stand import JOURNAL, FakeEntry, StoreStand


def segments(stand: StoreStand) -> list[int]:
    return [int(name[:16], 16) for name in stand.files.list(JOURNAL) if name.endswith(".log")]


def fill(stand: StoreStand, queue_id: int, segments_more: int) -> list[FakeEntry]:
    """Entries until so many more segments have begun; none of them lives in the last one."""
    entries: list[FakeEntry] = []
    goal = stand.segment_count + segments_more
    while True:
        last = stand.entries(queue_id, 5, bytes(200))
        stand.turn()
        if stand.segment_count >= goal:
            stand.settle(queue_id, last)
            stand.turn()
            return entries
        entries += last


def test_a_segment_goes_with_its_last_entry_and_not_before() -> None:
    stand = StoreStand(segment_bytes=8192)
    first = fill(stand, 1, 1)
    fill(stand, 2, 2)
    before = segments(stand)
    stand.settle(1, first[:-10])
    stand.turn()
    assert segments(stand) == before
    stand.settle(1, first[-10:])
    stand.turn()
    assert segments(stand) == before[1:]
    assert [decode_free(payload) for payload in stand.kinds(FREE)] == [[before[0]]]
    stand.crash()
    assert list(stand.reopen().found[1]) == []


def test_a_file_goes_only_when_its_free_record_is_durable() -> None:
    stand = StoreStand(segment_bytes=8192, is_automatic=False)
    first = fill(stand, 1, 2)
    before = segments(stand)
    stand.settle(1, first)
    stand.store.write_pending()
    stand.syncer.step()
    stand.store.write_pending()  # the batch with the FREE record
    assert segments(stand) == before
    stand.crash()
    again = stand.reopen()
    assert again.bodies(1) == []


def test_the_tail_never_goes() -> None:
    stand = StoreStand(segment_bytes=8192)
    entries = stand.entries(1, 3)
    stand.turn()
    stand.settle(1, entries)
    stand.turn()
    assert segments(stand) == [1]


def test_settles_in_a_freed_segment_are_said_again() -> None:
    """Segment 2 is dead, but it alone says that half of segment 1 is settled."""
    stand = StoreStand(segment_bytes=8192)
    old = fill(stand, 1, 1)
    stand.settle(1, old[::3])
    stand.turn()
    middle = fill(stand, 2, 1)
    later = stand.entries(2, 1, bytes(200))
    stand.turn()
    stand.settle(2, middle)
    stand.turn()
    assert segments(stand) == [1, 3]
    assert stand.forwarded_bytes > 0
    stand.crash()
    again = stand.reopen()
    alive = [entry.offset for index, entry in enumerate(old) if index % 3]
    assert list(again.found[1]) == alive
    assert list(again.found[2]) == [later[0].offset]


def test_counts_in_a_freed_segment_are_said_again() -> None:
    stand = StoreStand(segment_bytes=8192)
    old = fill(stand, 1, 1)
    stand.acquire(1, old[:2])
    stand.release(1, old[:2])
    stand.turn()
    middle = fill(stand, 2, 1)
    before = len(stand.kinds(RETURN))
    stand.settle(2, middle)
    stand.turn()
    assert 2 not in segments(stand)
    assert len(stand.kinds(RETURN)) == before  # one has gone, one has come
    stand.store.close()
    assert stand.reopen().counts(1)[:3] == [1, 1, 0]


def test_what_was_said_of_a_deleted_queue_is_not_said_again() -> None:
    stand = StoreStand(segment_bytes=8192)
    shared = fill(stand, 1, 1)
    doomed = stand.entries(3, 20, bytes(20))
    stand.turn()
    stand.settle(3, doomed[::2])
    stand.turn()
    middle = fill(stand, 2, 1)
    stand.queue(3).forget()
    stand.settle(2, middle)
    stand.turn()
    assert not [run for run in stand.runs() if run[0] == 3]
    stand.crash()
    assert len(stand.reopen(queue_ids=(1, 2)).found[1]) == len(shared)


def test_a_segment_that_says_too_much_waits_for_those_of_which_it_speaks() -> None:
    stand = StoreStand(segment_bytes=8192)
    stand.compactor_off()
    old = []
    for _ in range(10):  # small ones, so that there are many in one segment
        old += stand.entries(1, 5, b"")
        stand.turn()
    fill(stand, 1, 1)
    stand.liveness().forward_limit_bytes = 200
    stand.settle(1, old[::2])  # 25 runs of 16 octets
    stand.turn()
    middle = fill(stand, 2, 2)
    stand.settle(2, middle)
    stand.turn()
    assert 2 in segments(stand)
    assert not any(2 in stand.queue(queue_id).books.live for queue_id in (1, 2))
    stand.liveness().forward_limit_bytes = 4096
    stand.settle(2, fill(stand, 2, 1))
    stand.turn()
    assert 2 not in segments(stand)
    stand.crash()
    assert [offset for offset in stand.reopen().found[1] if offset < 50] == [*range(1, 50, 2)]


def test_a_deleted_queue_frees_all_its_segments_in_pieces() -> None:
    stand = StoreStand(segment_bytes=4096)
    kept = stand.entries(2, 1)
    stand.turn()
    fill(stand, 1, FREED_MAX + 20)
    stand.queue(1).forget()
    stand.turn()
    freed = [decode_free(payload) for payload in stand.kinds(FREE)]
    assert max(map(len, freed)) == FREED_MAX
    assert stand.segment_count <= 3
    stand.crash()
    assert list(stand.reopen(queue_ids=(2,)).found[2]) == [kept[0].offset]


def test_dead_segments_of_an_earlier_run_go_with_the_first_turns() -> None:
    stand = StoreStand(segment_bytes=8192)
    entries = fill(stand, 1, 4)
    stand.settle(1, entries[:-1])
    stand.store.close()
    again = stand.reopen()
    again.turn()
    assert len(segments(again)) <= 2
    assert len(again.found[1]) == 1


@pytest.mark.parametrize("rounds", [30])
def test_files_are_recycled(rounds: int) -> None:
    stand = StoreStand(segment_bytes=8192)
    for _ in range(rounds):
        stand.settle(1, fill(stand, 1, 1))
        stand.turn()
    assert stand.store.freed_segments >= rounds - 1
    allocated = [each for each in stand.forgetful.operations if each.name == "allocate"]
    assert len(allocated) <= 4  # the first ones; all others were written before
    assert stand.kinds(SETTLE) != []
