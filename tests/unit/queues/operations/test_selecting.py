"""Which messages a selection finds, and that it looks no further than it has to."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.broker.operations import selecting, walking
from hareline.broker.operations.selecting import Selection, selected
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.deep_queues import deep, make_windows_small, paged_count
from tests.support.messages import make_message
from tests.support.vhosts import declare
from tests.unit.queues.operations.test_moving import TYPES, Stand


def found(queue: Queue, **selection: Any) -> list[int]:
    shares = selected(queue, Selection(**selection))
    return [each.entry.offset for share in shares for each in share]


@pytest.mark.parametrize("name", TYPES)
def test_offsets_selector_and_limit_go_together(name: str) -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments=TYPES[name])
    stand.fill(queue, 30)
    assert sorted(found(queue)) == list(range(30))
    assert found(queue, offsets=frozenset((7, 3, 99))) == [3, 7]
    assert found(queue, selector=compile_selector("n > 27")) == [28, 29]
    assert found(queue, offsets=frozenset((7, 28)), selector=compile_selector("n > 27")) == [28]
    assert found(queue, limit=3) == [0, 1, 2]
    assert found(queue, offsets=frozenset()) == []


def test_what_comes_later_is_not_meant() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 300)
    shares = selected(queue, Selection())
    count = len(next(shares))
    stand.fill(queue, 10)
    assert count + sum(len(share) for share in shares) == 300


def test_offsets_in_a_deep_queue_are_found_without_a_look_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_windows_small(monkeypatch)
    paged = deep(400)
    reads = sum(paged.content_store.runs)
    assert found(paged.queue, offsets=frozenset((5, 200, 399))) == [5, 200, 399]
    assert sum(paged.content_store.runs) - reads <= 16
    assert paged_count(paged) > 300


def test_a_message_whose_properties_are_not_valid_is_not_selected() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    broken = make_message(b"b", app_id="some")
    content = bytearray(broken.content)
    content[21] = 200  # the length of the short string
    broken.content = bytes(content)
    queue.put(broken)
    stand.fill(queue, 1)
    assert found(queue, selector=compile_selector("n = 0 OR n IS NULL")) == [1]
    assert found(queue) == [0, 1]


def test_however_many_offsets_have_left_others_get_turns() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 2)
    missing = frozenset(range(1_000, 2_000))
    shares = list(selected(queue, Selection(offsets=missing | {1})))
    assert len(shares) >= 1_000 // selecting.LOOKED_UP_AT_ONCE
    assert [each.entry.offset for share in shares for each in share] == [1]


def test_parked_messages_are_looked_at_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "SORTED_AT_ONCE", 4)
    stand = Stand()
    queue = declare(stand.vhost, "q")
    consumer = RecordingConsumer(queue, selector=compile_selector("n = 5"))
    queue.add_consumer(consumer)
    stand.fill(queue, 40)
    assert queue.lane.parking.count == 39
    shares = list(selected(queue, Selection(offsets=frozenset((38, 1, 99)))))
    assert len(shares) >= 9
    assert sorted(each.entry.offset for share in shares for each in share) == [1, 38]
