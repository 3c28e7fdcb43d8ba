"""The lane of non-destructive queues: offsets, basic.get, and the end of the queue."""

from __future__ import annotations

import gc
import weakref

import pytest

from hareline.queues.queue import Queue
from tests.support.vhosts import NON_DESTRUCTIVE, QueueStand, numbers

PRIORITIES = {**NON_DESTRUCTIVE, "x-max-priority": 9}
SORTED = {**NON_DESTRUCTIVE, "x-sort-key": "k"}
LAST_VALUES = {**NON_DESTRUCTIVE, "x-last-value-key": "k"}


@pytest.fixture
def log() -> QueueStand:
    return QueueStand(NON_DESTRUCTIVE)


# -------------------------------------------------------------------------- what is read


@pytest.mark.row("A15")
def test_every_reader_sees_everything_and_nothing_goes(log: QueueStand) -> None:
    log.publish(*numbers(0, 5))
    early, late = log.consume(), log.consume(acknowledges=False)
    log.publish(*numbers(5, 8))
    assert early.bodies == late.bodies == numbers(0, 8)
    early.ack()
    assert log.bodies == numbers(0, 8)


@pytest.mark.row("A15")
def test_get_shows_the_first_every_time(log: QueueStand) -> None:
    assert log.queue.get() is None
    log.publish(*numbers(0, 3))
    first, second = log.queue.get(), log.queue.get()
    assert first is not None
    assert second is not None
    assert first.message.body == second.message.body == b"000"
    assert log.queue.unacked_count == 2
    first.queue.settle(first)
    second.queue.release([second])
    assert log.queue.unacked_count == 0
    assert log.queue.ready_count == 3


@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES, SORTED, LAST_VALUES], ids=str)
def test_each_message_carries_its_offset(arguments: dict[str, object]) -> None:
    queue = QueueStand(arguments)
    reader = queue.consume()
    queue.publish(*numbers(0, 3))
    queue.publish(b"claims", headers={"x-stream-offset": "mine", "other": 1})
    headers = [entry.message.headers for entry in reader.unacked]
    assert [header["x-stream-offset"] for header in headers] == [0, 1, 2, 3]
    assert headers[3]["other"] == 1


def test_a_message_keeps_its_other_properties_and_its_body(log: QueueStand) -> None:
    reader = log.consume()
    log.publish(b"body", content_type="text/plain", delivery_mode=2, message_id="m")
    message = reader.unacked[0].message
    assert message.body == b"body"
    assert message.properties.content_type == "text/plain"
    assert message.properties.delivery_mode == 2
    assert message.properties.message_id == "m"


@pytest.mark.row("A28")
def test_messages_expire_from_a_non_destructive_queue() -> None:
    queue = QueueStand({**NON_DESTRUCTIVE, "x-message-ttl": 1000})
    reader = queue.consume()
    queue.publish(*numbers(0, 3))
    queue.timers.advance(500)
    queue.publish(*numbers(3, 5))
    queue.timers.advance(500)
    assert queue.bodies == numbers(3, 5)
    assert queue.consume().bodies == numbers(3, 5)
    queue.timers.advance(500)
    assert queue.bodies == []
    assert reader.bodies == numbers(0, 5)


class Probe:
    """Held by a queue alone, so it goes when the queue goes."""

    def __call__(self, queue: Queue) -> None:
        """Nothing to do when the last consumer leaves."""


def test_a_deleted_log_is_freed_without_the_collector() -> None:
    log = QueueStand({"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 10})
    log.publish(*numbers(0, 3))
    log.consume(acknowledges=False)
    log.queue.on_unused = Probe()
    probe = weakref.ref(log.queue.on_unused)
    gc.disable()
    try:
        log.vhost.delete_queue("q", None)
        del log.queue
        log.timers.advance(20_000)  # lets go of the timers that were cancelled
        assert probe() is None
    finally:
        gc.enable()
