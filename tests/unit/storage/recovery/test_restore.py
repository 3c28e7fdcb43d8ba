"""A virtual host is made of its definitions, and every message takes its own place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline.broker.vhost import VirtualHost
from hareline.errors import StoreError
from hareline.message import Message
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.ownership import ClientOwner
from hareline.queues.queue import Queue
from hareline.server.restore import VhostRecovery
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.memory import MemoryStore
from hareline.storage.recovery.queue_contents import QueueContents
from hareline.storage.recovery.reports import RecoveryProgress
from hareline.turn import Turn
from tests.support.messages import ARRIVAL_MS, make_message
from tests.support.recoveries import DictContentStore, KeepingListener
from tests.support.timers import ManualTimers
from tests.support.vhosts import forget_report


class Disk:
    """Definitions, and messages in a content store, from which a virtual host is restored."""

    def __init__(self, directory: Path) -> None:
        self.definitions = SqliteDefinitions(directory / FILE_NAME)
        self.content_store = DictContentStore()
        self.contents: dict[int, QueueContents] = {}
        self.next_offsets: dict[int, int] = {}
        self.listener = KeepingListener()
        self.timers = ManualTimers()

    def queue(self, name: str, next_offset: int = 0, **arguments: object) -> int:
        names = {key.replace("_", "-"): value for key, value in arguments.items()}
        queue_id = self.definitions.add_queue("/", name, is_auto_delete=False, arguments=names)
        self.next_offsets[queue_id] = next_offset
        self.contents[queue_id] = QueueContents()
        return queue_id

    def put(self, queue_id: int, offset: int, message: Message, delivery_count: int = 0) -> None:
        contents = self.contents[queue_id]
        message.position = len(self.content_store.messages) + 1
        self.content_store.messages[message.position] = message
        contents.offsets.append(offset)
        contents.positions.append(message.position)
        contents.sizes.append(message.size)
        if delivery_count:
            contents.delivery_counts[offset] = delivery_count
        self.next_offsets[queue_id] = max(self.next_offsets[queue_id], offset + 1)

    def restored(self) -> VirtualHost:
        vhost = VirtualHost(
            "/",
            Turn(lambda _: None),
            clock=self.timers.clock,
            timers=self.timers,
            report=forget_report,
            store=MemoryStore(),
            definitions=self.definitions,
        )
        self.progress = RecoveryProgress(self.listener.on_progress)
        recovery = VhostRecovery(
            vhost,
            self.definitions,
            self.next_offsets,
            self.contents,
            self.content_store,
            self.listener,
            self.progress,
        )
        recovery.restore_exchanges()
        recovery.restore_queues()
        recovery.restore_bindings()
        for _ in recovery.restore_messages():
            pass
        self.recovery = recovery
        return vhost


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.definitions.close()


def bodies(queue: Queue) -> list[bytes]:
    return [bytes(entry.message.body) for entry in queue.lane.ready_entries()]


def test_a_queue_of_a_client_id_is_that_client_id_s_again(disk: Disk) -> None:
    add = disk.definitions.add_queue
    add("/", "theirs", is_auto_delete=False, arguments={}, owner="client-1")
    add("/", "everybody's", is_auto_delete=False, arguments={})
    queues = disk.restored().queues
    assert queues["theirs"].owner == ClientOwner("client-1")
    assert queues["everybody's"].owner is None


def taken(queue: Queue) -> QueueEntry:
    entry = queue.get()
    assert entry is not None
    return entry


def test_definitions_become_exchanges_queues_and_bindings(disk: Disk) -> None:
    disk.definitions.add_exchange(
        "/", "x", "topic", is_auto_delete=False, is_internal=False, arguments={"a": 1}
    )
    disk.definitions.add_exchange(
        "/", "y", "fanout", is_auto_delete=True, is_internal=True, arguments={}
    )
    disk.queue("q", x_max_priority=3)
    disk.definitions.bind("/", "x", "queue", "q", "a.#", {})
    disk.definitions.bind("/", "x", "exchange", "y", "b", {})
    vhost = disk.restored()
    x, y = vhost.exchanges["x"], vhost.exchanges["y"]
    assert (x.type_name, x.is_durable, x.arguments) == ("topic", True, {"a": 1})
    assert (y.is_auto_delete, y.is_internal) == (True, True)
    assert vhost.queues["q"].is_durable
    found, _, _ = vhost.routing.route(x, ["a.b"], make_message())
    assert [queue.name for queue in found] == ["q"]
    recovery = disk.recovery
    assert (recovery.exchange_count, recovery.binding_count, len(recovery.queues)) == (2, 2, 1)
    assert disk.listener.impossible == []


def test_messages_are_in_their_queue_with_offsets_and_counts(disk: Disk) -> None:
    queue_id = disk.queue("q", next_offset=40)
    disk.put(queue_id, 5, make_message(b"five"), delivery_count=2)
    disk.put(queue_id, 9, make_message(b"nine"))
    queue = disk.restored().queues["q"]
    assert (queue.next_offset, queue.ready_count, queue.ready_bytes) == (40, 2, 8)
    first, second = taken(queue), taken(queue)
    assert (first.offset, first.delivery_count, first.message.body) == (5, 2, b"five")
    assert (second.offset, second.delivery_count) == (9, 0)
    assert disk.recovery.message_count == 2
    assert disk.contents == {}


def test_more_messages_than_one_reading_come_in_their_order(disk: Disk) -> None:
    queue_id = disk.queue("q")
    for offset in range(1300):
        disk.put(queue_id, offset, make_message(b"%d" % offset))
    assert bodies(disk.restored().queues["q"]) == [b"%d" % offset for offset in range(1300)]


def test_priorities_and_last_values_are_as_they_were(disk: Disk) -> None:
    by_priority = disk.queue("p", x_max_priority=9)
    for offset, priority in enumerate((1, 9, 5)):
        disk.put(by_priority, offset, make_message(b"%d" % priority, priority=priority))
    by_value = disk.queue("v", x_last_value_key="k")
    disk.put(by_value, 3, make_message(b"old", headers={"k": "a"}))
    disk.put(by_value, 7, make_message(b"new", headers={"k": "a"}))
    vhost = disk.restored()
    assert bodies(vhost.queues["p"]) == [b"9", b"5", b"1"]
    assert bodies(vhost.queues["v"]) == [b"new"]


def test_a_time_to_live_that_ran_out_meanwhile_has_run_out(disk: Disk) -> None:
    queue_id = disk.queue("q")
    disk.put(queue_id, 0, make_message(b"short").expiring_at(ARRIVAL_MS + 10))
    disk.put(queue_id, 1, make_message(b"long").expiring_at(ARRIVAL_MS + 10_000))
    disk.timers.clock.now_ms = ARRIVAL_MS + 5000
    queue = disk.restored().queues["q"]
    entry = taken(queue)
    assert entry.message.body == b"long"
    disk.timers.advance(10_000)
    assert queue.ready_count == 0


def test_a_queue_s_time_to_live_counts_from_the_arrival(disk: Disk) -> None:
    queue_id = disk.queue("q", x_message_ttl=1000)
    disk.put(queue_id, 0, make_message(b"x"))
    disk.timers.clock.now_ms = ARRIVAL_MS + 999
    queue = disk.restored().queues["q"]
    assert queue.ready_count == 1
    disk.timers.clock.advance(2)
    assert queue.get() is None


def test_dead_letters_of_the_start_stand_behind_what_their_queue_had(disk: Disk) -> None:
    """What is over the limit (it was unacked when the broker stopped) is dead-lettered."""
    source = disk.queue(
        "a", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="b"
    )
    for offset in range(3):
        disk.put(source, offset, make_message(b"dead%d" % offset))
    target = disk.queue("b")
    disk.put(target, 0, make_message(b"old"))
    vhost = disk.restored()
    assert bodies(vhost.queues["a"]) == [b"dead2"]
    assert bodies(vhost.queues["b"]) == [b"old", b"dead0", b"dead1"]


def test_a_binding_to_an_exchange_that_is_gone_is_told_and_the_rest_comes_back(
    disk: Disk,
) -> None:
    disk.queue("q")
    disk.definitions.bind("/", "gone", "queue", "q", "k", {})
    disk.definitions.bind("/", "amq.direct", "queue", "q", "k", {})
    disk.restored()
    assert disk.recovery.binding_count == 1
    assert disk.listener.impossible == [
        ("/", "binding of queue 'q' to exchange 'gone'", "no exchange 'gone' in vhost '/'")
    ]


def test_a_queue_that_cannot_be_made_any_more_is_an_error_that_names_it(disk: Disk) -> None:
    disk.queue("q", x_max_priority="high")
    with pytest.raises(
        StoreError, match=r"queue 'q' in vhost '/' is in the definitions, but .*x-max"
    ):
        disk.restored()


def test_an_exchange_of_an_unknown_type_is_an_error_that_names_it(disk: Disk) -> None:
    disk.definitions.add_exchange(
        "/", "x", "x-later", is_auto_delete=False, is_internal=False, arguments={}
    )
    with pytest.raises(StoreError, match=r"exchange 'x' in vhost '/' is in the definitions, but"):
        disk.restored()


def test_the_post_works_again_after_the_start(disk: Disk) -> None:
    disk.queue("a", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="b")
    disk.queue("b")
    vhost = disk.restored()
    for body in (b"one", b"two"):
        vhost.queues["a"].put(make_message(body))
    assert bodies(vhost.queues["b"]) == [b"one"]
