"""What a queue calls for each entry, by the parts that it has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.message import UNWRITTEN
from hareline.queues.core.entry import QueueEntry, RankedEntry
from hareline.queues.core.kinds import KEEPS_ALL, KEEPS_PERSISTENT
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold
from hareline.queues.policies.overflow import Overflow
from hareline.queues.wiring import _Keeping, wire_deleted
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.stores import FakeStore, persistent
from tests.support.timed_queue import TimedQueue
from tests.support.turns import ManualTurn
from tests.support.vhosts import declare, make_vhost


def test_a_queue_without_parts_adds_entries_by_a_method_of_its_deque(place: TimedQueue) -> None:
    queue = place.queue
    assert queue._append == queue.order.add
    assert (queue._on_left, queue._on_departed) == (None, None)
    assert (queue.entry_class, queue.needs_admission) == (QueueEntry, False)


def add_expiry(place: TimedQueue) -> None:
    place.queue.install(expiry=Expiry(place.queue, place.environment, message_ttl_ms=5))


def add_hold(place: TimedQueue) -> None:
    place.queue.install(hold=Hold(place.queue, place.environment))


def add_overflow(place: TimedQueue) -> None:
    overflow = Overflow(
        place.queue, place.environment, max_length=1, max_length_bytes=None, policy="drop-head"
    )
    place.queue.install(overflow=overflow)


def add_browser(place: TimedQueue) -> None:
    browser = RecordingConsumer(place.queue)
    browser.is_browser = True
    place.queue.add_consumer(browser)


@pytest.mark.parametrize("add", [add_expiry, add_hold, add_overflow, add_browser])
def test_a_part_that_looks_at_new_messages_needs_admission(
    place: TimedQueue, add: Callable[[TimedQueue], None]
) -> None:
    add(place)
    assert place.queue.needs_admission
    assert place.queue.entry_class is RankedEntry


def test_only_the_first_ttl_of_a_message_and_no_queue_wide_one_needs_none(
    place: TimedQueue,
) -> None:
    place.queue.install(expiry=Expiry(place.queue, place.environment, sweep_ms=50))
    assert not place.queue.needs_admission


def test_publishers_hear_when_a_queue_begins_to_need_admission_and_when_it_no_longer_does() -> None:
    vhost = make_vhost(ManualTurn())
    queue = declare(vhost)
    versions = [vhost.routing.version]
    browser = RecordingConsumer(queue)
    browser.is_browser = True
    queue.add_consumer(browser)
    versions.append(vhost.routing.version)
    queue.install()
    versions.append(vhost.routing.version)
    queue.remove_consumer(browser)
    versions.append(vhost.routing.version)
    assert versions[0] < versions[1] == versions[2] < versions[3]


@pytest.mark.parametrize(("keeps", "kept"), [(KEEPS_PERSISTENT, [1]), (KEEPS_ALL, [0, 1])])
def test_a_ledger_has_a_new_entry_before_the_ordering(
    place: TimedQueue, keeps: int, kept: list[int]
) -> None:
    store = FakeStore()
    ledger = store.open_queue(1, "q")
    assert ledger is not None
    place.queue.install(ledger=ledger, keeps=keeps)
    place.queue.enqueue(make_message(b"transient"))
    place.queue.enqueue(persistent(make_message(b"persistent")))
    assert ledger.added == kept
    assert place.queue.ready_count == 2


@pytest.mark.parametrize(("keeps", "kept"), [(KEEPS_PERSISTENT, [1, 2]), (KEEPS_ALL, [0, 1, 2])])
def test_a_run_comes_to_the_ledger_and_the_ordering_as_its_entries_do_one_by_one(
    place: TimedQueue, keeps: int, kept: list[int]
) -> None:
    store = FakeStore()
    ledger = store.open_queue(1, "q")
    assert ledger is not None
    elsewhere = persistent(make_message(b"known by another queue"))
    elsewhere.position = 4711
    messages = [make_message(b"transient"), persistent(make_message(b"persistent")), elsewhere]
    entries = [QueueEntry(place.queue, message, at) for at, message in enumerate(messages)]
    order = FifoOrder()
    keeping = _Keeping(ledger, order.add, order.add_run, keeps_all=keeps == KEEPS_ALL)
    keeping.append_run(entries)
    assert ledger.added == kept
    assert list(order) == entries
    assert [entry.message.position for entry in entries[1:]] == [UNWRITTEN, UNWRITTEN]
    assert elsewhere.position == 4711


def test_a_settled_entry_is_forgotten_by_its_key_by_the_limit_and_by_the_store() -> None:
    store = FakeStore()
    arguments = {"x-last-value-key": "k", "x-max-length": 1, "x-overflow": "reject-publish"}
    queue = declare(make_vhost(ManualTurn(), store=store), is_durable=True, arguments=arguments)
    one = persistent(make_message(b"one", headers={"k": "a"}))
    assert queue.put(one)
    assert not queue.put(persistent(make_message(b"too many", headers={"k": "b"})))
    (entry,) = queue.acquire(1)
    queue.settle(entry)
    assert queue.last_values is not None
    assert queue.last_values.key_count == 0
    assert store.ledgers["q"].settled == [0]
    assert queue.put(persistent(make_message(b"room", headers={"k": "b"})))


def test_a_deleted_queue_calls_nothing_that_refers_to_it(place: TimedQueue) -> None:
    add_overflow(place)
    wires = wire_deleted(place.queue.order, RankedEntry)
    assert (wires.on_left, wires.on_departed, wires.needs_admission) == (None, None, False)
    place.queue.delete()
    place.queue.enqueue(make_message(b"late"))
    assert place.queue._on_departed is None
    assert place.queue.ready_count == 1
