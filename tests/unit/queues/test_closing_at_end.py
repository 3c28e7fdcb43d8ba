"""Consumers that are let go when nothing is left for them, those that take and those that read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.queues.core.consumer import Consumer
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.vhosts import NON_DESTRUCTIVE, QueueStand, numbers

GROUPS = {"x-message-group-type": "standard"}


@pytest.fixture
def plain() -> QueueStand:
    return QueueStand({})


def is_closed(consumer: RecordingConsumer) -> bool:
    assert consumer.is_cancelled == consumer.is_told_of_end
    return consumer.is_cancelled


# ------------------------------------------------------------------------- in the plain lane


def test_a_consumer_of_an_empty_queue_is_let_go_at_once(plain: QueueStand) -> None:
    consumer = plain.consume(closes_at_end=True)
    assert is_closed(consumer)
    assert plain.queue.consumers == []


@pytest.mark.parametrize("acknowledges", [True, False])
def test_a_consumer_is_let_go_when_it_has_got_everything(
    plain: QueueStand, acknowledges: bool
) -> None:
    plain.publish(*numbers(0, 5000))
    consumer = plain.consume(closes_at_end=True, acknowledges=acknowledges)
    assert consumer.bodies == numbers(0, 5000)
    assert is_closed(consumer)
    assert plain.queue.unacked_count == (5000 if acknowledges else 0)


def test_others_stay(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 4))
    stays = plain.consume(1)
    closes = plain.consume(closes_at_end=True)
    assert is_closed(closes)
    stays.ack()
    plain.publish(b"more")
    assert stays.bodies == [b"000", b"more"]


def test_a_consumer_without_credit_stays_while_there_is_something(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 4))
    consumer = plain.consume(2, closes_at_end=True)
    assert not is_closed(consumer)
    consumer.ack(1)
    plain.turn.run()
    assert not is_closed(consumer)
    consumer.ack(1)
    plain.turn.run()
    assert consumer.bodies == numbers(0, 4)
    assert is_closed(consumer)


def test_what_it_waited_for_may_go_another_way(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 4))
    consumer = plain.consume(2, closes_at_end=True)
    plain.queue.purge()
    consumer.ack()
    plain.turn.run()
    assert consumer.bodies == numbers(0, 2)
    assert is_closed(consumer)


def test_what_was_not_handed_over_keeps_it(plain: QueueStand) -> None:
    plain.publish(*numbers(0, 4))
    consumer = plain.consume(closes_at_end=True, room=0)
    assert consumer.bodies == [b"000"]
    assert not is_closed(consumer)
    consumer.drain()
    plain.turn.run()
    assert consumer.bodies == numbers(0, 4)
    assert is_closed(consumer)


def test_one_that_waits_for_another_to_leave_has_its_turn() -> None:
    queue = QueueStand({"x-single-active-consumer": True})
    active, waiting = queue.consume(), queue.consume(closes_at_end=True)
    queue.publish(b"1")
    assert not is_closed(waiting)
    queue.queue.remove_consumer(active)
    active.release()
    queue.turn.run()
    assert waiting.bodies == [b"1"]
    assert is_closed(waiting)


def test_of_several_that_wait_each_is_let_go_in_turn() -> None:
    queue = QueueStand({"x-single-active-consumer": True})
    queue.accept(b"1")
    consumers = [RecordingConsumer(queue.queue, tag) for tag in "abc"]
    for consumer in consumers:
        consumer.closes_at_end = True
        queue.queue.add_consumer(consumer)
    queue.turn.run()
    assert [consumer.bodies for consumer in consumers] == [[b"1"], [], []]
    assert all(is_closed(consumer) for consumer in consumers)


# --------------------------------------------------------------------- in the selective lane


def test_what_a_selector_leaves_does_not_keep_it(plain: QueueStand) -> None:
    for number in range(6):
        plain.publish(b"%d" % number, headers={"even": number % 2 == 0})
    consumer = plain.consume(closes_at_end=True, selector="even = TRUE")
    assert consumer.bodies == [b"0", b"2", b"4"]
    assert is_closed(consumer)
    assert plain.bodies == [b"1", b"3", b"5"]


def test_what_is_parked_for_it_does(plain: QueueStand) -> None:
    for number in range(6):
        plain.publish(b"%d" % number, headers={"even": number % 2 == 0})
    consumer = plain.consume(2, closes_at_end=True, selector="even = TRUE")
    other = plain.consume(selector="even = FALSE")
    assert other.bodies == [b"1", b"3", b"5"]
    assert not is_closed(consumer)
    consumer.ack()
    plain.turn.run()
    assert consumer.bodies == [b"0", b"2", b"4"]
    assert is_closed(consumer)


def test_what_another_s_group_holds_is_not_for_it() -> None:
    queue = QueueStand(GROUPS)
    owner = queue.consume(1)
    for number in range(3):
        queue.publish(b"%d" % number, headers={"JMSXGroupID": "g"})
    assert owner.bodies == [b"0"]
    assert is_closed(queue.consume(closes_at_end=True))
    assert not owner.is_cancelled


# ------------------------------------------------------------------ the last takes its queue along


def no_more(queue: Queue) -> object:
    return queue.purge()


def get(queue: Queue) -> object:
    return queue.get()


def consume(queue: Queue) -> object:
    queue.add_consumer(RecordingConsumer(queue, "second"))
    return True


@pytest.mark.parametrize("arguments", [{}, NON_DESTRUCTIVE], ids=["plain", "log"])
@pytest.mark.parametrize("is_browser", [True, False])
@pytest.mark.parametrize("then", [no_more, get, consume])
def test_it_is_let_go_at_the_end_of_the_turn_and_not_before(
    arguments: dict[str, object], is_browser: bool, then: Callable[[Queue], object]
) -> None:
    """What a client sends in the same breath still finds the queue."""
    queue = QueueStand(arguments, is_auto_delete=True)
    queue.publish(*numbers(0, 3))
    consumer = RecordingConsumer(queue.queue, "first")
    consumer.closes_at_end = True
    consumer.is_browser = is_browser and not arguments
    queue.queue.add_consumer(consumer)
    then(queue.queue)
    assert not queue.queue.is_deleted
    queue.turn.run()
    others: list[Consumer] = [one for one in queue.queue.consumers if one is not consumer]
    assert is_closed(consumer)
    assert queue.queue.is_deleted == (not others)


@pytest.mark.parametrize("arguments", [{}, NON_DESTRUCTIVE], ids=["plain", "log"])
def test_a_queue_that_is_deleted_before_its_turn_ends_comes_to_rest(
    arguments: dict[str, object],
) -> None:
    queue = QueueStand(arguments, is_auto_delete=True)
    queue.accept(b"1")
    consumer = RecordingConsumer(queue.queue)
    consumer.closes_at_end = True
    queue.queue.add_consumer(consumer)
    queue.queue.remove_consumer(consumer)
    assert queue.queue.is_deleted
    queue.turn.run()
    assert not consumer.is_told_of_end
