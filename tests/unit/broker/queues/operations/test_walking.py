"""Walks over queues whose lane has parked entries, and messages that are read together."""

from __future__ import annotations

import pytest

from hareline.broker.queues.books import settle_in_place
from hareline.broker.queues.operations import walking
from hareline.broker.queues.operations.walking import read_together, standing, walk
from hareline.broker.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import declare
from tests.unit.broker.queues.operations.test_moving import Stand


@pytest.mark.parametrize("is_backwards", [False, True])
def test_parked_entries_are_shown_in_their_places(
    monkeypatch: pytest.MonkeyPatch, is_backwards: bool
) -> None:
    monkeypatch.setattr(walking, "SORTED_AT_ONCE", 4)
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-max-priority": 3})
    consumer = RecordingConsumer(queue, selector=compile_selector("n = 5"), acknowledges=False)
    queue.add_consumer(consumer)
    stand.publish(queue, 20)
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


def test_a_parked_entry_can_be_settled_in_its_place() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-message-group-key": "g"})
    consumer = RecordingConsumer(queue, prefetch_count=1)
    queue.add_consumer(consumer)
    stand.publish(queue, 9)
    (entry,) = [each for each in queue.lane.parking.entries() if each.offset == 3][:1] or [
        each for each in queue.lane.ready_entries() if each.offset == 3
    ]
    there = standing(queue, entry)
    assert there is entry
    settle_in_place(queue, [there])
    assert standing(queue, entry) is None
    assert queue.ready_count == 7
    assert 3 not in [each.offset for each in queue.lane.ready_entries()]


def test_parts_are_bounded_by_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "READ_AT_ONCE_BYTES", 7)
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.publish(queue, 7)
    parts = list(read_together(queue, queue.lane.ready_entries()))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert list(read_together(queue, [])) == []
