"""What is gathered of a queue while the journal is read: levels, and how much is live."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.errors import StoreError
from hareline.message import dead_letter
from hareline.storage.journal.format.message import MOVED
from hareline.storage.recovery.assembly import LiveEntries
from hareline.storage.recovery.live_entries import LiveEntryScan
from hareline.storage.recovery.queue_contents import EXPIRES, LEVEL_SHIFT, SIZE_MASK, KnownQueue
from tests.support.journals import JournalBuilder, message_payload, settle_payload
from tests.support.messages import make_message
from tests.support.scans import MESSAGE_OF_3, QUEUES, WITH_LEVELS, P, Q, entry, read_by, scanned


class TestLevels:
    def entry(self, priority: int | None, *places: tuple[int, int], flags: int = 0) -> Any:
        return message_payload(make_message(b"abc", priority=priority), *places, flags=flags)

    def levels(self, found: LiveEntries, queue_id: int = Q) -> list[int]:
        return [size >> LEVEL_SHIFT for size in found.contents[queue_id].sizes]

    def test_the_size_has_the_level_where_the_queue_has_priorities(
        self, journal: JournalBuilder
    ) -> None:
        priorities = (3, None, 4, 5, 255, 0)
        journal.batch(*(self.entry(each, (Q, at)) for at, each in enumerate(priorities)))
        found, _ = scanned(journal, WITH_LEVELS)
        assert self.levels(found) == [3, 0, 4, 4, 4, 0]
        assert [size & SIZE_MASK for size in found.contents[Q].sizes] == [3] * 6
        assert found.contents[Q].has_levels
        assert not found.contents[P].has_levels

    def test_a_message_of_several_queues_has_a_level_in_each_of_them(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(self.entry(2, (P, 0), (Q, 0)))
        found, _ = scanned(journal, WITH_LEVELS)
        assert (self.levels(found), list(found.contents[P].sizes)) == ([2], [3])

    def test_a_level_stands_beside_a_time_to_live_and_a_history(
        self, journal: JournalBuilder
    ) -> None:
        expiring = make_message(b"abc", priority=1).expiring_at(5)
        dead = make_message(b"abc", priority=4)
        letter = dead_letter(dead, dead.property_octets, dead.address, 0, history_size=7)
        journal.batch(message_payload(expiring, (Q, 0)), message_payload(letter, (Q, 1)))
        found, _ = scanned(journal, WITH_LEVELS)
        assert list(found.contents[Q].sizes) == [
            1 << LEVEL_SHIFT | EXPIRES | 3,
            4 << LEVEL_SHIFT | 3,
        ]
        assert found.contents[Q].expiring_count == 1

    def test_it_goes_along_with_what_was_moved_and_stays_with_what_is_left(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(*(self.entry(each % 5, (Q, each)) for each in range(10)))
        journal.begin(2)
        journal.batch(self.entry(3, (Q, 3), flags=MOVED), settle_payload((Q, 4, 5)))
        found, _ = scanned(journal, WITH_LEVELS)
        assert list(found.contents[Q].offsets) == [0, 1, 2, 3, 9]
        assert self.levels(found) == [0, 1, 2, 3, 4]

    def test_properties_that_end_before_the_priority_are_told(
        self, journal: JournalBuilder
    ) -> None:
        whole = make_message(b"abc", priority=1)
        message = whole.replace(properties=whole.property_octets[:2])
        journal.batch(message_payload(message, (Q, 0)))
        with pytest.raises(StoreError, match=r"MESSAGE record: cannot decode .* priority"):
            scanned(journal, WITH_LEVELS)


class TestLoadedCount:
    def test_it_follows_what_is_read_of_queues_that_need_objects(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(
            *(entry(Q, each) for each in range(5)), entry(P, 0), settle_payload((Q, 1, 2))
        )
        loaded = {Q: KnownQueue("q", is_loaded=True), P: KnownQueue("p")}
        scan = read_by(LiveEntryScan(loaded), journal)
        assert scan.loaded_count == 3

    def test_elsewhere_it_counts_what_expires(self, journal: JournalBuilder) -> None:
        expiring = MESSAGE_OF_3.expiring_at(5)
        journal.batch(entry(Q, 0), message_payload(expiring, (Q, 1)))
        assert read_by(LiveEntryScan(QUEUES), journal).loaded_count == 1
