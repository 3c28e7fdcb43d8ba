"""A queue under arbitrary sequences of everything that can happen to it, against a plain list.

Nothing is lost, nothing is there twice, order is kept, limits are kept, nobody who could receive is
left waiting, and the books are right at every moment.
"""

from __future__ import annotations

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

from hareline.message import UNWRITTEN, Message
from hareline.queues.core import lane as lane_module
from hareline.queues.core.credit import UNLIMITED, CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dispatch import plain
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

from .orderings import ORDERINGS, Ordering

#: Small, so that the shares of a turn and the limits of a batch are reached all the time.
SHARE_ENTRIES = 16
BATCH_ENTRIES = 6
BATCH_BYTES = 400

ROOMS = st.sampled_from([UNLIMITED, -1, 0, 60, 150, 700])


class QueueModel(RuleBasedStateMachine):
    """``ready`` is what the queue should hold, sorted; every message is an entry of its own.

    ``got`` holds what basic.get was given and has not settled, ``gone`` the number of messages that
    left for good.
    """

    ordering: Ordering

    @initialize()
    def start(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(lane_module, "ENTRIES_PER_TURN", SHARE_ENTRIES)
        self.patch.setattr(plain, "BATCH_ENTRIES", BATCH_ENTRIES)
        self.patch.setattr(plain, "BATCH_BYTES", BATCH_BYTES)
        self.turn, self.queue = self.make_queue()
        self.shared = CreditWindow()
        self.ready: list[bytes] = []
        self.places: dict[bytes, Any] = {}
        self.releases: dict[bytes, int] = {}
        self.consumers: list[RecordingConsumer] = []
        self.limits: dict[RecordingConsumer, int] = {}
        self.cancelled: list[RecordingConsumer] = []
        self.got: list[QueueEntry] = []
        self.gone = 0
        self.published = 0

    def make_queue(self) -> tuple[ManualTurn, Queue]:
        turn = ManualTurn()
        return turn, Queue("q", self.ordering.make(), turn)

    def take_in(self, message: Message) -> None:
        self.queue.enqueue(message)

    def is_persistent(self, number: int) -> bool:
        """Whether the message of this number is published as one that must survive."""
        return False

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    # ------------------------------------------------------------------ messages

    @rule(sizes=st.lists(st.sampled_from([6, 6, 6, 6, 7, 50, 300]), min_size=1, max_size=40))
    def publish(self, sizes: list[int]) -> None:
        for size in sizes:
            body = (b"%06d" % self.published).ljust(size, b".")
            message = make_message(body, priority=self.published * 7 % 10)
            if self.is_persistent(self.published):
                message.position = UNWRITTEN
            self.places[body] = self.ordering.place(QueueEntry(self.queue, message, self.published))
            before = self._delivery_counts()
            self.take_in(message)
            self.published += 1
            self._make_ready([body])
            self._account_for_deliveries(before)

    @rule(is_acknowledged=st.booleans())
    def get(self, is_acknowledged: bool) -> None:
        entries = self.queue.acquire(1)
        assert [entry.message.body for entry in entries] == self.ready[:1]
        del self.ready[:1]
        for entry in entries:
            assert entry.consumer is None
            assert entry.delivery_count == self.releases.get(entry.message.body, 0)
            if is_acknowledged:
                self.got.append(entry)
            else:
                self.queue.settle(entry)
                self.gone += 1

    @precondition(lambda self: self.got)
    @rule(data=st.data(), is_accepted=st.booleans())
    def settle_or_release_what_was_got(self, data: st.DataObject, is_accepted: bool) -> None:
        entry = self.got.pop(data.draw(st.integers(0, len(self.got) - 1)))
        if is_accepted:
            self.queue.settle(entry)
            self.gone += 1
        else:
            self.queue.release([entry])
            self._released([entry])

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.gone += len(self.ready)
        self.ready.clear()

    # ----------------------------------------------------------------- consumers

    @rule(
        prefetch=st.sampled_from([0, 0, 1, 2, 5, 50]),
        octets=st.sampled_from([0, 0, 0, 6, 20, 500]),
        priority=st.sampled_from([0, 0, 0, 1, -1]),
        acknowledges=st.booleans(),
        is_sharing=st.booleans(),
        room=ROOMS,
    )
    def consume(
        self,
        prefetch: int,
        octets: int,
        priority: int,
        acknowledges: bool,
        is_sharing: bool,
        room: int,
    ) -> None:
        windows = (CreditWindow(0, octets),) if octets else ()
        consumer = RecordingConsumer(
            self.queue,
            acknowledges=acknowledges,
            prefetch_count=prefetch,
            priority=priority,
            windows=(*windows, self.shared) if is_sharing else windows,
        )
        consumer.room = room
        self.limits[consumer] = prefetch if acknowledges else 0
        before = self._delivery_counts()
        self.queue.add_consumer(consumer)
        self._account_for_deliveries(before)
        assert consumer.bodies == [], "given what was due to others"
        self.consumers.append(consumer)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        consumer = self._draw_consumer(data)
        self.consumers.remove(consumer)
        self.cancelled.append(consumer)
        self.queue.remove_consumer(consumer)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def output_fills_up(self, data: st.DataObject) -> None:
        self._draw_consumer(data).fill()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), room=ROOMS)
    def output_drains(self, data: st.DataObject, room: int) -> None:
        self._draw_consumer(data).drain(room)

    @precondition(lambda self: any(one.unacked for one in self.consumers + self.cancelled))
    @rule(data=st.data(), count=st.integers(1, 20))
    def ack(self, data: st.DataObject, count: int) -> None:
        consumer = self._draw_busy_consumer(data)
        self.gone += len(consumer.unacked[:count])
        consumer.ack(count)

    @precondition(lambda self: any(one.unacked for one in self.consumers + self.cancelled))
    @rule(data=st.data())
    def release_in_any_sequence(self, data: st.DataObject) -> None:
        consumer = self._draw_busy_consumer(data)
        consumer.unacked = data.draw(st.permutations(consumer.unacked))
        count = data.draw(st.integers(1, len(consumer.unacked)))
        entries = consumer.unacked[:count]
        consumer.release(count)
        self._released(entries)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def channel_ends(self, data: st.DataObject) -> None:
        """Cancelled first, then everything unacked comes back at once."""
        consumer = self._draw_consumer(data)
        self.consumers.remove(consumer)
        self.queue.remove_consumer(consumer)
        entries = list(consumer.unacked)
        consumer.release()
        self._released(entries)

    @rule(count=st.sampled_from([0, 1, 3, 10]), octets=st.sampled_from([0, 0, 10, 400]))
    def limit_the_channel(self, count: int, octets: int) -> None:
        self.shared.resize(count, octets)

    # ------------------------------------------------------------------- the turn

    @rule()
    def finish_turn(self) -> None:
        if self.turn.is_armed:
            before = self._delivery_counts()
            self.turn.step()
            self._account_for_deliveries(before)

    @rule()
    def deliver_what_is_due(self) -> None:
        """Before something looks at the queue; the turn that was asked for is still to come."""
        before = self._delivery_counts()
        self.queue.deliver_due()
        self._account_for_deliveries(before)

    @rule()
    def finish_all_turns(self) -> None:
        before = self._delivery_counts()
        self.turn.run()
        self._account_for_deliveries(before)
        if self.ready:
            for consumer in self.consumers:
                assert not self._could_take_the_next(consumer), consumer

    def _delivery_counts(self) -> list[int]:
        return [len(consumer.bodies) for consumer in self.consumers]

    def _account_for_deliveries(self, before: list[int]) -> None:
        delivered: list[bytes] = []
        for consumer, count in zip(self.consumers, before, strict=True):
            bodies = consumer.bodies[count:]
            assert bodies == sorted(bodies, key=self._place), "delivered out of order"
            flags = consumer.redelivered[count:]
            assert flags == [body in self.releases for body in bodies]
            delivered += bodies
            if not consumer.acknowledges:
                self.gone += len(bodies)
        delivered.sort(key=self._place)
        assert delivered == self.ready[: len(delivered)], "not the next ones"
        del self.ready[: len(delivered)]

    def _could_take_the_next(self, consumer: RecordingConsumer) -> bool:
        """A window that was too small for one entry is asked again when something is given back.

        By then the next entry may be a smaller one, which others have uncovered.
        """
        return (
            consumer.credit > 0
            and consumer.room >= 0
            and not any(consumer in window.waiting for window in consumer.windows)
        )

    # ---------------------------------------------------------------------- books

    @invariant()
    def the_books_are_right(self) -> None:
        unacked = [entry for one in self.consumers + self.cancelled for entry in one.unacked]
        assert self.queue.ready_count == len(self.ready)
        assert self.queue.ready_bytes == sum(len(body) for body in self.ready)
        assert self.queue.unacked_count == len(unacked) + len(self.got)
        assert self.published == len(self.ready) + self.queue.unacked_count + self.gone

    @invariant()
    def limits_are_kept(self) -> None:
        for consumer in self.consumers:
            limit = self.limits[consumer]
            if limit:
                assert consumer.credit == limit - len(consumer.unacked)
                assert consumer.credit >= 0
            assert not consumer.is_active or consumer.credit > 0
            for window in consumer.windows:
                if window is not self.shared:
                    sizes = [entry.message.size for entry in consumer.unacked]
                    assert window.used_bytes == sum(sizes)
                    assert len(sizes) <= 1 or sum(sizes) <= window.limit_bytes
        sharing = [
            entry
            for one in self.consumers + self.cancelled
            if self.shared in one.windows
            for entry in one.unacked
        ]
        assert self.shared.used_count == len(sharing)
        assert self.shared.used_bytes == sum(entry.message.size for entry in sharing)

    @invariant()
    def who_waits_for_a_window_will_be_woken(self) -> None:
        """Something is outstanding, and will be settled; or a turn is to come."""
        for consumer in self.consumers:
            for window in consumer.windows:
                if not self.turn.is_armed:
                    assert consumer not in window.invited
                    assert consumer not in window.waiting or window.used_count > 0

    @invariant()
    def consumers_in_a_ring_are_those_that_are_active(self) -> None:
        lane = self.queue.lane
        assert isinstance(lane, plain.PlainLane)
        in_rings = [one for _, ring in lane._rings.by_precedence for one in ring]
        if self.turn.is_armed:  # what was removed in this turn may be on its way out
            in_rings = [one for one in in_rings if not one.is_cancelled]
        assert len(in_rings) == len(set(in_rings))
        assert set(in_rings) == {one for one in self.consumers if one.is_active}
        assert not any(one.is_active for one in self.cancelled)

    # --------------------------------------------------------------------- helpers

    def _draw_consumer(self, data: st.DataObject) -> RecordingConsumer:
        return data.draw(st.sampled_from(self.consumers))

    def _draw_busy_consumer(self, data: st.DataObject) -> RecordingConsumer:
        """A consumer, or one that was cancelled, with deliveries that wait to be settled."""
        everybody = self.consumers + self.cancelled
        return data.draw(st.sampled_from([one for one in everybody if one.unacked]))

    def _released(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            body = entry.message.body
            self.releases[body] = self.releases.get(body, 0) + 1
            assert entry.delivery_count == self.releases[body]
        self._make_ready([entry.message.body for entry in entries])

    def _make_ready(self, bodies: list[bytes]) -> None:
        self.ready += bodies
        self.ready.sort(key=self._place)

    def _place(self, body: bytes) -> Any:
        return self.places[body]


@pytest.mark.hypothesis
@pytest.mark.parametrize("chosen", ORDERINGS, ids=str)
def test_a_queue_behaves_like_a_list_and_its_readers(chosen: Ordering) -> None:
    class Machine(QueueModel):
        ordering = chosen

    run_state_machine_as_test(Machine)
