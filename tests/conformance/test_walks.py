"""Walks over every ordering: what an operator is shown is what consumers would get, undisturbed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from hareline.broker.operations.positions import position_of, rank_of
from hareline.broker.operations.walking import standing, walk
from hareline.message import TRANSIENT, UNWRITTEN, Table
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.orders import fifo, log_order, order
from hareline.queues.orders import sorted as sorted_order
from hareline.queues.orders.log_order import LogOrder
from tests.conformance.orderings import KEY, ORDERINGS, Ordering
from tests.support.content_stores import PagedQueue
from tests.support.deep_queues import make_windows_small
from tests.support.messages import make_message

COUNT = 120
KEYS: tuple[Any, ...] = (None, "a", "B", "10", "9", "\U0001f407", 7, -2.5, 10**6, True, "x" * 20)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_windows_small(monkeypatch)
    for module in (fifo, log_order, order, sorted_order):
        monkeypatch.setattr(module, "WALKED_AT_ONCE", 7)
    monkeypatch.setattr(sorted_order, "SORTED_AT_ONCE", 5)


class Stand:
    """A queue of this ordering with messages of all kinds, some of which left or came back."""

    def __init__(self, ordering: Ordering, *, is_paged: bool, seed: int) -> None:
        self.random = Random(seed)
        self.ordering = ordering
        made = ordering.make()
        self.paged = PagedQueue(made, is_durable=is_paged)
        self.queue = self.paged.queue
        if isinstance(made, LogOrder):
            self.queue.install(lane=ReadingLane(self.queue, made))
        self.places: dict[int, Any] = {}
        for _ in range(COUNT):
            self.publish(UNWRITTEN if is_paged else TRANSIENT)
        self.paged.turn.run()
        if is_paged:
            self.paged.settle_down()

    def publish(self, position: int) -> None:
        random = self.random
        key = random.choice(KEYS)
        if self.queue.last_values is not None:
            key = self.queue.next_offset  # or most would be replaced
        message = make_message(
            b"%04d" % self.queue.next_offset,
            priority=random.choice([None, *range(12)]),
            headers=Table({} if key is None else {KEY: key}),
        )
        message.position = position
        entry = QueueEntry(self.queue, message, self.queue.next_offset)
        self.places[entry.offset] = self.ordering.place(entry)
        if self.queue.needs_admission:
            assert self.queue.put(message)
        else:
            self.queue.enqueue(message)

    def shake(self) -> None:
        """Take some, bring some of them back, and settle the others."""
        if isinstance(self.queue.order, LogOrder):
            return
        taken = self.queue.acquire(self.random.randrange(40))
        self.random.shuffle(taken)
        middle = len(taken) // 2
        self.queue.release(taken[:middle])
        for entry in taken[middle:]:
            self.queue.settle(entry)
            del self.places[entry.offset]

    @property
    def expected(self) -> list[int]:
        return [offset for offset, _ in sorted_by_place(self.places)]


def sorted_by_place(places: dict[int, Any]) -> list[tuple[int, Any]]:
    return sorted(places.items(), key=lambda item: item[1])


def shown(shares: Iterator[list[QueueEntry]]) -> list[int]:
    return [entry.offset for share in shares for entry in share]


def stands(ordering: Ordering) -> Iterator[Stand]:
    for is_paged in (False, True):
        for seed in range(4):
            stand = Stand(ordering, is_paged=is_paged, seed=seed)
            for _ in range(seed):
                stand.shake()
            yield stand


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_a_walk_shows_what_consumers_would_get_and_changes_nothing(ordering: Ordering) -> None:
    for stand in stands(ordering):
        queue, expected = stand.queue, stand.expected
        before = (queue.ready_count, queue.ready_bytes, queue.delivered_count, queue.unacked_count)
        assert shown(walk(queue)) == expected
        assert shown(walk(queue, is_backwards=True)) == expected[::-1]
        bodies = {entry.offset: entry.message.body for share in walk(queue) for entry in share}
        assert bodies == {offset: b"%04d" % offset for offset in expected}
        after = (queue.ready_count, queue.ready_bytes, queue.delivered_count, queue.unacked_count)
        assert after == before
        if not isinstance(queue.order, LogOrder):
            assert [entry.offset for entry in queue.acquire(COUNT)] == expected


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_a_walk_goes_on_behind_any_place_that_it_has_shown(ordering: Ordering) -> None:
    for stand in stands(ordering):
        queue, expected = stand.queue, stand.expected
        ranks = {
            entry.offset: position_of(queue.order.rank(entry))
            for share in walk(queue)
            for entry in share
        }
        for at in range(0, len(expected), 11):
            after = rank_of(ranks[expected[at]], queue.order)
            assert shown(walk(queue, after)) == expected[at + 1 :]
            assert shown(walk(queue, after, is_backwards=True)) == expected[:at][::-1]


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_what_a_walk_has_shown_can_be_settled_where_it_stands(ordering: Ordering) -> None:
    for stand in stands(ordering):
        queue, random = stand.queue, stand.random
        for share in walk(queue, is_backwards=bool(random.randrange(2))):
            for entry in share:
                if random.randrange(3):
                    there = standing(queue, entry)
                    assert there is not None
                    queue.settle_in_place([there])
                    assert standing(queue, entry) is None
                    del stand.places[entry.offset]
        expected = stand.expected
        assert queue.ready_count == len(expected)
        assert queue.ready_bytes == 4 * len(expected)
        assert shown(walk(queue)) == expected
        if queue.ledger is not None:
            assert sorted_offsets(stand.paged) == sorted(expected)
        if not isinstance(queue.order, LogOrder):
            taken = queue.acquire(COUNT)
            assert [(each.offset, each.message.body) for each in taken] == [
                (offset, b"%04d" % offset) for offset in expected
            ]


def sorted_offsets(paged: PagedQueue) -> list[int]:
    """What the store still has of the queue."""
    living: dict[int, int] = paged.queue.ledger.living  # type: ignore[union-attr]
    return sorted(living)


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_a_walk_is_not_confused_by_what_happens_between_two_shares(ordering: Ordering) -> None:
    """What stays in its place all the time is shown, and nothing twice."""
    for stand in stands(ordering):
        queue = stand.queue
        seen: list[int] = []
        for share in walk(queue):
            seen += [entry.offset for entry in share]
            stand.shake()
            if stand.random.randrange(2):
                stand.publish(UNWRITTEN if queue.ledger is not None else TRANSIENT)
            stand.paged.turn.run()
        assert len(seen) == len(set(seen))
