"""A newer value of a key takes the place of the older one, unless somebody has that.

What every ordering must do is in conformance/.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hareline.message import Table
from hareline.queues.core.entry import READY, SETTLED, QueueEntry
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.queue import Queue
from hareline.wire.table import Array
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

KEY = "stock"


@pytest.fixture
def order() -> LastValueOrder:
    return LastValueOrder(KEY)


@pytest.fixture
def queue(order: LastValueOrder) -> Queue:
    return Queue("q", order, ManualTurn())


def publish(queue: Queue, body: str, key: object = None) -> None:
    headers = None if key is None else Table({KEY: key})
    assert queue.put(make_message(body.encode(), headers=headers))


def ready(order: LastValueOrder) -> list[str]:
    return [entry.message.body.decode() for entry in order]


def get(queue: Queue) -> QueueEntry:
    entry = queue.get()
    assert entry is not None
    return entry


@pytest.mark.row("A6")
def test_a_newer_value_takes_the_place_of_the_older(queue: Queue, order: LastValueOrder) -> None:
    publish(queue, "ibm 1", "IBM")
    publish(queue, "sun 1", "SUN")
    publish(queue, "ibm 2", "IBM")
    assert ready(order) == ["sun 1", "ibm 2"]
    assert (queue.ready_count, queue.ready_bytes, queue.settled_count) == (2, 10, 1)


@pytest.mark.row("A6")
def test_messages_without_the_key_are_never_replaced(queue: Queue, order: LastValueOrder) -> None:
    for number in range(3):
        publish(queue, f"bare {number}")
    headers = Table({KEY: None})
    for number in range(2):
        queue.put(make_message(f"void {number}".encode(), headers=headers))
    assert ready(order) == ["bare 0", "bare 1", "bare 2", "void 0", "void 1"]
    assert order.values.key_count == 0


def test_an_older_value_that_somebody_has_stays_until_it_is_settled(
    queue: Queue, order: LastValueOrder
) -> None:
    publish(queue, "1", "IBM")
    held = get(queue)
    publish(queue, "2", "IBM")
    assert (queue.unacked_count, ready(order)) == (1, ["2"])
    queue.settle(held)
    assert (queue.unacked_count, ready(order)) == (0, ["2"])
    publish(queue, "3", "IBM")
    assert ready(order) == ["3"]


def test_an_older_value_that_comes_back_is_dropped(queue: Queue, order: LastValueOrder) -> None:
    publish(queue, "1", "IBM")
    held = get(queue)
    publish(queue, "2", "IBM")
    queue.release([held])
    assert held.state == SETTLED
    assert ready(order) == ["2"]


def test_an_older_value_is_dropped_though_the_newer_is_gone_already(
    queue: Queue, order: LastValueOrder
) -> None:
    publish(queue, "1", "IBM")
    held = get(queue)
    publish(queue, "2", "IBM")
    queue.settle(get(queue))
    assert order.values.key_count == 0
    queue.release([held])
    assert (held.state, ready(order), queue.unacked_count) == (SETTLED, [], 0)


def test_the_newest_value_that_comes_back_is_ready_at_its_place_and_can_be_replaced(
    queue: Queue, order: LastValueOrder
) -> None:
    publish(queue, "1", "IBM")
    publish(queue, "other", "SUN")
    held = get(queue)
    queue.release([held])
    assert held.state == READY
    assert ready(order) == ["1", "other"]
    publish(queue, "2", "IBM")
    assert ready(order) == ["other", "2"]


def test_two_older_values_that_somebody_has_are_both_dropped(
    queue: Queue, order: LastValueOrder
) -> None:
    held = []
    for body in ("1", "2", "3"):
        publish(queue, body, "IBM")
        held.append(get(queue))
    queue.release(held)
    assert ready(order) == ["3"]


def test_a_key_is_forgotten_with_its_last_value(queue: Queue, order: LastValueOrder) -> None:
    publish(queue, "1", "IBM")
    queue.settle(get(queue))
    publish(queue, "2", "SUN")
    queue.purge()
    assert order.values.key_count == 0
    publish(queue, "3", "IBM")
    assert ready(order) == ["3"]


def test_values_are_taken_and_not_only_looked_at(queue: Queue, order: LastValueOrder) -> None:
    for body in ("1", "2", "3"):
        publish(queue, body, "IBM")
    assert [entry.message.body for entry in queue.acquire(10)] == [b"3"]
    assert len(order) == 0


def test_keys_of_any_type_replace_their_like(queue: Queue, order: LastValueOrder) -> None:
    for round_ in range(3):
        for key in (1, "1", 1.0, True, Array([1])):
            publish(queue, f"{round_} {key!r}", key)
    assert ready(order) == ["2 1", "2 '1'", "2 1.0", "2 True", "2 [1]"]


def test_many_values_of_one_key_keep_nothing_of_the_older_ones(
    queue: Queue, order: LastValueOrder
) -> None:
    for number in range(1000):
        publish(queue, str(number), "IBM")
    assert ready(order) == ["999"]
    assert (order.values.key_count, len(order._fresh)) == (1, 1)


class LastValueModel(RuleBasedStateMachine):
    """``values`` are the ready ones by their order: body and key; ``got`` what somebody has."""

    def __init__(self) -> None:
        super().__init__()
        self.order = LastValueOrder(KEY)
        self.queue = Queue("q", self.order, ManualTurn())
        self.values: list[tuple[int, object]] = []
        self.got: list[tuple[int, object, QueueEntry]] = []
        self.newest: dict[object, int] = {}
        self.published = 0

    @rule(key=st.sampled_from([None, "a", "b", 1]))
    def publish(self, key: object) -> None:
        number = self.published
        self.published += 1
        publish(self.queue, str(number), key)
        if key is not None:
            self.values = [pair for pair in self.values if pair[1] != key]
            self.newest[key] = number
        self.values.append((number, key))

    @precondition(lambda self: self.values)
    @rule()
    def get(self) -> None:
        self.got.append((*self.values.pop(0), get(self.queue)))

    @precondition(lambda self: self.got)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        _, _, entry = self.got.pop(data.draw(st.integers(0, len(self.got) - 1)))
        self.queue.settle(entry)

    @precondition(lambda self: self.got)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number, key, entry = self.got.pop(data.draw(st.integers(0, len(self.got) - 1)))
        self.queue.release([entry])
        if key is None or self.newest[key] == number:
            self.values = sorted([*self.values, (number, key)], key=lambda pair: pair[0])

    @rule()
    def purge(self) -> None:
        self.queue.purge()
        self.values.clear()

    @invariant()
    def the_newest_values_are_ready(self) -> None:
        assert ready(self.order) == [str(number) for number, _ in self.values]
        assert self.queue.ready_count == len(self.values)
        assert self.queue.unacked_count == len(self.got)

    @invariant()
    def what_is_remembered_is_what_is_there(self) -> None:
        living = {key for _, key in self.values} | {key for _, key, _ in self.got}
        assert self.order.values.key_count <= len(living - {None})
        assert len(self.order.values._stale) <= len(self.got)
        assert all(entry.rank == key for key, entry in self.order.values._newest.items())


TestLastValueModel = pytest.mark.hypothesis(LastValueModel.TestCase)
