"""Places that are read from outside stay what they are until they are released."""

from __future__ import annotations

from array import array

from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.store.pinned import PinnedPlaces
from tests.support.store_stand import JOURNAL, FakeEntry, StoreStand


def places_of(stand: StoreStand) -> PinnedPlaces:
    return stand.store.pinned_places(JOURNAL, "/data/large")


def positions(entries: list[FakeEntry]) -> array[int]:
    return array("Q", [entry.message.position for entry in entries])


def segments(stand: StoreStand) -> set[int]:
    return {int(name[:16], 16) for name in stand.files.list(JOURNAL) if name.endswith(".log")}


def fill(stand: StoreStand, queue_id: int, count: int) -> list[FakeEntry]:
    entries: list[FakeEntry] = []
    while len(entries) < count:
        entries += stand.entries(queue_id, 5, bytes(200))
        stand.turn()
    return entries


def test_a_pinned_segment_is_freed_with_the_release_and_not_before() -> None:
    stand = StoreStand(segment_bytes=8192)
    entries = fill(stand, 1, 200)
    last = fill(stand, 2, 5)
    places = places_of(stand)
    first, second = places.pin(positions(entries[:20])), places.pin(positions(entries[:5]))
    pinned = {place >> OFFSET_BITS for place in first.places}
    before = segments(stand)
    stand.settle(1, entries)
    stand.turn()
    assert pinned <= segments(stand) < before
    places.release(first)
    stand.settle_down()
    assert {place >> OFFSET_BITS for place in second.places} <= segments(stand)
    places.release(second)
    places.release(second)  # without effect
    stand.settle_down()
    assert segments(stand).isdisjoint(pinned)
    stand.crash()
    again = stand.reopen()
    assert list(again.found[1]) == []
    assert list(again.found[2]) == [entry.offset for entry in last]


def test_none_is_freed_before_a_pinned_one_whose_records_were_moved() -> None:
    stand = StoreStand(segment_bytes=8192)
    entries = fill(stand, 1, 200)
    kept = entries[::10]
    places = places_of(stand)
    before = places.pin(positions(kept))
    assert list(before.places) == list(positions(kept))
    numbers = segments(stand)
    stand.settle(1, [entry for entry in entries if entry not in kept])
    stand.turn()
    stand.settle_down()
    assert stand.moved_bytes > 0
    assert {place >> OFFSET_BITS for place in before.places} <= segments(stand)
    now = places.pin(positions(kept))
    assert list(now.places) != list(before.places)
    places.release(before)
    stand.settle_down()
    assert not numbers <= segments(stand)
    stand.store.close()
    again = stand.reopen()
    assert list(again.found[1]) == [entry.offset for entry in kept]


def test_a_record_that_is_being_moved_is_read_where_it_was() -> None:
    stand = StoreStand(segment_bytes=8192, is_automatic=False)
    entries = fill(stand, 1, 200)
    kept = entries[::10]
    places = places_of(stand)
    stand.settle(1, [entry for entry in entries if entry not in kept])
    seen = set()
    for _ in range(200):
        stand.store.write_pending()
        end = stand.store.readable_position
        pinned = places.pin(positions(kept))
        assert max(pinned.places) < end
        assert {place >> OFFSET_BITS for place in pinned.places} <= segments(stand)
        seen.add(tuple(pinned.places))
        places.release(pinned)
        if not any(delay_s == 0.0 for delay_s, _ in stand.syncer.submitted):
            break
        stand.syncer.step()
    assert len(seen) > 1
