"""A queue with audit: one event for each thing that happens to an entry, compared whole."""

from __future__ import annotations

from typing import Any

from hareline.broker.audit.queue import AuditedQueue
from hareline.queues.core.audit_recorder import AUDIT_STREAM
from hareline.queues.queue import Queue
from tests.support.audits import AuditStand, Event
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import declare, make_vhost


def event(word: str, offset: int, size: int = 1, *, queue: str = "q", **further: Any) -> Event:
    """What an event of an entry says, but for its time."""
    count = {} if word == "routed" else {"delivery_count": 0}
    place = {"queue": queue, "offset": offset, "exchange": "", "routing_key": queue}
    return {"event": word, **place, "size": size, **count, **further}


def consume(queue: Queue, tag: str = "c", **options: Any) -> RecordingConsumer:
    consumer = RecordingConsumer(queue, tag, **options)
    queue.add_consumer(consumer)
    return consumer


def test_a_queue_without_audit_is_a_plain_one() -> None:
    assert type(declare(make_vhost(ManualTurn()))) is Queue


def test_the_audit_stream_itself_is_not_audited(stand: AuditStand) -> None:
    stream = stand.vhost.queues[AUDIT_STREAM]
    assert type(stream) is Queue
    assert type(stand.queue()) is AuditedQueue
    consume(stream, prefetch_count=1)
    stand.put(stand.queue(), b"x")
    assert [each["event"] for each in stand.events()] == ["routed"]
    assert stand.events() == []


def test_a_message_in_and_out_by_get(stand: AuditStand) -> None:
    queue = stand.queue()
    stand.put(queue, b"one", b"three")
    entry = queue.get()
    assert entry is not None
    queue.settle(entry)
    assert stand.events() == [
        event("routed", 0, 3),
        event("routed", 1, 5),
        event("delivered", 0, 3),
        event("acked", 0, 3),
    ]


def test_plain_publishes_are_routed_too(stand: AuditStand) -> None:
    queue = stand.queue()
    queue.enqueue(make_message(b"x", exchange="amq.topic", routing_key='a "b" \u00e4'))
    (routed,) = stand.events()
    assert (routed["exchange"], routed["routing_key"]) == ("amq.topic", 'a "b" \u00e4')


def test_those_that_come_together_are_routed_one_by_one(stand: AuditStand) -> None:
    queue = stand.queue()
    queue.enqueue_run([make_message(b"1"), make_message(b"22")])
    assert [(each["offset"], each["size"]) for each in stand.events()] == [(0, 1), (1, 2)]


def test_what_is_not_acknowledged_leaves_when_it_is_delivered(stand: AuditStand) -> None:
    queue = stand.queue()
    consume(queue, acknowledges=False)
    stand.put(queue, b"1", b"2")
    assert stand.events() == [
        event("routed", 0),
        event("routed", 1),
        event("acked", 0, reason="automatic"),
        event("acked", 1, reason="automatic"),
    ]


def test_rejects_and_requeues_name_the_consumer(stand: AuditStand) -> None:
    queue = stand.queue()
    consumer = consume(queue, "tag \u00fc", prefetch_count=2)
    stand.put(queue, b"1", b"2")
    stand.turn.run()
    first, second = consumer.unacked
    first.consumer = second.consumer = consumer
    queue.remove_consumer(consumer)
    queue.release([first])
    queue.reject([second])
    assert stand.events()[2:] == [
        event("requeued", 0, consumer_tag="tag \u00fc", delivery_count=1),
        event("rejected", 1, consumer_tag="tag \u00fc"),
    ]


def test_a_message_that_came_back_too_often_is_dropped(stand: AuditStand) -> None:
    queue = stand.queue(x_delivery_limit=1, x_queue_type="quorum")
    stand.put(queue, b"1")
    for _ in range(2):
        entry = queue.get()
        assert entry is not None
        queue.release([entry])
    assert stand.events() == [
        event("routed", 0),
        event("delivered", 0),
        event("requeued", 0, delivery_count=1),
        event("delivered", 0, delivery_count=1),
        event("requeued", 0, delivery_count=2),
        event("dropped", 0, delivery_count=2, reason="delivery_limit"),
    ]


def test_expiry_limits_and_newer_values_are_told_apart(stand: AuditStand) -> None:
    stand.put(stand.queue("timed", x_message_ttl=10), b"1")
    stand.timers.advance(10)
    stand.put(stand.queue("short", x_max_length=1), b"1", b"2")
    stand.put(stand.queue("last", x_last_value_key="k"), b"1", b"2", headers={"k": "same"})
    left = [each for each in stand.events() if each["event"] != "routed"]
    assert left == [
        event("expired", 0, queue="timed"),
        event("dropped", 0, queue="short", reason="maxlen"),
        event("dropped", 0, queue="last", reason="replaced"),
    ]


def test_what_a_stream_no_longer_keeps_is_dropped(stand: AuditStand) -> None:
    stream = stand.queue("s", x_queue_type="stream", x_max_length_bytes=2)
    stand.put(stream, b"11", b"22")
    assert stand.events()[2:] == [event("dropped", 0, 2, queue="s", reason="retention")]


def test_readers_acknowledge_and_browsers_do_not(stand: AuditStand) -> None:
    stream = stand.queue("s", x_queue_type="stream")
    reader = consume(stream, "r", prefetch_count=2)
    stand.put(stream, b"1", b"2")
    stand.turn.run()
    for reading in reader.unacked:
        reading.consumer = reader
    kept, given_back = reader.unacked
    kept.queue.settle(kept)
    given_back.queue.release([given_back])
    assert stand.events()[2:] == [event("acked", 0, queue="s", consumer_tag="r")]
    assert stream.unacked_count == 0


def test_a_purge_is_one_event_with_the_range(stand: AuditStand) -> None:
    queue = stand.queue()
    stand.put(queue, *[b"x"] * 5)
    assert queue.get() is not None
    assert queue.purge() == 4
    purged = {"event": "dropped", "queue": "q", "offset": 1, "last_offset": 4}
    assert stand.events()[-1] == {**purged, "reason": "purged", "count": 4}
    assert queue.purge() == 0
    assert stand.events() == []


def test_a_deleted_queue_tells_of_what_was_in_it_and_of_what_comes_back(stand: AuditStand) -> None:
    queue = stand.queue()
    stand.put(queue, b"1", b"2", b"3")
    back, rejected = queue.get(), queue.get()
    assert back is not None
    assert rejected is not None
    stand.vhost.delete_queue("q", None)
    back.queue.release([back])
    rejected.queue.reject([rejected])
    gone = {"event": "dropped", "queue": "q", "offset": 2, "last_offset": 2}
    assert stand.events()[5:] == [
        {**gone, "reason": "deleted", "count": 1},
        event("dropped", 0, reason="deleted"),
        event("rejected", 1),
    ]


def test_messages_that_cannot_be_read_are_dropped(stand: AuditStand) -> None:
    queue = stand.queue()
    stand.put(queue, b"1")
    entry = queue.order.peek()
    assert entry is not None
    queue.on_lost([entry], are_in_place=True)
    queue.on_pages_left(7, 0, 0, reason="unreadable")
    assert stand.events()[1:] == [
        event("dropped", 0, reason="unreadable"),
        {"event": "dropped", "queue": "q", "reason": "unreadable", "count": 7},
    ]


def test_what_is_taken_and_not_delivered_is_no_event(stand: AuditStand) -> None:
    queue = stand.queue()
    stand.put(queue, b"1")
    queue.restore(queue.acquire(1))
    assert stand.events() == [event("routed", 0)]
