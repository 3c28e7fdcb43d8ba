"""What the records say is in the queues, of whatever journal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.errors import StoreError
from hareline.message import Message
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import MESSAGE
from hareline.storage.journal.format.message import MOVED
from hareline.storage.journal.format.positions import position_of, segment_of
from hareline.storage.journal.reader import JournalReader, ReadBatch
from hareline.storage.recovery.live_entries import LiveEntryScan
from hareline.storage.recovery.queue_contents import EXPIRES
from tests.support.examples import examples
from tests.support.journals import (
    JournalBuilder,
    checkpoint_payload,
    commit_payload,
    message_payload,
    part_payload,
    settle_payload,
)
from tests.support.messages import make_message
from tests.support.scans import DELETED, MESSAGE_OF_3, QUEUES, NoDamage, P, Q, entry, scanned


def test_nothing_at_all_is_every_queue_empty() -> None:
    found = LiveEntryScan(QUEUES).finish()
    assert set(found.queues) == {Q, P}
    assert found.queues[Q].next_offset == 0
    assert not found.contents[Q]


def test_entries_stand_in_the_order_of_their_offsets_with_place_and_size(
    journal: JournalBuilder,
) -> None:
    first, second = journal.batch(entry(Q, 0), entry(P, 7))
    third, _ = journal.batch(message_payload(make_message(), (Q, 1), (P, 8)), entry(DELETED, 0))
    found, scan = scanned(journal)
    assert list(found.contents[Q].offsets) == [0, 1]
    assert list(found.contents[Q].positions) == [first, third]
    assert list(found.contents[Q].sizes) == [3, 0]
    assert list(found.contents[P].positions) == [second, third]
    assert found.queues[Q].next_offset == 2
    assert found.queues[P].next_offset == 9
    assert found.queues[Q].live == {1: 2}
    assert set(found.contents) == {Q, P}
    assert scan.totals == {1: 5}


def test_a_time_to_live_shows_in_the_size(journal: JournalBuilder) -> None:
    journal.batch(message_payload(MESSAGE_OF_3.expiring_at(5), (Q, 0)), entry(Q, 1))
    found, _ = scanned(journal)
    assert list(found.contents[Q].sizes) == [3 | EXPIRES, 3]


def test_a_record_that_is_none_is_told(journal: JournalBuilder) -> None:
    position = position_of(1, 100)
    batch = ReadBatch(position, position, 0, 0, True, [(position, MESSAGE, memoryview(b"\0"))])
    with pytest.raises(StoreError, match="MESSAGE record is too short"):
        LiveEntryScan(QUEUES).take(batch)


Step = tuple[str, int, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from((Q, P)), st.just(0)),
        st.tuples(st.just("share"), st.just(Q), st.just(0)),
        st.tuples(st.just("settle"), st.sampled_from((Q, P)), st.integers(0, 50)),
        st.tuples(st.just("move"), st.sampled_from((Q, P)), st.integers(0, 50)),
        st.tuples(st.just("begin"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=examples(1.5))
@given(steps=STEPS)
def test_whatever_was_done_the_queues_hold_what_was_not_settled(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    journal = JournalBuilder(tmp_path_factory.mktemp("model") / "journal", 1 << 14)
    journal.begin(1)
    live: dict[int, dict[int, int]] = {Q: {}, P: {}}
    old: set[int] = set()
    next_offset = {Q: 0, P: 0}
    number = 1
    message = Message(MESSAGE_OF_3.address, MESSAGE_OF_3.content, MESSAGE_OF_3.header_size, 3, 1, 0)

    def place(*entries: tuple[int, int], flags: int = 0) -> None:
        (position,) = journal.batch(message_payload(message, *entries, flags=flags))
        for queue_id, offset in entries:
            live[queue_id][offset] = position

    for what, queue_id, choice in steps:
        if what == "begin":
            number += 1
            journal.begin(number)
            continue
        if what in {"add", "share"}:
            queue_ids = (Q, P) if what == "share" else (queue_id,)
            entries = [(each, next_offset[each]) for each in queue_ids]
            for each in queue_ids:
                next_offset[each] += 1
            place(*entries)
            continue
        if not live[queue_id]:
            continue
        offset = sorted(live[queue_id])[choice % len(live[queue_id])]
        if what == "settle":
            del live[queue_id][offset]
            journal.batch(settle_payload((queue_id, offset, 1)))
        else:
            if segment_of(live[queue_id][offset]) == number:  # only sealed ones are compacted
                number += 1
                journal.begin(number)
            old.add(segment_of(live[queue_id][offset]))
            place((queue_id, offset), flags=MOVED)
    found, _ = scanned(journal)
    journal.close()
    for queue_id, entries_by_offset in live.items():
        contents = found.contents[queue_id]
        offsets = sorted(entries_by_offset)
        assert list(contents.offsets) == offsets
        assert list(contents.positions) == [entries_by_offset[offset] for offset in offsets]
        assert len(contents.sizes) == len(offsets)
        segments = [segment_of(position) for position in contents.positions]
        assert found.queues[queue_id].live == {
            segment: segments.count(segment) for segment in set(segments)
        }
        assert found.queues[queue_id].next_offset == next_offset[queue_id]
        for segment, places in found.settled.items():
            for triples in places.values():
                for at in range(0, len(triples), 3):
                    if triples[at] == queue_id:
                        run = range(triples[at + 1], triples[at + 1] + triples[at + 2])
                        assert not [o for o in run if entries_by_offset.get(o, 0) >> 32 == segment]
    assert found.interrupted == old


def test_a_commit_makes_them_count(journal: JournalBuilder) -> None:
    journal.batch(entry(Q, 0), part_payload(1, (Q, 0, 1)), entry(Q, 1), part_payload(2, (Q, 1, 1)))
    journal.batch(entry(Q, 2), commit_payload(1))
    found, _ = scanned(journal)
    assert list(found.contents[Q].offsets) == [0, 2]
    assert found.queues[Q].undone == [(1, 1, 2)]


def test_a_checkpoint_that_does_not_name_it_makes_them_count(journal: JournalBuilder) -> None:
    journal.batch(entry(Q, 0), part_payload(1, (Q, 0, 1)), entry(Q, 1), part_payload(2, (Q, 1, 1)))
    journal.begin(2)
    journal.batch(checkpoint_payload(0, transactions=(2,)), entry(Q, 2), part_payload(3, (Q, 2, 1)))
    found, _ = scanned(journal)
    assert list(found.contents[Q].offsets) == [0]


def test_where_something_is_damaged_they_count_rather_than_being_lost(
    journal: JournalBuilder,
) -> None:
    journal.batch(entry(Q, 0), part_payload(1, (Q, 0, 1)))
    journal.batch(entry(Q, 1), part_payload(2, (Q, 1, 1)))
    scan = LiveEntryScan(QUEUES)
    reader = JournalReader(Files(), journal.directory, NoDamage())
    first, second = reader.batches()
    scan.take(first)
    scan.on_left_out()
    scan.take(second)
    reader.close()
    found = scan.finish()
    assert list(found.contents[Q].offsets) == [0]
    assert found.queues[Q].undone == [(1, 1, 2)]
