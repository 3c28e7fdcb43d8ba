"""How events become messages of the stream: gathered, divided, or counted as lost."""

from __future__ import annotations

import json

import pytest

from hareline.queues.core import audit_recorder as recorder
from hareline.queues.core.audit_recorder import (
    AUDIT_STREAM,
    CONTENT_TYPE,
    COUNT_HEADER,
    MESSAGE_BYTES_MAX,
    RETRY_S,
)
from tests.support.audits import AuditStand
from tests.support.messages import make_address
from tests.support.stores import FakeDefinitions, FakeStore

RETRY_MS = round(RETRY_S * 1000)


def line(number: int, filler: str = "") -> str:
    return json.dumps({"event": "e", "number": number, "filler": filler})


def test_events_of_a_turn_are_one_message_with_their_number(stand: AuditStand) -> None:
    for number in range(3):
        stand.log.recorder.add(line(number))
    stream = stand.vhost.queues[AUDIT_STREAM]
    assert len(stream.order) == 0
    stand.turn.run()
    entry = stream.order.peek()
    assert entry is not None
    message = entry.message
    assert message.body.decode() == "".join(line(number) + "\n" for number in range(3))
    assert message.properties.content_type == CONTENT_TYPE
    assert message.properties.delivery_mode == 2
    assert message.headers[COUNT_HEADER] == 3
    assert (message.address.exchange, message.address.routing_key) == ("", AUDIT_STREAM)
    assert stand.turn.run() == 0, "an event of its own would never end"


def test_a_message_is_divided_at_64_kib(stand: AuditStand) -> None:
    filler = "x" * (MESSAGE_BYTES_MAX // 3)
    for number in range(7):
        stand.log.recorder.add(line(number, filler))
    stand.log.recorder.add(line(7, filler * 4))  # alone, and larger than a message should be
    stand.turn.run()
    bodies = stand.log.read_bodies(stand.vhost)
    numbers = [[json.loads(each)["number"] for each in body.splitlines()] for body in bodies]
    assert numbers == [[0, 1], [2, 3], [4, 5], [6], [7]]
    assert all(len(body) <= MESSAGE_BYTES_MAX for body in bodies[:-1])


def test_a_publish_without_a_queue_is_two_events(stand: AuditStand) -> None:
    stand.log.recorder.on_published(make_address("e", "k"), 7, 2)
    stand.log.recorder.on_published(make_address("e", "k"), 8, 0)
    place = {"exchange": "e", "routing_key": "k"}
    assert stand.events() == [
        {"event": "published", **place, "size": 7, "queues": 2},
        {"event": "published", **place, "size": 8, "queues": 0},
        {"event": "unroutable", **place, "size": 8},
    ]


def test_what_cannot_be_written_is_counted_and_told_once_there_is_room(stand: AuditStand) -> None:
    stand.log.refusal = "low on memory"
    since_us = stand.now_us
    stand.log.recorder.add(line(1))
    assert stand.events() == []
    stand.timers.advance(RETRY_MS)
    stand.log.recorder.add(line(2))
    stand.log.recorder.add(line(3))
    assert stand.events() == []
    assert stand.log.recorder.lost_count == 3
    stand.log.refusal = ""
    stand.timers.advance(RETRY_MS)
    lost = {"event": "lost", "reason": "low on memory", "count": 3, "since_us": since_us}
    assert stand.events() == [lost]
    assert stand.log.recorder.lost_count == 0
    stand.timers.advance(10 * RETRY_MS)
    assert stand.events() == []


def test_the_loss_stands_before_what_came_later(stand: AuditStand) -> None:
    stand.log.refusal = "low on disk"
    stand.log.recorder.add(line(1))
    stand.turn.run()
    stand.log.refusal = ""
    stand.log.recorder.add('{"ts_us":0,"event":"next"}')
    assert [each["event"] for each in stand.events()] == ["lost", "next"]


def test_a_store_that_takes_nothing_refuses_no_publish_for_audit() -> None:
    store = FakeStore()
    stand = AuditStand(store=store, definitions=FakeDefinitions())
    stand.log.refusal = "no space left on device"
    queue = stand.queue()
    stand.put(queue, b"x")
    assert stand.events() == []
    assert queue.ready_count == 1
    assert stand.log.recorder.lost_count == 1


def test_a_stream_that_is_gone_loses_events_and_nothing_else(stand: AuditStand) -> None:
    stand.vhost.queues[AUDIT_STREAM].delete()
    stand.log.recorder.add(line(1))
    stand.turn.run()
    assert stand.log.recorder.lost_count == 1


def test_events_of_a_recovery_wait_for_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "LINES_AT_START_MAX", 2)
    stand = AuditStand()
    log = stand.log
    log.recorder._stream = None
    for number in range(3):
        log.recorder.add(f'{{"ts_us":0,"event":"early","number":{number}}}')
    stand.turn.run()
    stand.vhost.open_audit()
    words = [(each["event"], each.get("number", each.get("count"))) for each in stand.events()]
    assert words == [("lost", 1), ("early", 0), ("early", 1)]


def test_remembered_names_are_bounded(stand: AuditStand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PARTS_MAX", 3)
    audit = stand.log.recorder
    for number in range(10):
        assert audit.tag_part(str(number)) == f',"consumer_tag":"{number}"'
        part = audit.address_part(make_address("", str(number)))
        assert part == f',"exchange":"","routing_key":"{number}"'
    assert len(audit._tag_parts) <= 3
    assert len(audit._address_parts) <= 3
