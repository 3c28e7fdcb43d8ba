"""The log: what its readers go by. The contract of orderings is tests/conformance/."""

from __future__ import annotations

import pytest

from hareline.message import UNWRITTEN
from hareline.queues.core.entry import SETTLED, QueueEntry
from hareline.queues.orders import log_order
from hareline.queues.orders.log_order import DEAD_ALLOWED, INSERTED_MAX, LogOrder
from hareline.queues.queue import Queue
from tests.support.deep_queues import WINDOW, deep_log, make_windows_small, publish
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
    moved, cut_count = 0, log.cut_count
    while some := log.take(10):
        taken += some
        assert len(log) == len(expected) - len(taken)
        assert log.peek() is (expected[len(taken)] if len(log) else None)
        assert not set(map(id, some)) & set(map(id, log.entries))  # they can be freed
        if log.cut_count != cut_count:
            moved, cut_count = moved + len(log.entries), log.cut_count
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


# ------------------------------------------------------------------ what bulk reads go by


def test_an_empty_log_has_no_offsets(log: LogOrder) -> None:
    assert log.first_offset is log.last_offset is log.first_arrival_ms is None
    assert log.offset_since(0) is None
    assert [list(column) for column in log.positions(0, 100)] == [[], []]


def test_offsets_positions_and_instants_of_what_lives(log: LogOrder, queue: Queue) -> None:
    entries = fill(log, queue, 10)
    for entry in entries[:8]:
        entry.message.position = 1000 + entry.offset
    entries[8].message.position = UNWRITTEN
    settle(log, [entries[0], entries[3], entries[9]])
    assert (log.first_offset, log.last_offset) == (1, 8)
    assert log.first_arrival_ms == ARRIVAL_MS + 1000
    assert [list(column) for column in log.positions(2, 100)] == [
        [2, 4, 5, 6, 7, 8],
        [1002, 1004, 1005, 1006, 1007, 0],
    ]
    assert list(log.positions(0, 5)[0]) == [1, 2, 4]
    assert log.offset_since(ARRIVAL_MS + 2001) == 4
    assert log.offset_since(ARRIVAL_MS + 8001) is None


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_positions_come_in_shares(
    log: LogOrder, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_order, "POSITIONS_AT_ONCE", 4)
    fill(log, queue, 10)
    assert list(log.positions(1, 9)[0]) == [1, 2, 3, 4]
    assert list(log.positions(5, 9)[0]) == [5, 6, 7, 8]


def test_pages_and_the_window_are_one_log(monkeypatch: pytest.MonkeyPatch) -> None:
    make_windows_small(monkeypatch)
    paged, log = deep_log(40)
    assert paged.ledger is not None
    assert len(log.entries) == WINDOW
    offsets, positions = log.positions(0, 100)
    assert dict(zip(offsets, positions, strict=True)) == paged.ledger.living
    assert (log.first_offset, log.last_offset, len(log)) == (0, 39, 40)
    assert [entry.offset for entry in log.entries_from(25)] == list(range(25, 40))
    assert [entry.offset for entry in log.take(35)] == list(range(35))
    assert log.first_offset == 35


def test_paging_out_keeps_the_places_of_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    make_windows_small(monkeypatch)
    paged, log = deep_log(20)
    version, place = log.version, log.index_of(15) + log.cut_count
    publish(paged, 2)
    paged.settle_down()
    assert log.version == version
    assert log.entries[place - log.cut_count].offset == 15


def test_a_log_that_keeps_its_entries_has_no_pages() -> None:
    assert LogOrder(is_paged=False).paged is None
