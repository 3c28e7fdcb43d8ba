"""Walks over queues whose lane has parked entries, and the positions that they go by."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from hareline.broker.operations import walking
from hareline.broker.operations.positions import InvalidPosition, position_of, rank_of
from hareline.broker.operations.walking import parked_shares, read_together, standing, walk
from hareline.queues.core.groups import ParkedRun, Ranked
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.sorted import SortedOrder
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import declare
from tests.unit.queues.operations.test_moving import Stand

# ----------------------------------------------------------------------------------------- walking


@pytest.mark.parametrize("is_backwards", [False, True])
def test_parked_entries_are_shown_in_their_places(
    monkeypatch: pytest.MonkeyPatch, is_backwards: bool
) -> None:
    monkeypatch.setattr(walking, "SORTED_AT_ONCE", 4)
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-max-priority": 3})
    consumer = RecordingConsumer(queue, selector=compile_selector("n = 5"), acknowledges=False)
    queue.add_consumer(consumer)
    stand.fill(queue, 20)
    assert consumer.bodies == [b"005"]
    assert queue.lane.parking.count == 19
    shown = [entry.offset for share in walk(queue, is_backwards=is_backwards) for entry in share]
    expected = [offset for offset in range(20) if offset != 5]
    assert shown == (expected[::-1] if is_backwards else expected)
    after = queue.order.rank(queue.lane.ready_entries()[9])
    behind = [
        entry.offset for share in walk(queue, after, is_backwards=is_backwards) for entry in share
    ]
    assert behind == (expected[:9][::-1] if is_backwards else expected[10:])


class Parked(Stand):
    """Twenty messages, two of them taken, and three runs: for two consumers, for one, for none."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = declare(self.vhost, "q", arguments={"x-max-priority": 3})
        for selector in ("n < 12", "n < 8", "n = 100"):  # the last one waits, so all are placed
            self.add(selector)
        self.fill(self.queue, 20)
        assert self.queue.lane.parking.count == 18
        self.parked = [entry.offset for entry in self.queue.lane.ready_entries()]

    def add(self, selector: str) -> None:
        consumer = RecordingConsumer(
            self.queue, selector=compile_selector(selector), prefetch_count=1
        )
        self.queue.add_consumer(consumer)


def test_parked_entries_are_copied_run_by_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "SORTED_AT_ONCE", 2)
    stand = Parked()
    copied: list[ParkedRun] = []
    ranked = ParkedRun.ranked

    def noted(run: ParkedRun) -> list[Ranked]:
        copied.append(run)
        return ranked(run)

    monkeypatch.setattr(ParkedRun, "ranked", noted)
    shares = parked_shares(stand.queue)
    found = [entry.offset for _, entry in next(shares)]
    assert (len(found), len(copied)) == (2, 1)
    found += [entry.offset for share in shares for _, entry in share]
    assert sorted(found) == stand.parked
    assert len(copied) == 3


def test_small_runs_share_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "SORTED_AT_ONCE", 100)
    shares = list(parked_shares(Parked().queue))
    assert [len(share) for share in shares] == [18]


@pytest.mark.parametrize("is_backwards", [False, True])
@pytest.mark.parametrize("taken", [1, 4, 8])
def test_another_selector_amid_a_walk_hides_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, taken: int, is_backwards: bool
) -> None:
    """All is parked again then, in other runs."""
    monkeypatch.setattr(walking, "SORTED_AT_ONCE", 2)
    stand = Parked()
    shares = walk(stand.queue, is_backwards=is_backwards)
    shown = [entry.offset for _ in range(taken) for entry in next(shares)]
    stand.add("n = 200")
    stand.turn.run()
    assert stand.queue.lane.parking.count == 18
    shown += [entry.offset for share in shares for entry in share]
    assert shown == (stand.parked[::-1] if is_backwards else stand.parked)


def test_a_parked_entry_can_be_settled_in_its_place() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-message-group-key": "g"})
    consumer = RecordingConsumer(queue, prefetch_count=1)
    queue.add_consumer(consumer)
    stand.fill(queue, 9)
    (entry,) = [each for each in queue.lane.parking.entries() if each.offset == 3][:1] or [
        each for each in queue.lane.ready_entries() if each.offset == 3
    ]
    there = standing(queue, entry)
    assert there is entry
    queue.settle_in_place([there])
    assert standing(queue, entry) is None
    assert queue.ready_count == 7
    assert 3 not in [each.offset for each in queue.lane.ready_entries()]


def test_parts_are_bounded_by_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "READ_AT_ONCE_BYTES", 7)
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 7)
    parts = list(read_together(queue, queue.lane.ready_entries()))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert list(read_together(queue, [])) == []


# --------------------------------------------------------------------------------------- positions


RANKS: tuple[Any, ...] = (
    ((0,), 7),
    ((1, "text"), 0),
    ((1, ""), 1),
    ((1, "\ud83d\udc07 \udcff -"), 2),
    ((1, b"\x00\xff-"), 3),
    ((1, -5), 4),
    ((1, 0.1), 5),
    ((1, float("-inf")), 6),
    ((1, Decimal("-12.50")), 8),
)


@pytest.mark.parametrize("rank", RANKS, ids=str)
def test_a_rank_of_a_sorted_queue_is_the_same_again(rank: Any) -> None:
    assert rank_of(position_of(rank), SortedOrder("k")) == rank


@pytest.mark.parametrize("rank", [0, 5, 1 << 60])
def test_a_number_is_the_same_again(rank: int) -> None:
    assert rank_of(position_of(rank), FifoOrder()) == rank


@pytest.mark.parametrize("text", ["", "x", "-1", "1-s", "1.5", "٣", "9" * 50, "1-"])
def test_no_position_of_a_queue_by_offset(text: str) -> None:
    with pytest.raises(InvalidPosition, match="is not a position"):
        rank_of(text, FifoOrder())


@pytest.mark.parametrize(
    "text", ["1", "1-z", "1-s!", "1-i", "1-ix", "1-dNaN", "1-dx", "1-fx", "x-", "1-b=", "1-sgA=="]
)
def test_no_position_of_a_sorted_queue(text: str) -> None:
    with pytest.raises(InvalidPosition):
        rank_of(text, SortedOrder("k"))
