"""Groups, selectors, expiry and consumer churn under all orderings, against a plain list.

After every turn: nothing is lost or there twice, nobody has what a selector or a group denies him,
nobody who could receive is left waiting, each consumer got its entries in the order of the queue,
and the books are right.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hareline.message import Message
from hareline.queues.core import lane as lane_module
from hareline.queues.core.consumer_book import LiveLimit
from hareline.queues.core.credit import UNLIMITED, CreditWindow
from hareline.queues.core.entry import ACQUIRED, PARKED, READY, SETTLED, QueueEntry
from hareline.queues.core.groups import Groups
from hareline.queues.dispatch import placing
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from tests.support.consumers import RecordingConsumer
from tests.support.examples import examples
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

from .orderings import ORDERINGS, Ordering

GroupType = Literal["standard", "shared"] | None
GROUP_TYPES: Final[tuple[GroupType, ...]] = (None, "standard", "shared")
SELECTORS: Final = (None, None, "colour = 'red'", "colour <> 'red'", "size > 4", "JMSRedelivered")

#: One of each kind: that orderings are what they are called is shown by ``test_entry_order``.
CHOSEN: Final = ("fifo", "last-value", "max-priority-5", "sorted")

HEADERS: Final = st.fixed_dictionaries(
    {"colour": st.sampled_from(["red", "blue"]), "size": st.integers(0, 9)},
    optional={"JMSXGroupID": st.sampled_from(["a", "b", "c", "d"]), "k": st.sampled_from("xyz")},
)


class SelectiveModel(RuleBasedStateMachine):
    """``entries`` is every entry that was ever ready, as the queue made it.

    ``departed`` have left with something unacked, ``quit`` with nothing.
    """

    ordering: Ordering
    group_type: GroupType
    live_limit: int

    @initialize(share_s=st.sampled_from([inf, -1.0]))
    def start(self, share_s: float) -> None:
        self.patch = pytest.MonkeyPatch()
        for name, value in (
            ("TURN_SHARE_S", share_s),
            ("LOOKS_PER_TURN", 20),
            ("BATCH_ENTRIES", 4),
            ("TAKEN_AT_ONCE", 5),
        ):
            self.patch.setattr(placing, name, value)
        self.patch.setattr(lane_module, "ENTRIES_PER_TURN", 12)
        self.turn = ManualTurn()
        self.order = self.ordering.make()
        self.queue = self.make_queue()
        if self.group_type is not None:
            lane = SelectiveLane(self.queue, self.order, Groups(self.group_type))
            self.queue.install(lane=lane)
        if self.live_limit:
            self.queue.lane.consumers.live = LiveLimit(self.live_limit)
        self.channel: list[bytes] = []
        self.window = CreditWindow(4, 0)
        self.entries: list[QueueEntry] = []
        self.consumers: list[RecordingConsumer] = []
        self.departed: list[RecordingConsumer] = []
        self.quit: list[RecordingConsumer] = []
        self.got: list[QueueEntry] = []
        self.released: dict[int, int] = {}
        self.published = 0

    def make_queue(self) -> Queue:
        return Queue("q", self.order, self.turn)

    def prepare(self, message: Message) -> None:
        """Called with each message before it is published."""

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    # ------------------------------------------------------------------ messages

    @rule(many=st.lists(HEADERS, min_size=1, max_size=15), priorities=st.randoms())
    def publish(self, many: list[dict[str, Any]], priorities: Any) -> None:
        self.publish_all(many, priorities)
        self._finish()

    def publish_all(self, many: list[dict[str, Any]], priorities: Any) -> None:
        for headers in many:
            message = make_message(
                b"%05d" % self.published, headers=headers, priority=priorities.randrange(10)
            )
            self.published += 1
            self.prepare(message)
            offset = self.queue.next_offset
            assert self.queue.put(message)
            self.entries += [entry for entry in self.order if entry.offset == offset]

    @rule(data=st.data())
    def something_expires(self, data: st.DataObject) -> None:
        ready = self._ready()
        if ready:
            self.queue.drop([data.draw(st.sampled_from(ready))], "expired")
        self._finish()

    @rule()
    def purge(self) -> None:
        ready = len(self._ready())
        assert self.queue.purge() == ready
        self._finish()

    @rule()
    def get(self) -> None:
        holders = self._holders()
        candidates = [entry for entry in self._ready() if self._group(entry) not in holders]
        entry = self.queue.get()
        assert entry is min(candidates, key=self.ordering.place, default=None)
        if entry is not None:
            self.got.append(entry)
        self._finish()

    @precondition(lambda self: self.got)
    @rule(data=st.data(), is_accepted=st.booleans())
    def settle_or_release_what_was_got(self, data: st.DataObject, is_accepted: bool) -> None:
        entry = self.got.pop(data.draw(st.integers(0, len(self.got) - 1)))
        if is_accepted:
            self.queue.settle(entry)
        else:
            self.queue.release([entry])
        self._finish()

    # ----------------------------------------------------------------- consumers

    @rule(
        selector=st.sampled_from(SELECTORS),
        prefetch=st.sampled_from([0, 1, 2, 5]),
        octets=st.sampled_from([0, 0, 0, 5, 12]),
        priority=st.sampled_from([0, 0, 0, 1]),
        room=st.sampled_from([UNLIMITED, UNLIMITED, -1, 200]),
        acknowledges=st.sampled_from([True, True, False]),
        is_sharing=st.sampled_from([False, False, True]),
    )
    def consume(
        self,
        selector: str | None,
        prefetch: int,
        octets: int,
        priority: int,
        room: int,
        acknowledges: bool,
        is_sharing: bool,
    ) -> None:
        windows = (CreditWindow(0, octets),) if octets else ()
        consumer = RecordingConsumer(
            self.queue,
            f"c{len(self.consumers) + len(self.departed) + len(self.quit)}",
            prefetch_count=prefetch,
            priority=priority,
            windows=(*windows, self.window) if is_sharing else windows,
            acknowledges=acknowledges,
        )
        consumer.channel = self.channel if is_sharing else None
        consumer.selector = None if selector is None else compile_selector(selector)
        consumer.room = room
        self.queue.add_consumer(consumer)
        self.consumers.append(consumer)
        self._finish()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), is_released=st.booleans())
    def cancel(self, data: st.DataObject, is_released: bool) -> None:
        """By basic.cancel, which leaves the unacked ones where they are, or with the channel."""
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        self.queue.remove_consumer(consumer)
        if is_released:
            consumer.release()
            self.quit.append(consumer)
        else:
            self.departed.append(consumer)
        self._finish()

    @precondition(lambda self: any(one.unacked for one in self.consumers + self.departed))
    @rule(data=st.data(), count=st.integers(1, 6), is_accepted=st.booleans())
    def settle(self, data: st.DataObject, count: int, is_accepted: bool) -> None:
        busy = [one for one in self.consumers + self.departed if one.unacked]
        consumer = data.draw(st.sampled_from(busy))
        consumer.unacked = data.draw(st.permutations(consumer.unacked))
        if is_accepted:
            consumer.ack(count)
        else:
            consumer.release(count)
        self._finish()

    @precondition(lambda self: sum(bool(c.unacked) for c in self.consumers + self.departed) > 1)
    @rule(
        data=st.data(),
        times=st.integers(2, 4),
        many=st.lists(HEADERS, max_size=3),
        priorities=st.randoms(),
    )
    def settle_for_several_and_publish_in_one_turn(
        self, data: st.DataObject, times: int, many: list[dict[str, Any]], priorities: Any
    ) -> None:
        for _ in range(times):
            busy = [one for one in self.consumers + self.departed if one.unacked]
            if busy:
                consumer = data.draw(st.sampled_from(busy))
                settle = consumer.ack if data.draw(st.booleans()) else consumer.release
                settle(data.draw(st.integers(1, 3)))
        self.publish_all(many, priorities)
        self._finish()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), room=st.sampled_from([UNLIMITED, -1, 200]))
    def output_changes(self, data: st.DataObject, room: int) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        if room < 0:
            consumer.fill()
        else:
            consumer.drain(room)
        self._finish()

    # ------------------------------------------------------------------ the rules

    def _ready(self) -> list[QueueEntry]:
        return [entry for entry in self.entries if entry.state in (READY, PARKED)]

    def _group(self, entry: QueueEntry) -> str | None:
        key = entry.message.headers.get("JMSXGroupID")
        if self.group_type is None:
            return None
        if key is None and self.group_type == "shared":
            return "the default group"
        return None if key is None else str(key)

    def _holders(self) -> dict[str, object]:
        """Who alone may have messages of a group: who has some; standard: who had them last too."""
        holders: dict[str, object] = {}
        if self.group_type == "standard":
            lane = self.queue.lane
            assert isinstance(lane, SelectiveLane)
            assert lane._groups is not None
            for found in lane._groups.by_key.values():
                if isinstance(found.owner, RecordingConsumer):
                    assert found.owner in self.consumers, "a group of somebody who has left"
                    holders[str(found.key)] = found.owner
        for entry in self._acquired():
            group = self._group(entry)
            if group is not None:
                holders[group] = entry.consumer or "basic.get"
        return holders

    def _acquired(self) -> list[QueueEntry]:
        held = [entry for one in self.consumers + self.departed for entry in one.unacked]
        return held + self.got

    def _may_have(
        self, consumer: RecordingConsumer, entry: QueueEntry, holders: dict[str, object]
    ) -> bool:
        selector = consumer.selector
        if selector is not None and not selector.matches(entry.message, entry.delivery_count > 0):
            return False
        group = self._group(entry)
        holder = None if group is None else holders.get(group)
        return holder is None or holder is consumer

    def _finish(self) -> None:
        before = {consumer: len(consumer.bodies) for consumer in self.consumers}
        self.turn.run()
        self._check_groups()
        self._check_deliveries(before)
        self._check_books()

    def _check_groups(self) -> None:
        holders: dict[str, set[object]] = {}
        for entry in self._acquired():
            group = self._group(entry)
            if group is not None:
                holders.setdefault(group, set()).add(entry.consumer)
        assert all(len(those) == 1 for those in holders.values()), holders

    def _check_deliveries(self, before: dict[RecordingConsumer, int]) -> None:
        ready = self._ready()
        holders = self._holders()
        # what such a consumer was given may free a group, of which earlier ones wait, in mid-turn
        frees_groups_at_once = self.group_type == "shared" and not all(
            consumer.acknowledges for consumer in self.consumers
        )
        for consumer in self.consumers:
            delivered = [entry for batch in consumer.batches for entry in batch]
            new = delivered[before[consumer] :]
            places = [self.ordering.place(entry) for entry in new]
            if consumer.room == UNLIMITED:
                assert places == sorted(places), "out of order"
            left = [entry for entry in ready if self._may_have(consumer, entry, holders)]
            if consumer.selector is not None:
                for entry in new:
                    assert consumer.selector.matches(entry.message, entry.delivery_count > 0)
            is_able = consumer.credit > 0 and consumer.room == UNLIMITED and consumer.is_live
            if is_able and self._admits(consumer):
                assert not left, f"{consumer} could have {left}"
            if places and left and not frees_groups_at_once and self._admits(consumer):
                first_left = min(self.ordering.place(entry) for entry in left)
                assert first_left > places[-1], "a later one was preferred"

    def _admits(self, consumer: RecordingConsumer) -> bool:
        size = len(make_message(b"00000").body)
        return all(window.admits(size) for window in consumer.windows)

    def _check_books(self) -> None:
        for consumer in self.consumers + self.departed + self.quit:
            if not consumer.acknowledges:  # a plain lane does not keep the states of these
                for batch in consumer.batches:
                    for entry in batch:
                        entry.state = SETTLED
        states = [entry.state for entry in self.entries]
        ready = self._ready()
        assert len(self.entries) == self.published
        assert self.queue.ready_count == len(ready)
        assert self.queue.ready_bytes == sum(entry.message.size for entry in ready)
        assert self.queue.unacked_count == states.count(ACQUIRED)
        assert sorted(entry.offset for entry in self._acquired()) == sorted(
            entry.offset for entry in self.entries if entry.state == ACQUIRED
        )
        assert states.count(SETTLED) + states.count(ACQUIRED) + len(ready) == self.published


@pytest.mark.hypothesis
@pytest.mark.parametrize("live", [0, 1, 2])
@pytest.mark.parametrize("grouped", GROUP_TYPES, ids=str)
@pytest.mark.parametrize("chosen", [o for o in ORDERINGS if str(o) in CHOSEN], ids=str)
def test_a_queue_that_is_selective_behaves_like_a_list(
    chosen: Ordering, grouped: GroupType, live: int
) -> None:
    class Machine(SelectiveModel):
        ordering = chosen
        group_type = grouped
        live_limit = live

    long = settings(max_examples=examples(0.25), stateful_step_count=40)
    run_state_machine_as_test(Machine, settings=long)
