"""Pages of a queue: from either end, behind one another, by selector, bounded by octets."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.broker.operations.browsing import BrowsedPage, browse
from hareline.broker.operations.positions import InvalidPosition
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.deep_queues import deep, make_windows_small, paged_count, publish
from tests.support.vhosts import declare
from tests.unit.queues.operations.test_moving import TYPES, Stand

MANY_BYTES = 1 << 20


def page_of(queue: Queue, count: int = 10, **options: Any) -> tuple[list[bytes], str | None]:
    page = BrowsedPage()
    options.setdefault("max_bytes", MANY_BYTES)
    for _ in browse(queue, page, count=count, **options):
        pass
    found = [b"?" if each.message is None else each.message.body for each in page.found]
    return found, page.position


@pytest.mark.parametrize("is_backwards", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_pages_make_up_the_queue(name: str, is_backwards: bool) -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments=TYPES[name])
    stand.fill(queue, 47)
    expected = [entry.message.body for entry in queue.lane.ready_entries()]
    seen: list[bytes] = []
    position: str | None = None
    while True:
        found, position = page_of(queue, position=position, is_backwards=is_backwards)
        assert 0 < len(found) <= 10
        seen += found
        if position is None:
            break
    assert seen == (expected[::-1] if is_backwards else expected)


def test_a_page_ends_where_the_octets_are_used_up() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 10)
    found, position = page_of(queue, max_bytes=7)
    assert found == [b"000", b"001"]
    assert page_of(queue, max_bytes=0, position=position) == ([b"002"], "2")


def test_a_selector_looks_at_all_and_a_position_that_has_left_is_one() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q")
    stand.fill(queue, 30)
    found, position = page_of(queue, count=2, selector=compile_selector("n >= 20"))
    assert found == [b"020", b"021"]
    queue.purge()
    assert page_of(queue, position=position) == ([], None)


def test_a_position_of_another_queue_type_is_refused() -> None:
    stand = Stand()
    queue = declare(stand.vhost, "q", arguments={"x-sort-key": "k"})
    with pytest.raises(InvalidPosition):
        page_of(queue, position="17")


def test_the_end_of_a_deep_queue_is_read_without_what_is_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_windows_small(monkeypatch)
    paged = deep(400)
    before = paged_count(paged)
    assert before > 300
    reads = sum(paged.content_store.runs)
    found, position = page_of(paged.queue, count=10, is_backwards=True)
    assert found == [b"%04d" % number for number in range(399, 389, -1)]
    found, _ = page_of(paged.queue, count=10, position=position, is_backwards=True)
    assert found == [b"%04d" % number for number in range(389, 379, -1)]
    assert sum(paged.content_store.runs) - reads < 60
    assert paged_count(paged) == before  # and they are numbers as they were


def test_an_unreadable_message_is_left_out_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    make_windows_small(monkeypatch)
    paged = deep(60)
    publish(paged, 1)
    position = next(iter(paged.content_store.records))
    count = paged.queue.ready_count
    offset = 30
    broken = paged.queue.ledger.living[offset]  # type: ignore[union-attr]
    assert broken != position
    paged.content_store.broken.add(broken)
    found, _ = page_of(paged.queue, count=100)
    assert b"0030" not in found
    assert len(found) == count - 1
    assert paged.queue.ready_count == count
