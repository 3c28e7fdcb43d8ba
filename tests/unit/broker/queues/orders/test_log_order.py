"""The log: what its readers go by. The contract of orderings is tests/conformance/."""

from __future__ import annotations

import pytest

from hareline.broker.queues.entry import SETTLED, QueueEntry
from hareline.broker.queues.orders.log_order import DEAD_ALLOWED, INSERTED_MAX, LogOrder
from hareline.broker.queues.queue import Queue
from hareline.message import UNWRITTEN
from hareline.storage.interface import SPOOLED
from tests.support.messages import ARRIVAL_MS, make_message


@pytest.fixture
def log() -> LogOrder:
    return LogOrder()


def fill(log: LogOrder, queue: Queue, count: int) -> list[QueueEntry]:
    """So many entries more, one arriving each second."""
    entries = []
    for _ in range(count):
        offset = len(log.entries)
        message = make_message(b"%d" % offset)
        message.arrival_ms = ARRIVAL_MS + 1000 * offset
        entries.append(QueueEntry(queue, message, offset))
        log.add(entries[-1])
    return entries


def settle(log: LogOrder, entries: list[QueueEntry]) -> None:
    for entry in entries:
        entry.state = SETTLED
        log.discard(entry)


def test_an_offset_is_found_also_where_it_is_gone(log: LogOrder, queue: Queue) -> None:
    entries = fill(log, queue, 200)
    settle(log, entries[:150])
    assert log.entries[log.index_of(160)] is entries[160]
    assert log.entries[log.index_of(3)].offset <= 150
    assert log.index_of(200) == len(log.entries)


@pytest.mark.parametrize(("after_ms", "offset"), [(-1, 0), (0, 0), (1, 1), (5000, 5), (9000, 9)])
def test_an_instant_is_found(log: LogOrder, queue: Queue, after_ms: int, offset: int) -> None:
    fill(log, queue, 10)
    assert log.index_since(ARRIVAL_MS + after_ms) == offset


def test_an_instant_behind_the_last_is_the_end(log: LogOrder, queue: Queue) -> None:
    fill(log, queue, 10)
    assert log.index_since(ARRIVAL_MS + 9001) == 10


def test_settled_entries_stay_until_they_are_the_majority(log: LogOrder, queue: Queue) -> None:
    entries = fill(log, queue, 100)
    version = log.version
    settle(log, entries[: 50 + DEAD_ALLOWED // 2])
    assert len(log.entries) == 100
    assert log.version == version
    assert len(log) == 50 - DEAD_ALLOWED // 2
    settle(log, entries[50 + DEAD_ALLOWED // 2 : 51 + DEAD_ALLOWED // 2])
    assert len(log.entries) == len(log) == 49 - DEAD_ALLOWED // 2
    assert log.version != version


def test_what_a_log_holds_is_bounded_by_what_lives(log: LogOrder, queue: Queue) -> None:
    offset = 0
    for _ in range(50):
        entries = []
        for _ in range(100):
            entries.append(QueueEntry(queue, make_message(b"x"), offset))
            log.add(entries[-1])
            offset += 1
        settle(log, entries)
        assert len(log.entries) <= 100 + DEAD_ALLOWED + 1
    assert len(log) == 0
    assert log.peek() is None


def test_add_is_good_for_ever(log: LogOrder, queue: Queue) -> None:
    add = log.add
    entries = fill(log, queue, 200)
    settle(log, entries)
    log.take(10)
    late = QueueEntry(queue, make_message(b"late"), 200)
    add(late)
    assert log.peek() is late


def test_what_was_held_takes_its_own_place(log: LogOrder, queue: Queue) -> None:
    messages = [QueueEntry(queue, make_message(b"%d" % offset), offset) for offset in range(5)]
    for offset in (0, 2, 4):
        log.add(messages[offset])
    version = log.version
    log.restore([messages[3], messages[1]])
    assert log.entries == messages
    assert log.version != version


def test_taking_some_at_a_time_moves_the_rest_only_as_often_as_it_has_halved(
    log: LogOrder, queue: Queue
) -> None:
    """All that a deep queue has, taken in shares, is work in proportion to what it has."""
    entries = fill(log, queue, 10_000)
    settle(log, entries[3::10])
    expected = [entry for entry in entries if entry.state != SETTLED]
    taken: list[QueueEntry] = []
    moved, version = 0, log.version
    while some := log.take(10):
        taken += some
        assert len(log) == len(expected) - len(taken)
        assert log.peek() is (expected[len(taken)] if len(log) else None)
        assert not set(map(id, some)) & set(map(id, log.entries))  # they can be freed
        if log.version != version:
            moved, version = moved + len(log.entries), log.version
    assert taken == expected
    assert moved <= len(entries)


def test_what_was_taken_comes_back_to_its_place_and_readers_find_it(
    log: LogOrder, queue: Queue
) -> None:
    entries = fill(log, queue, 10)
    taken = log.take(3)
    assert log.index_of(0) == log.index_of(3)
    assert log.entries[log.index_since(0)] is entries[3]
    assert list(log) == entries[3:]
    settle(log, entries[4:6])
    late = fill(log, queue, 1)
    log.restore(taken[1:])
    assert list(log) == [*entries[1:4], *entries[6:], *late]
    assert log.peek() is entries[1]
    assert log.take(2) == entries[1:3]
    older = [QueueEntry(queue, make_message(), offset) for offset in range(-INSERTED_MAX, 0)]
    log.restore([*taken, *older])
    assert list(log) == [*older, *entries[:4], *entries[6:], *late]


def test_the_least_is_the_oldest_that_lives(log: LogOrder, queue: Queue) -> None:
    entries = fill(log, queue, 10)
    settle(log, entries[:3])
    assert log.least() is entries[3]


# ------------------------------------------------------------------- reads of ranges


def test_a_range_has_offsets_and_positions_of_what_is_there(log: LogOrder, queue: Queue) -> None:
    entries = fill(log, queue, 10)
    for entry in entries:
        entry.message.position = 1000 + entry.offset
    entries[3].message.position = UNWRITTEN
    entries[4].message.position = SPOOLED + 7
    settle(log, [entries[0], entries[6]])
    offsets, positions = log.positions(2, 8)
    assert (offsets.typecode, positions.typecode) == ("Q", "Q")
    assert list(offsets) == [2, 3, 4, 5, 7]
    assert list(positions) == [1002, 0, 0, 1005, 1007]
    assert [entry.offset for entry in log.entries_between(5, 9)] == [5, 7, 8]
    assert [list(column) for column in log.positions(8, 8)] == [[], []]
    assert list(log.positions(0, 100)[0]) == [1, 2, 3, 4, 5, 7, 8, 9]
    assert list(log.positions(50, 100)[0]) == []


def test_its_first_offset_is_that_of_the_first_live_entry(log: LogOrder, queue: Queue) -> None:
    firsts = [log.first_offset]
    entries = fill(log, queue, 3)
    firsts.append(log.first_offset)
    settle(log, entries[:2])
    firsts.append(log.first_offset)
    settle(log, entries[2:])
    firsts.append(log.first_offset)
    assert firsts == [None, 0, 2, None]


def test_an_instant_is_that_of_a_live_entry(log: LogOrder, queue: Queue) -> None:
    entries = fill(log, queue, 10)
    settle(log, entries[4:6])
    assert log.offset_since(ARRIVAL_MS + 3001) == 6
    assert log.offset_since(ARRIVAL_MS) == 0
    assert log.offset_since(ARRIVAL_MS + 9001) is None
