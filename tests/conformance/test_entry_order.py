"""Every ordering is held against a plain list that is sorted by what the ordering promises."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

from .orderings import ORDERINGS, Ordering


@pytest.fixture(params=ORDERINGS, ids=str)
def ordering(request: pytest.FixtureRequest) -> Ordering:
    chosen: Ordering = request.param
    return chosen


class OrderModel(RuleBasedStateMachine):
    """``ready`` is sorted by place; ``taken`` has left the ordering and may come back."""

    ordering: Ordering

    @initialize()
    def start(self) -> None:
        self.order = self.ordering.make()
        self.queue = Queue("q", self.ordering.make(), ManualTurn())
        self.add = self.order.add
        self.ready: list[QueueEntry] = []
        self.taken: list[QueueEntry] = []
        self.next_offset = 0

    @rule(priorities=st.lists(st.integers(0, 9), max_size=20))
    def add_entries(self, priorities: list[int]) -> None:
        for priority in priorities:
            message = make_message(b"x", priority=priority)
            entry = QueueEntry(self.queue, message, self.next_offset)
            self.next_offset += 1
            self.add(entry)
            self.ready.append(entry)
        self._sort()

    @rule(count=st.integers(0, 30))
    def take(self, count: int) -> None:
        entries = self.order.take(count)
        assert entries == self.ready[:count]
        del self.ready[:count]
        self.taken += entries

    @rule()
    def take_everything(self) -> None:
        self.take(len(self.ready))

    @rule(data=st.data())
    def restore_some_in_any_sequence(self, data: st.DataObject) -> None:
        shuffled = data.draw(st.permutations(self.taken))
        count = data.draw(st.integers(0, len(shuffled)))
        back, self.taken = shuffled[:count], shuffled[count:]
        self.order.restore(back)
        self.ready += back
        self._sort()

    @rule()
    def forget_what_is_taken(self) -> None:
        """Settled: it never comes back."""
        self.taken.clear()

    @invariant()
    def its_length_is_the_number_of_ready_entries(self) -> None:
        assert len(self.order) == len(self.ready)

    @invariant()
    def peek_shows_the_next_and_takes_nothing(self) -> None:
        assert self.order.peek() is (self.ready[0] if self.ready else None)
        assert len(self.order) == len(self.ready)

    def _sort(self) -> None:
        self.ready.sort(key=self.ordering.place)

    def teardown(self) -> None:
        if self.ready:
            assert self.order.take(len(self.ready) + 1) == self.ready


@pytest.mark.hypothesis
@pytest.mark.parametrize("chosen", ORDERINGS, ids=str)
def test_an_ordering_behaves_like_a_sorted_list(chosen: Ordering) -> None:
    class Machine(OrderModel):
        ordering = chosen

    run_state_machine_as_test(Machine)


def test_a_new_ordering_is_empty(ordering: Ordering) -> None:
    order = ordering.make()
    assert len(order) == 0
    assert order.peek() is None
    assert order.take(10) == []


def test_orderings_share_nothing(ordering: Ordering) -> None:
    one, other = ordering.make(), ordering.make()
    queue = Queue("q", one, ManualTurn())
    queue.enqueue(make_message(b"x"))
    assert (len(one), len(other)) == (1, 0)


@pytest.mark.parametrize("count", [2_000])
def test_restoring_one_by_one_keeps_the_order(ordering: Ordering, count: int) -> None:
    order = ordering.make()
    queue = Queue("q", ordering.make(), ManualTurn())
    entries = [QueueEntry(queue, make_message(b"x"), offset) for offset in range(count)]
    for entry in entries:
        order.add(entry)
    for entry in reversed(order.take(count)):
        order.restore([entry])
    assert order.take(count) == sorted(entries, key=ordering.place)
