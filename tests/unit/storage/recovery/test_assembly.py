"""No settled entry comes back, of moved ones the newest counts, deliveries and levels show."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.errors import StoreError
from hareline.message import dead_letter
from hareline.storage.journal.format.frame import MESSAGE
from hareline.storage.journal.format.message import (
    LARGE,
    MOVED,
    UNCOUNTED,
    WAS_DELIVERED,
    MessageRecord,
)
from hareline.storage.journal.format.positions import segment_of
from hareline.storage.recovery.assembly import LiveEntries
from hareline.storage.recovery.live_entries import LiveEntryScan
from hareline.storage.recovery.queue_contents import EXPIRES, LEVEL_SHIFT, SIZE_MASK, KnownQueue
from tests.support.encoders import encode_message
from tests.support.journals import (
    JournalBuilder,
    checkpoint_payload,
    clean_payload,
    cover_payload,
    message_payload,
    part_payload,
    return_payload,
    settle_payload,
)
from tests.support.messages import make_message
from tests.support.scans import (
    DELETED,
    MESSAGE_OF_3,
    QUEUES,
    WITH_LEVELS,
    P,
    Q,
    entry,
    read_by,
    runs,
    scanned,
)

PERHAPS = 1 | UNCOUNTED  # the delivery count of what may have been delivered


def test_settled_entries_are_gone_and_both_segments_are_known(journal: JournalBuilder) -> None:
    journal.batch(*(entry(Q, offset) for offset in range(6)))
    journal.batch(settle_payload((Q, 1, 1)))
    journal.begin(2)
    journal.batch(entry(Q, 6), entry(Q, 7), settle_payload((Q, 2, 1), (Q, 4, 3)))
    found, _ = scanned(journal)
    assert list(found.contents[Q].offsets) == [0, 3, 7]
    assert found.queues[Q].live == {1: 2, 2: 1}
    assert runs(found) == {1: {1: [Q, 1, 1], 2: [Q, 2, 1, Q, 4, 2]}, 2: {2: [Q, 6, 1]}}
    assert not found.interrupted


def test_runs_that_follow_one_another_are_one(journal: JournalBuilder) -> None:
    journal.batch(*(entry(Q, offset) for offset in range(6)))
    for offset in range(5):
        journal.batch(settle_payload((Q, offset, 1)))
    found, _ = scanned(journal)
    assert runs(found) == {1: {1: [Q, 0, 5]}}


def test_settles_of_what_is_not_there_any_more_matter_to_offsets_alone(
    journal: JournalBuilder,
) -> None:
    journal.batch(settle_payload((Q, 3, 2), (DELETED, 0, 9)), entry(P, 0))
    found, _ = scanned(journal)
    assert not found.contents[Q]
    assert found.queues[Q].next_offset == 5
    assert runs(found) == {}


def test_of_a_moved_entry_the_newest_record_counts(journal: JournalBuilder) -> None:
    journal.batch(*(entry(Q, offset) for offset in range(4)))
    journal.begin(2)
    moved = journal.batch(entry(Q, 1, flags=MOVED), entry(Q, 4), entry(Q, 2, flags=MOVED))
    found, _ = scanned(journal)
    contents = found.contents[Q]
    assert list(contents.offsets) == [0, 1, 2, 3, 4]
    assert [segment_of(position) for position in contents.positions] == [1, 2, 2, 1, 2]
    assert list(contents.positions)[1:3] == [moved[0], moved[2]]
    assert found.queues[Q].live == {1: 2, 2: 3}
    assert runs(found) == {1: {0: [Q, 1, 2]}}
    assert found.interrupted == {1}


def test_a_moved_entry_that_was_settled_does_not_come_back_from_its_old_place(
    journal: JournalBuilder,
) -> None:
    journal.batch(entry(Q, 0), entry(Q, 1))
    journal.begin(2)
    journal.batch(entry(Q, 0, flags=MOVED))
    journal.batch(settle_payload((Q, 0, 1)))
    found, _ = scanned(journal)
    assert list(found.contents[Q].offsets) == [1]
    assert found.queues[Q].live == {1: 1}
    assert found.interrupted == {1}


class TestDeliveries:
    def test_below_a_cover_everything_may_have_been_delivered(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(*(entry(Q, offset) for offset in range(4)), cover_payload((Q, 2), (P, 9)))
        # differs: redelivered-early
        journal.batch(settle_payload((Q, 0, 1)))
        found, _ = scanned(journal)
        assert found.contents[Q].delivery_counts == {1: PERHAPS}
        assert found.queues[Q].returns == {1: (PERHAPS, 0)}

    def test_one_delivered_before_it_was_written_has_been_delivered(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(entry(Q, 0, marks=WAS_DELIVERED), entry(Q, 1))
        found, _ = scanned(journal)
        assert found.contents[Q].delivery_counts == {0: PERHAPS}
        assert found.queues[Q].returns == {0: (PERHAPS, 0)}

    def test_a_count_that_is_recorded_is_that_count(self, journal: JournalBuilder) -> None:
        journal.batch(entry(Q, 0), entry(Q, 1), entry(Q, 2, 5), entry(Q, 3))
        journal.batch(return_payload((Q, 0, 2), (Q, 3, 1), (DELETED, 0, 1)))
        journal.begin(2)
        journal.batch(return_payload((Q, 0, 3)), cover_payload((Q, 4)), settle_payload((Q, 3, 1)))
        found, _ = scanned(journal)
        assert found.contents[Q].delivery_counts == {0: 3, 1: PERHAPS, 2: 5}
        assert found.queues[Q].returns == {0: (3, 2), 1: (PERHAPS, 0)}

    def test_after_an_orderly_stop_only_what_is_recorded_counts(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(entry(Q, 0, marks=WAS_DELIVERED), entry(Q, 1), cover_payload((Q, 2)))
        journal.batch(return_payload((Q, 0, 1)), clean_payload())
        found, _ = scanned(journal)
        assert found.contents[Q].delivery_counts == {0: 1}
        assert found.queues[Q].returns == {0: (1, 1)}

    def test_what_comes_after_an_orderly_stop_counts_again(self, journal: JournalBuilder) -> None:
        journal.batch(entry(Q, 0, marks=WAS_DELIVERED), clean_payload())
        journal.batch(entry(Q, 1, marks=WAS_DELIVERED))
        found, _ = scanned(journal)
        assert found.contents[Q].delivery_counts == {1: PERHAPS}

    def test_a_checkpoint_says_what_is_void_and_which_covers_hold(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(entry(Q, 0, marks=WAS_DELIVERED), entry(P, 0), cover_payload((P, 1)))
        (late,) = journal.batch(entry(Q, 1, marks=WAS_DELIVERED))
        journal.begin(2)
        journal.batch(checkpoint_payload(late, (Q, 50, 0), (DELETED, 3, 3)), entry(Q, 2))
        found, _ = scanned(journal)
        assert found.contents[Q].delivery_counts == {1: PERHAPS}
        assert found.contents[P].delivery_counts == {}
        assert found.queues[Q].next_offset == 50

    def test_a_checkpoint_brings_the_covers_of_segments_that_are_gone(
        self, journal: JournalBuilder
    ) -> None:
        journal.batch(checkpoint_payload(0, (Q, 3, 2)), *(entry(Q, each) for each in range(4)))
        found, _ = scanned(journal)
        assert found.contents[Q].delivery_counts == {0: PERHAPS, 1: PERHAPS}


def test_entries_of_a_transaction_without_an_end_are_no_more(journal: JournalBuilder) -> None:
    journal.batch(entry(Q, 0), entry(Q, 1), part_payload(1, (Q, 1, 1)))
    journal.begin(2)
    journal.batch(checkpoint_payload(0, transactions=(1,)))
    journal.batch(
        *(entry(Q, offset) for offset in range(2, 7)),
        entry(P, 0, 1, WAS_DELIVERED),
        part_payload(1, (Q, 2, 2), (Q, 5, 2), (P, 0, 1), (DELETED, 0, 1)),
    )
    found, _ = scanned(journal)
    assert list(found.contents[Q].offsets) == [0, 4]
    assert found.queues[Q].undone == [(1, 1, 2), (2, 2, 4), (2, 5, 7)]
    assert found.queues[Q].live == {1: 2, 2: 5}  # until they are settled
    assert found.queues[Q].next_offset == 7
    assert found.queues[P].undone == [(2, 0, 1)]
    assert found.contents[P].delivery_counts == {}


def test_what_was_settled_anyway_is_not_undone(journal: JournalBuilder) -> None:
    journal.batch(*(entry(Q, offset) for offset in range(4)), part_payload(1, (Q, 0, 4)))
    journal.batch(settle_payload((Q, 1, 2)))
    found, _ = scanned(journal)
    assert found.queues[Q].undone == [(1, 0, 1), (1, 3, 4)]
    assert list(found.contents[Q].offsets) == []


def test_the_large_bodies_of_what_is_undone_are_let_go_by_the_store(
    journal: JournalBuilder,
) -> None:
    message = make_message()
    record = MessageRecord(
        LARGE, 0, 1, message.header_size, 9, [], 0, 0, (), 77, b"\0\0", message.content
    )
    octets = b"".join(encode_message(record._replace(entries=[(Q, 0, 0, 0)])))  # type: ignore[list-item]
    journal.batch((MESSAGE, octets), part_payload(1, (Q, 0, 1)))
    found, _ = scanned(journal)
    assert found.queues[Q].large == {0: 77}
    assert found.contents[Q].large == {}


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
