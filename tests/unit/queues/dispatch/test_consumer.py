"""What a queue knows of a consumer: its credit, and when it may receive again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.core.credit import UNLIMITED, CreditWindow
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

from ..conftest import Publish


def test_no_prefetch_count_is_unlimited_credit(queue: Queue) -> None:
    assert RecordingConsumer(queue).credit == UNLIMITED


def test_the_prefetch_count_is_the_first_credit(queue: Queue) -> None:
    assert RecordingConsumer(queue, prefetch_count=7).credit == 7


def test_a_count_does_not_apply_to_a_consumer_that_does_not_acknowledge(queue: Queue) -> None:
    """RabbitMQ: a no-ack consumer ignores its prefetch, for it never gives credit back."""
    consumer = RecordingConsumer(queue, acknowledges=False, prefetch_count=7)
    assert consumer.credit == UNLIMITED


def test_a_consumer_that_does_not_acknowledge_waits_for_a_window_and_uses_none_of_it(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    """RabbitMQ: ``rabbit_limiter:can_send``."""
    window = CreditWindow(limit_count=1)
    consumer = RecordingConsumer(queue, acknowledges=False, windows=(window,))
    queue.add_consumer(consumer)
    publish(b"1", b"2", b"3")
    turn.run()
    assert (consumer.bodies, window.used_count) == ([b"1", b"2", b"3"], 0)
    window.count(1)
    publish(b"4", b"5")
    turn.run()
    assert consumer.bodies == [b"1", b"2", b"3"]
    window.restore(1)
    turn.run()
    assert consumer.bodies == [b"1", b"2", b"3", b"4", b"5"]
    assert window.used_count == 0


def test_credit_that_comes_back_to_an_exhausted_consumer_makes_it_active(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, prefetch_count=1)
    queue.add_consumer(consumer)
    publish(b"1", b"2")
    turn.run()
    assert not queue.lane.may_deliver(queue.lane.ready_entries()[0])
    consumer.ack()
    assert consumer.is_active
    turn.run()
    assert consumer.bodies == [b"1", b"2"]


def test_credit_that_comes_back_is_added_to_what_is_left(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, prefetch_count=5)
    queue.add_consumer(consumer)
    publish(b"1", b"2", b"3")
    turn.run()
    assert consumer.credit == 2
    consumer.ack(2)
    assert consumer.credit == 4


def test_credit_that_comes_back_is_given_to_every_window(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    octets, shared = CreditWindow(0, 1000), CreditWindow(10)
    consumer = RecordingConsumer(queue, windows=(octets, shared))
    queue.add_consumer(consumer)
    publish(b"four", b"more")
    turn.run()
    assert (octets.used_bytes, shared.used_count) == (8, 2)
    consumer.ack(1)
    assert (octets.used_bytes, octets.used_count) == (4, 1)
    assert (shared.used_bytes, shared.used_count) == (4, 1)


def test_a_cancelled_consumer_is_not_activated_by_its_last_acks(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, prefetch_count=1)
    queue.add_consumer(consumer)
    publish(b"1", b"2")
    turn.run()
    queue.remove_consumer(consumer)
    consumer.ack()
    turn.run()
    assert not consumer.is_active
    assert consumer.bodies == [b"1"]
    assert queue.ready_count == 1


@pytest.mark.parametrize("room", [-1, UNLIMITED])
def test_a_consumer_in_a_ring_has_credit(
    queue: Queue, turn: ManualTurn, publish: Publish, room: int
) -> None:
    consumer = RecordingConsumer(queue, prefetch_count=2)
    consumer.room = room
    queue.add_consumer(consumer)
    for _ in range(3):
        assert not consumer.is_active or consumer.credit > 0
        publish(b"x")
        turn.run()
    assert consumer.credit == (2 if room < 0 else 0)


# ------------------------------------------------------------------------------- the refill


def refilled(queue: Queue, prefetch_count: int, refill_percent: int) -> RecordingConsumer:
    consumer = RecordingConsumer(
        queue, prefetch_count=prefetch_count, refill_percent=refill_percent
    )
    queue.add_consumer(consumer)
    return consumer


@given(count=st.integers(1, 30), percent=st.integers(1, 100), data=st.data())
def test_a_used_up_consumer_waits_until_few_enough_are_unacked(
    count: int, percent: int, data: st.DataObject
) -> None:
    turn = ManualTurn()
    queue = Queue("q", FifoOrder(), turn)
    consumer = refilled(queue, count, percent)
    for number in range(30 * 6):
        queue.enqueue(make_message(b"%d" % number))
    turn.run()
    for _ in range(5):
        assert len(consumer.unacked) == count
        enough = max(1, count - count * percent // 100)
        acked = 0
        while acked < enough:
            assert len(consumer.unacked) == count - acked
            step = data.draw(st.integers(1, enough - acked))
            acked += step
            (consumer.ack if data.draw(st.booleans()) else consumer.release)(step)
            queue.activate(consumer)  # what a socket that drained would do
            turn.run()


def test_what_was_not_taken_uses_up_nothing(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    """Its output filled up in the middle: the rest of its credit needs no refill."""
    consumer = refilled(queue, 4, 50)
    consumer.room = 2  # three octets at most
    publish(b"1", b"2", b"3", b"4")
    turn.run()
    assert len(consumer.unacked) < 4
    consumer.drain()
    turn.run()
    assert consumer.bodies == [b"1", b"2", b"3", b"4"]
    consumer.ack(1)
    assert consumer.credit <= 0
    consumer.ack(1)
    assert consumer.credit == 2


def test_acks_while_its_output_is_full_do_not_make_it_active(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    """The recorder fails when it is asked again while it waits for its output."""
    consumer = refilled(queue, 4, 50)
    publish(b"1", b"2", b"3")
    turn.run()
    consumer.fill()
    publish(b"4", b"5")
    turn.run()
    assert not consumer.is_active
    for _ in range(3):
        consumer.ack(1)
        turn.run()
        assert not consumer.is_active
    consumer.drain()
    turn.run()
    assert consumer.bodies[3:] == [b"4", b"5"]


def test_its_repr_names_tag_queue_and_credit(queue: Queue) -> None:
    assert repr(RecordingConsumer(queue, "tag", prefetch_count=3)) == (
        "<Consumer 'tag' of 'q', credit 3>"
    )
