"""Every ordering is held against a plain list that is sorted by what the ordering promises."""

from __future__ import annotations

import random
from weakref import ref

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hareline.message import Message, Table
from hareline.queues.core.entry import SETTLED, QueueEntry, RankedEntry
from hareline.queues.orders import fifo
from hareline.queues.orders import sorted as sorted_order
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

from .orderings import KEY, ORDERINGS, Ordering

#: Small, so that settled entries are swept all the time.
DEAD_ALLOWED = 2

PRIORITIES = st.none() | st.integers(0, 10) | st.integers(0, 255)
KEYS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(
        ["", "a", "a\0", "aa", "B", "b", "é", "\uffee", "\U0001f407", "1", "-0.5", "10"]
    )
    | st.sampled_from([0.5, -2.25, 1e300])
    | st.text(max_size=3)
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    key = draw(KEYS)
    headers = None if key is None else Table({KEY: key})
    return make_message(b"x", priority=draw(PRIORITIES), headers=headers)


@pytest.fixture(params=ORDERINGS, ids=str)
def ordering(request: pytest.FixtureRequest) -> Ordering:
    chosen: Ordering = request.param
    return chosen


def make_queue(ordering: Ordering) -> Queue:
    """For the entries to belong to; they are put into orderings of their own."""
    return Queue("q", ordering.make(), ManualTurn())


class OrderModel(RuleBasedStateMachine):
    """``ready`` is sorted by place; ``taken`` has left the ordering and may come back."""

    ordering: Ordering

    @initialize()
    def start(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(fifo, "DEAD_ALLOWED", DEAD_ALLOWED)
        self.patch.setattr(sorted_order, "STALE_ALLOWED", DEAD_ALLOWED)
        self.order = self.ordering.make()
        self.queue = make_queue(self.ordering)
        self.add = self.order.add
        self.ready: list[QueueEntry] = []
        self.taken: list[QueueEntry] = []
        self.next_offset = 0

    def new_entry(self, message: Message) -> RankedEntry:
        entry = RankedEntry(self.queue, message, self.next_offset)
        self.next_offset += 1
        return entry

    @rule(published=st.lists(messages(), max_size=20))
    def add_entries(self, published: list[Message]) -> None:
        for message in published:
            entry = self.new_entry(message)
            self.add(entry)
            self.ready.append(entry)
        self._sort()

    @rule(message=messages())
    def hold_an_entry(self, message: Message) -> None:
        """It was never added; its time comes later and it is restored like one that was taken."""
        self.taken.append(self.new_entry(message))

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

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def settle_one_where_it_stands(self, data: st.DataObject) -> None:
        entry = self.ready.pop(data.draw(st.integers(0, len(self.ready) - 1)))
        self._discard(entry)

    @rule(data=st.data())
    def settle_many_where_they_stand(self, data: st.DataObject) -> None:
        leaving = data.draw(st.permutations(self.ready))[: len(self.ready) * 2 // 3]
        for entry in leaving:
            self.ready.remove(entry)
            self._discard(entry)

    @rule(count=st.integers(1, 5))
    def give_up_the_least(self, count: int) -> None:
        for _ in range(min(count, len(self.ready))):
            least = self.order.least()
            assert least is min(self.ready, key=self.ordering.worth)
            self.ready.remove(least)
            self._discard(least)

    def _discard(self, entry: QueueEntry) -> None:
        entry.state = SETTLED
        self.order.discard(entry)

    @invariant()
    def its_length_is_the_number_of_ready_entries(self) -> None:
        assert len(self.order) == len(self.ready)

    @invariant()
    def peek_shows_the_next_and_takes_nothing(self) -> None:
        assert self.order.peek() is (self.ready[0] if self.ready else None)
        assert len(self.order) == len(self.ready)

    @invariant()
    def iteration_shows_them_in_order(self) -> None:
        assert list(self.order) == self.ready

    @invariant()
    def ranks_are_the_places(self) -> None:
        everything = self.ready + self.taken
        ranks = {entry: self.order.rank(entry) for entry in everything}
        assert sorted(everything, key=ranks.__getitem__) == sorted(
            everything, key=self.ordering.place
        )

    def _sort(self) -> None:
        self.ready.sort(key=self.ordering.place)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()
            assert self.order.take(len(self.ready) + 1) == self.ready
            assert self.order.least() is None


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
    assert order.least() is None
    assert order.take(10) == []
    assert list(order) == []


def test_orderings_share_nothing(ordering: Ordering) -> None:
    one, other = ordering.make(), ordering.make()
    queue = Queue("q", one, ManualTurn())
    queue.enqueue(make_message(b"x"))
    assert (len(one), len(other)) == (1, 0)


def make_entries(ordering: Ordering, count: int) -> list[QueueEntry]:
    """Of any priority and any key."""
    queue = make_queue(ordering)
    chance = random.Random(count)
    return [
        RankedEntry(
            queue,
            make_message(
                b"x", priority=chance.randrange(10), headers=Table({KEY: chance.randrange(1000)})
            ),
            offset,
        )
        for offset in range(count)
    ]


@pytest.mark.parametrize("count", [5_000])
def test_restoring_one_by_one_keeps_the_order(ordering: Ordering, count: int) -> None:
    order = ordering.make()
    entries = make_entries(ordering, count)
    for entry in entries:
        order.add(entry)
    for entry in reversed(order.take(count)):
        order.restore([entry])
    assert order.take(count) == sorted(entries, key=ordering.place)


@pytest.mark.parametrize("batch", [1, 7, 512])
@pytest.mark.row("E2")
@pytest.mark.row("E4")
def test_many_entries_are_taken_in_order_whatever_the_size_of_the_batches(
    ordering: Ordering, batch: int
) -> None:
    order = ordering.make()
    entries = make_entries(ordering, 5_000)
    for entry in entries:
        order.add(entry)
    taken: list[QueueEntry] = []
    while len(order):
        taken += order.take(batch)
    assert taken == sorted(entries, key=ordering.place)


def test_many_entries_settled_where_they_stand_leave_the_others_in_order(
    ordering: Ordering,
) -> None:
    order = ordering.make()
    entries = make_entries(ordering, 5_000)
    for entry in entries:
        order.add(entry)
    leaving = random.Random(7).sample(entries, 4_900)
    for entry in leaving:
        entry.state = SETTLED
        order.discard(entry)
    assert order.take(5_000) == sorted(set(entries) - set(leaving), key=ordering.place)


class WatchedEntry(RankedEntry):
    """One of which a test sees that it is freed."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("is_last_kept", [True, False], ids=["last", "first"])
def test_settled_entries_are_freed_wherever_they_stand(
    ordering: Ordering, is_last_kept: bool
) -> None:
    """Those before the one that is kept, which is served last, or those behind it."""
    queue, order = make_queue(ordering), ordering.make()
    entries = [
        WatchedEntry(queue, make_message(b"x", headers=Table({KEY: number % 7})), number)
        for number in range(2_000)
    ]
    for entry in entries:
        order.add(entry)
    entries.sort(key=ordering.place)
    kept = entries.pop(-1 if is_last_kept else 0)
    watched = [ref(entry) for entry in entries]
    while entries:
        entry = entries.pop()
        entry.state = SETTLED
        order.discard(entry)
    del entry
    assert len(order) == 1
    assert sum(one() is not None for one in watched) <= 200
    assert order.take(2) == [kept]


def test_a_full_queue_gives_up_the_least_while_others_come_and_go(ordering: Ordering) -> None:
    order = ordering.make()
    ready: set[QueueEntry] = set()
    for number, entry in enumerate(make_entries(ordering, 2_000)):
        order.add(entry)
        ready.add(entry)
        if number % 3 == 0:
            ready.difference_update(order.take(1))
        if number % 7 == 0:
            again = order.take(2)
            order.restore(again)
        if len(order) > 50:
            least = order.least()
            assert least is min(ready, key=ordering.worth)
            ready.remove(least)
            least.state = SETTLED
            order.discard(least)
    assert order.take(100) == sorted(ready, key=ordering.place)


def test_a_run_is_added_as_its_entries_are_one_by_one(ordering: Ordering) -> None:
    queue = make_queue(ordering)
    numbers = random.Random(7)
    messages_of = [
        make_message(b"x", priority=numbers.randrange(10), headers=Table({KEY: numbers.random()}))
        for _ in range(40)
    ]
    places = []
    for is_run in (True, False):
        order = ordering.make()
        entries = [RankedEntry(queue, message, at) for at, message in enumerate(messages_of)]
        order.add(entries[0])
        if is_run:
            order.add_run(entries[1:30])
        else:
            for entry in entries[1:30]:
                order.add(entry)
        order.add_run(entries[30:])
        assert len(order) == 40
        places.append([entry.offset for entry in order.take(40)])
    assert places[0] == places[1]
