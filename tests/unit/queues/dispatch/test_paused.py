"""A paused queue: takes in, gives nothing, and goes on where it stopped."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.broker.stream_queue import stream_of
from hareline.queues.dispatch.plain import PlainLane
from hareline.queues.dispatch.selective import SelectiveLane
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.vhosts import QueueStand

TYPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "priority": {"x-max-priority": 3},
    "groups": {"x-message-group-key": "g"},
    "single": {"x-single-active-consumer": True},
    "log": {"x-non-destructive": True},
    "limited": {"x-max-length": 100},
}


@pytest.mark.parametrize("name", TYPES)
def test_nothing_is_delivered_until_it_goes_on(name: str) -> None:
    stand = QueueStand(TYPES[name])
    before = stand.consume(prefetch_count=10)
    stand.publish(b"1")
    stand.queue.set_paused(True)
    was_paused = stand.queue.is_paused
    during = stand.consume(prefetch_count=10)
    stand.publish(b"2", b"3")
    assert before.bodies + during.bodies == [b"1"] or name == "log"
    assert stand.queue.get() is None
    assert not stand.queue.has_taker(make_message(b"x"))
    stand.queue.set_paused(False)
    assert (was_paused, stand.queue.is_paused) == (True, False)
    stand.turn.run()
    got = sorted(before.bodies + during.bodies)
    assert got == ([b"1", b"1", b"2", b"2", b"3", b"3"] if name == "log" else [b"1", b"2", b"3"])


def test_pausing_twice_is_pausing_once() -> None:
    stand = QueueStand({})
    stand.queue.set_paused(True)
    stand.queue.set_paused(True)
    stand.queue.set_paused(False)
    stand.queue.set_paused(False)
    assert isinstance(stand.queue.lane, PlainLane)


def test_settling_and_releasing_go_on() -> None:
    stand = QueueStand({})
    consumer = stand.consume(prefetch_count=5)
    stand.publish(b"1", b"2")
    stand.queue.set_paused(True)
    stand.queue.settle(consumer.unacked[0])
    stand.queue.release([consumer.unacked[1]])
    stand.turn.run()
    assert (stand.queue.ready_count, stand.queue.unacked_count) == (1, 0)
    assert consumer.bodies == [b"1", b"2"]


def test_consumers_with_selectors_come_and_go_while_it_is_paused() -> None:
    stand = QueueStand({})
    stand.publish(b"1")
    stand.queue.set_paused(True)
    choosy = stand.consume(selector="JMSPriority > 100")
    lane = stand.queue.lane
    assert isinstance(lane, SelectiveLane)
    plain = stand.consume(acknowledges=False)
    stand.queue.remove_consumer(choosy)
    stand.queue.set_paused(False)
    assert isinstance(stand.queue.lane, PlainLane)
    stand.turn.run()
    assert plain.bodies == [b"1"]


def test_a_consumer_that_leaves_gets_nothing_and_the_next_is_active() -> None:
    stand = QueueStand(TYPES["single"])
    first, second = stand.consume(acknowledges=False), stand.consume(acknowledges=False)
    stand.queue.set_paused(True)
    stand.publish(b"1")
    stand.queue.remove_consumer(first)
    assert second.is_live
    stand.queue.set_paused(False)
    stand.turn.run()
    assert (first.bodies, second.bodies) == ([], [b"1"])


def test_what_expires_and_what_is_too_much_leaves_while_it_is_paused() -> None:
    stand = QueueStand({"x-message-ttl": 100, "x-max-length": 3})
    stand.queue.set_paused(True)
    stand.publish(b"1", b"2", b"3", b"4")
    assert stand.queue.ready_count == 3
    stand.timers.advance(200)
    assert stand.queue.ready_count == 0


def test_a_paused_stream_is_one_and_drops_what_it_keeps_no_longer() -> None:
    stand = QueueStand({"x-queue-type": "stream", "x-max-length-bytes": 3})
    stand.queue.set_paused(True)
    stand.publish(b"1", b"2", b"3", b"4", b"5")
    assert stand.queue.ready_count == 3
    stream = stream_of(stand.queue)
    assert stream is not None
    moved: list[int] = []
    stream.when_moved(lambda: moved.append(1))
    stand.publish(b"6")
    assert moved == [1]


def test_a_paused_queue_can_be_purged_and_deleted() -> None:
    stand = QueueStand({})
    consumer = stand.consume()
    stand.queue.set_paused(True)
    stand.publish(b"1", b"2")
    assert stand.queue.purge() == 2
    stand.publish(b"3")
    assert stand.vhost.delete_queue("q", None) == 1
    assert consumer.is_told_of_end


def test_a_consumer_that_closes_at_the_end_waits_for_it() -> None:
    stand = QueueStand({})
    stand.publish(b"1")
    stand.queue.set_paused(True)
    consumer = RecordingConsumer(stand.queue, acknowledges=False)
    consumer.closes_at_end = True
    stand.queue.add_consumer(consumer)
    stand.turn.run()
    assert not consumer.is_cancelled
    stand.queue.set_paused(False)
    stand.turn.run()
    assert consumer.bodies == [b"1"]
    assert consumer.is_cancelled
