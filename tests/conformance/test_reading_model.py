"""Readers of every non-destructive ordering, under arbitrary sequences of what can happen.

Nothing is shown twice to anybody or out of turn, nothing to a reader that is not for him, and who
can receive has seen everything that is there; the books are right at every moment.
"""

from __future__ import annotations

from math import inf
from typing import Any

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

from hareline.message import Message
from hareline.queues.core.credit import UNLIMITED, CreditWindow
from hareline.queues.core.start_position import FIRST, LAST, NEXT, StartPosition
from hareline.queues.dispatch import reading
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from hareline.storage.interface import MessageStore
from hareline.storage.memory import MemoryStore
from hareline.wire.table import Table
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import make_vhost

#: Small, so that the shares of a turn and the limits of a batch are reached all the time.
PATCHES = {"LOOKS_PER_TURN": 16, "SHARE_MIN": 2, "BATCH_ENTRIES": 6, "BATCH_BYTES": 400}

QUEUES: dict[str, dict[str, object]] = {
    "log": {"x-non-destructive": True},
    "stream": {"x-queue-type": "stream"},
    "priorities": {"x-non-destructive": True, "x-max-priority": 5},
    "sorted": {"x-non-destructive": True, "x-sort-key": "k"},
    "last-values": {"x-non-destructive": True, "x-last-value-key": "k"},
    "browsed": {"x-max-priority": 5},
}

STARTS = st.one_of(
    st.sampled_from([FIRST, LAST, NEXT]),
    st.integers(0, 60).map(lambda n: StartPosition("offset", n)),
)
ROOMS = st.sampled_from([UNLIMITED, -1, 0, 60, 150, 700])


class Expectation:
    """What one reader may be shown: all from ``from_offset`` that his selector is true of."""

    def __init__(self, consumer: RecordingConsumer, from_offset: int, is_picky: bool) -> None:
        self.consumer = consumer
        self.from_offset = from_offset
        self.is_picky = is_picky

    @property
    def seen(self) -> list[int]:
        return [entry.offset for batch in self.consumer.batches for entry in batch]

    def wants(self, entry: Any) -> bool:
        if entry.offset < self.from_offset:
            return False
        return not self.is_picky or entry.message.headers["k"] == 1


class ReadingModel(RuleBasedStateMachine):
    arguments: dict[str, object]

    @initialize(share_s=st.sampled_from([inf, -1.0]))
    def start(self, share_s: float) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(reading, "TURN_SHARE_S", share_s)
        for name, value in PATCHES.items():
            self.patch.setattr(reading, name, value)
        self.turn = ManualTurn()
        self.store = self.make_store()
        self.queue = self.declare()
        self.is_browsed = "x-max-priority" in self.arguments and len(self.arguments) == 1
        self.shared = CreditWindow()
        self.readers: list[Expectation] = []

    def make_store(self) -> MessageStore:
        return MemoryStore()

    def declare(self) -> Queue:
        """The queue, empty, of a broker that has just started."""
        return make_vhost(self.turn, store=self.store).declare_queue(
            "q", is_durable=True, is_auto_delete=False, owner=None, arguments=self.arguments
        )

    def prepare(self, message: Message) -> None:
        """Called with each message before it is published."""

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    # -------------------------------------------------------------------- what happens

    @rule(values=st.lists(st.integers(0, 4), min_size=1, max_size=25))
    def publish(self, values: list[int]) -> None:
        for value in values:
            message = make_message(b"x" * value, priority=value, headers=Table({"k": value % 3}))
            self.prepare(message)
            if self.queue.needs_admission:
                assert self.queue.put(message)
            else:
                self.queue.enqueue(message)

    @rule(data=st.data())
    def drop_some(self, data: st.DataObject) -> None:
        entries = self.queue.lane.ready_entries()
        chosen = data.draw(st.lists(st.integers(0, max(0, len(entries) - 1)), unique=True))
        self.queue.drop([entries[index] for index in chosen if entries], "expired")

    @rule()
    def purge(self) -> None:
        self.queue.purge()

    @precondition(lambda self: len(self.readers) < 6)
    @rule(
        start=STARTS,
        limit=st.integers(0, 8),
        acknowledges=st.booleans(),
        is_picky=st.booleans(),
        is_shared=st.booleans(),
        priority=st.integers(0, 1),
        room=ROOMS,
    )
    def add_reader(
        self,
        start: StartPosition,
        limit: int,
        acknowledges: bool,
        is_picky: bool,
        is_shared: bool,
        priority: int,
        room: int,
    ) -> None:
        consumer = RecordingConsumer(
            self.queue,
            acknowledges=acknowledges,
            prefetch_count=limit,
            priority=priority,
            selector=compile_selector("k = 1") if is_picky else None,
            windows=(self.shared,) if is_shared else (),
        )
        consumer.room = room
        consumer.start_position = start
        consumer.is_browser = self.is_browsed
        self.queue.deliver_due()
        offsets = [entry.offset for entry in self.queue.lane.ready_entries()]
        end = self.queue.next_offset
        first = {"first": 0, "next": end, "last": max(offsets, default=end)}.get(
            start.kind, min(start.value, end)
        )
        self.readers.append(Expectation(consumer, first, is_picky))
        self.queue.add_consumer(consumer)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def remove_reader(self, data: st.DataObject) -> None:
        reader = self.readers.pop(data.draw(st.integers(0, len(self.readers) - 1)))
        self.queue.remove_consumer(reader.consumer)
        reader.consumer.ack()

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), count=st.integers(0, 10), is_release=st.booleans())
    def settle_some(self, data: st.DataObject, count: int, is_release: bool) -> None:
        consumer = data.draw(st.sampled_from(self.readers)).consumer
        if is_release:
            consumer.release(count)
        else:
            consumer.ack(count)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), room=ROOMS)
    def drain_one(self, data: st.DataObject, room: int) -> None:
        data.draw(st.sampled_from(self.readers)).consumer.drain(room)

    @rule(limit=st.integers(0, 10))
    def resize_window(self, limit: int) -> None:
        self.shared.resize(limit, 0)

    @precondition(lambda self: self.turn.is_armed)
    @rule()
    def step(self) -> None:
        self.turn.step()

    @rule()
    def let_everybody_catch_up(self) -> None:
        """Room for all, and acknowledgements until nothing more comes: all is seen then."""
        self.resize_window(0)
        count = -1
        while count != (count := sum(len(reader.seen) for reader in self.readers)):
            for reader in self.readers:
                reader.consumer.drain()
                reader.consumer.ack()
            self.turn.run()
        ready = self.queue.lane.ready_entries()
        for reader in self.readers:
            assert {entry.offset for entry in ready if reader.wants(entry)} <= set(reader.seen)

    # ---------------------------------------------------------------------- what holds

    @rule()
    def finish(self) -> None:
        """Who can receive has seen everything that is there."""
        self.turn.run()
        ready = self.queue.lane.ready_entries()
        for reader in self.readers:
            consumer = reader.consumer
            if consumer.credit <= 0 or consumer.room < 0:
                continue
            if consumer.windows and not self.shared.admits(0):
                continue
            missed = {entry.offset for entry in ready if reader.wants(entry)} - set(reader.seen)
            assert not missed, (consumer, missed)

    @invariant()
    def nobody_sees_anything_twice(self) -> None:
        for reader in getattr(self, "readers", []):
            seen = reader.seen
            assert len(seen) == len(set(seen))
            if "x-max-priority" not in self.arguments and "x-sort-key" not in self.arguments:
                assert seen == sorted(seen)

    @invariant()
    def nobody_sees_what_is_not_for_him(self) -> None:
        for reader in getattr(self, "readers", []):
            for batch in reader.consumer.batches:
                assert all(reader.wants(entry) for entry in batch)

    @invariant()
    def the_books_are_right(self) -> None:
        if not hasattr(self, "queue"):
            return
        unacked = sum(len(reader.consumer.unacked) for reader in self.readers)
        assert self.queue.unacked_count == (0 if self.is_browsed else unacked)
        assert self.shared.used_count == sum(
            len(reader.consumer.unacked) for reader in self.readers if reader.consumer.windows
        )
        ready = self.queue.lane.ready_entries()
        assert self.queue.ready_count == len(ready)
        assert self.queue.ready_bytes == sum(entry.message.size for entry in ready)
        for reader in self.readers:
            consumer = reader.consumer
            if consumer.acknowledges and consumer.credit < UNLIMITED // 2:
                assert consumer.credit >= 0


@pytest.mark.row("A15")
@pytest.mark.hypothesis
@pytest.mark.parametrize("name", QUEUES)
def test_readers_agree_with_the_model(name: str) -> None:
    class Model(ReadingModel):
        arguments = QUEUES[name]

    run_state_machine_as_test(Model)
