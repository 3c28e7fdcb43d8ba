"""The lane of a deleted queue: what still calls the queue finds nothing to do."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.lane import CLOSED_LANE
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import NON_DESTRUCTIVE, QueueStand, numbers

from ..conftest import Publish

LANES: dict[str, dict[str, object]] = {
    "plain": {},
    "selective": {"x-message-group-type": "shared"},
    "reading": {**NON_DESTRUCTIVE},
}


@pytest.mark.parametrize("arguments", LANES.values(), ids=LANES)
def test_credit_that_comes_back_after_the_end_asks_for_nothing(
    arguments: dict[str, object],
) -> None:
    place = QueueStand(arguments)
    place.publish(*numbers(0, 3))
    consumer, browser = place.consume(1), place.browse(1)
    place.vhost.delete_queue("q", None)
    consumer.ack()
    browser.ack()
    place.queue.activate(consumer)
    assert not consumer.is_active
    place.turn.run()
    assert (len(consumer.bodies), len(browser.bodies)) == (1, 1)
    assert place.queue.consumers == []
    assert place.queue.ready_count == 0
    assert not place.queue.has_taker(make_message(b"x"))


def test_a_dispatch_that_was_asked_for_before_delivers_nothing(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    publish(b"x")
    queue.delete()
    turn.run()
    queue.deliver_due()
    assert consumer.bodies == []
    assert queue.get() is None


def test_what_comes_back_after_the_end_is_settled(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    publish(b"x", b"y")
    entries = queue.acquire(2)
    queue.delete()
    queue.settle(entries[0])
    queue.release(entries[1:])
    assert (queue.unacked_count, queue.ready_count) == (0, 0)


def test_the_lane_has_the_answers_of_an_empty_queue(queue: Queue) -> None:
    entry = QueueEntry(queue, make_message(b"x"), 0)
    consumer = RecordingConsumer(queue)
    CLOSED_LANE.on_ready(entry)
    CLOSED_LANE.on_departed(entry)
    CLOSED_LANE.activate(consumer)
    CLOSED_LANE.stop()
    assert not consumer.is_active
    assert CLOSED_LANE.run() is False
    assert CLOSED_LANE.take(10) == CLOSED_LANE.ready_entries() == []
    assert CLOSED_LANE.finished() == []
    assert CLOSED_LANE.least() is None
    assert not CLOSED_LANE.may_deliver(entry)
    assert CLOSED_LANE.selector_cost_with(consumer) == 0
    assert (len(CLOSED_LANE.consumers), CLOSED_LANE.parking.count) == (0, 0)


def test_consumers_neither_come_nor_go(queue: Queue) -> None:
    consumer = RecordingConsumer(queue)
    with pytest.raises(AssertionError, match="comes to a deleted queue"):
        CLOSED_LANE.add(consumer)
    with pytest.raises(AssertionError, match="leaves a deleted queue"):
        CLOSED_LANE.remove(consumer)
    with pytest.raises(AssertionError, match="no other lane"):
        CLOSED_LANE.hand_over_to(CLOSED_LANE)


class Watched(FifoOrder):
    __slots__ = ("__weakref__",)


def test_a_deleted_queue_is_freed_with_its_lanes_at_once() -> None:
    order, turn = Watched(), ManualTurn()
    queue = Queue("q", order, turn)
    browser, taker = RecordingConsumer(queue, "b"), RecordingConsumer(queue, "t")
    browser.is_browser = True
    queue.add_consumer(browser)
    queue.add_consumer(taker)
    turn.run()
    watched = ref(order)  # both lanes refer to it
    gc.disable()
    try:
        queue.delete()
        del order, queue, browser, taker
        assert watched() is None
    finally:
        gc.enable()
