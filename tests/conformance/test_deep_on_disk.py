"""Deep queues over the real journal and spool, for every type of queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hareline.broker.vhost import VirtualHost
from hareline.message import TRANSIENT, UNWRITTEN, StoredMessage, Table
from hareline.queues.orders import window as paging
from hareline.queues.orders.window import set_spooling
from hareline.queues.queue import Queue
from hareline.storage.journal.files import Files
from hareline.storage.journal.syncer import InlineSyncer
from hareline.storage.store.durable import DurableStore
from hareline.storage.store.state import RecoveredState
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import make_vhost

COUNT = 3_000
BODY_BYTES = 200
WINDOW = 100

TYPES: dict[str, tuple[dict[str, Any], Callable[[int], Any]]] = {
    "fifo": ({}, lambda number: number),
    "priority": ({"x-max-priority": 9}, lambda number: (-(number * 7 % 10), number)),
    "sorted": ({"x-sort-key": "k"}, lambda number: (f"{number * 7 % 50:02}", number)),
    "last-value": ({"x-last-value-key": "all"}, lambda number: number),
    "expiring": ({"x-message-ttl": 10_000_000}, lambda number: number),
    "groups": ({"x-group-key": "k"}, lambda number: number),
}


class Disk:
    """A virtual host over a real store whose work is done when it is handed over."""

    def __init__(self, directory: Path) -> None:
        self.turn = ManualTurn()
        self.store = DurableStore(
            str(directory / "journal"),
            str(directory / "spool"),
            files=Files(),
            syncer=InlineSyncer(is_automatic=True),
            segment_bytes=1 << 17,
            sync="never",
        )
        self.store.start(RecoveredState())
        self.store.ask_for_turn = self.turn.arm
        self.turn.write_pending = self.store.write_pending
        self.vhost: VirtualHost = make_vhost(self.turn, store=self.store)

    def declare(self, arguments: dict[str, Any]) -> Queue:
        return self.vhost.declare_queue(
            "q", is_durable=True, is_auto_delete=False, owner=None, arguments=arguments
        )


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(paging, "WINDOW_ENTRIES", WINDOW)
    made = Disk(tmp_path)
    yield made
    made.store.close()


def body(number: int) -> bytes:
    return (b"%06d" % number).ljust(BODY_BYTES, b".")


def publish(disk: Disk, queue: Queue, first: int, end: int, position: int) -> None:
    for number in range(first, end):
        message = make_message(
            body(number),
            priority=number * 7 % 10,
            headers=Table({"k": f"{number * 7 % 50:02}"}),
        )
        message.position = position
        if queue.needs_admission:
            assert queue.put(message)
        else:
            queue.enqueue(message)
        if number % 50 == 0:
            disk.turn.run()
    disk.turn.run()


def left_in_memory(queue: Queue) -> int:
    """Entries whose message is there with its content."""
    order: Any = queue.order
    fifos = getattr(order, "fifos", None)
    if fifos is None:
        kept = list(order)
    else:
        kept = [entry for fifo in fifos for entry in (*fifo._line, *fifo.kept_entries())]
        kept += [entry for fifo in fifos if fifo._fresh is not fifo._line for entry in fifo._fresh]
    return sum(not isinstance(entry.message, StoredMessage) for entry in kept)


@pytest.mark.row("C4", "C8")
@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "transient"])
@pytest.mark.parametrize("name", TYPES)
def test_a_deep_queue_of_any_type_is_on_disk_and_in_order(
    disk: Disk, name: str, is_durable: bool
) -> None:
    arguments, place = TYPES[name]
    queue = disk.declare(arguments)
    position = UNWRITTEN if is_durable else TRANSIENT
    if not is_durable:
        set_spooling(disk.vhost.environment, [queue], True)
    publish(disk, queue, 0, COUNT, position)
    assert queue.ready_count == COUNT
    assert left_in_memory(queue) < COUNT // 4
    back = queue.acquire(500) if name != "groups" else []
    queue.release(back)
    consumer = RecordingConsumer(queue, prefetch_count=0)
    queue.add_consumer(consumer)
    disk.turn.run()
    expected = sorted(range(COUNT), key=place)
    assert consumer.bodies == [body(number) for number in expected]
    assert consumer.redelivered == [index < len(back) for index in range(COUNT)]
    consumer.ack()
    for _ in range(3):  # segments are freed in later turns
        disk.turn.arm()
        disk.turn.run()
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (0, 0, 0)
    assert disk.store.freed_segments > 0 or not is_durable


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "transient"])
def test_what_was_compacted_away_is_read_from_where_it_went(disk: Disk, is_durable: bool) -> None:
    """Most of another queue's messages go, so that the rest is moved to new segments."""
    position = UNWRITTEN if is_durable else TRANSIENT
    if not is_durable:
        set_spooling(disk.vhost.environment, (), True)
    queue = disk.declare({})
    other = disk.vhost.declare_queue(
        "other", is_durable=True, is_auto_delete=False, owner=None, arguments={}
    )
    for first in range(0, COUNT, 10):
        publish(disk, queue, first, first + 1, position)
        publish(disk, other, first, first + 9, position)
    other.purge()
    for _ in range(200):  # a step of compaction in each turn
        disk.turn.arm()
        disk.turn.run()
    numbers = list(range(0, COUNT, 10))
    assert [entry.message.body for entry in queue.acquire(COUNT)] == [body(n) for n in numbers]


@pytest.mark.parametrize("is_durable", [True, False], ids=["durable", "transient"])
def test_a_purge_of_a_deep_queue_frees_the_disk(disk: Disk, is_durable: bool) -> None:
    queue = disk.declare({})
    if not is_durable:
        set_spooling(disk.vhost.environment, [queue], True)
    publish(disk, queue, 0, COUNT, UNWRITTEN if is_durable else TRANSIENT)
    assert queue.purge() == COUNT
    publish(disk, queue, 0, 3, UNWRITTEN)
    assert [entry.message.body for entry in queue.acquire(5)] == [body(n) for n in range(3)]
    assert disk.store.freed_segments > 0 or not is_durable
