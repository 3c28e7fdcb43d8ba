"""What limits keep out, what becomes of dead letters, and delayed messages without a queue."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.broker.audit.policies import AuditedDeadLetters
from hareline.errors import PreconditionFailed
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.queue import Queue
from tests.support.audits import AuditStand, Event
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import declare, declare_exchange, make_vhost

LIMITED = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def event(word: str, **further: Any) -> Event:
    return {"event": word, "queue": "q", "exchange": "", "routing_key": "q", "size": 1, **further}


def left(stand: AuditStand) -> list[Event]:
    return [each for each in stand.events() if each["event"] not in ("routed", "delivered")]


def reject_first(queue: Queue) -> None:
    entry = queue.get()
    assert entry is not None
    queue.reject([entry])


def test_without_audit_dead_letters_are_plain_ones(stand: AuditStand) -> None:
    plain = declare(make_vhost(ManualTurn()), arguments=LIMITED)
    assert type(plain.dead_letters) is DeadLetters
    audited = declare(stand.vhost, arguments=LIMITED)
    assert type(audited.dead_letters) is AuditedDeadLetters


@pytest.mark.parametrize(
    ("policy", "reason"), [("reject-publish", "refused"), ("discard", "maxlen")]
)
def test_a_message_that_a_limit_keeps_out_has_no_offset(
    stand: AuditStand, policy: str, reason: str
) -> None:
    queue = stand.queue(x_max_length=1, x_overflow=policy)
    stand.put(queue, b"1", b"2")
    assert left(stand) == [event("dropped", reason=reason)]


def test_a_refused_message_may_still_be_dead_lettered(stand: AuditStand) -> None:
    stand.queue("dead")
    queue = stand.queue(
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    stand.put(queue, b"1", b"2")
    assert left(stand) == [
        event("dead-lettered", reason="maxlen"),
        event("dropped", reason="refused"),
    ]


def test_a_dead_letter_is_told_with_the_place_it_had(stand: AuditStand) -> None:
    stand.queue("dead")
    queue = stand.queue(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    stand.put(queue, b"1", b"2")
    entry = queue.get()
    assert entry is not None
    queue.release([entry])
    reject_first(queue)
    told = left(stand)
    assert told[-2:] == [
        event("rejected", offset=0, delivery_count=1),
        event("dead-lettered", offset=0, reason="rejected", delivery_count=1),
    ]


def test_a_dead_letter_that_reaches_no_queue_is_unroutable(stand: AuditStand) -> None:
    queue = stand.queue(x_dead_letter_exchange="missing")
    stand.put(queue, b"1")
    reject_first(queue)
    assert left(stand)[-1] == event("unroutable", offset=0, reason="rejected", delivery_count=0)


def test_a_dead_letter_that_would_go_round_is_dropped(stand: AuditStand) -> None:
    queue = stand.queue(x_message_ttl=1, x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    stand.put(queue, b"1")
    stand.timers.advance(1)
    stand.timers.advance(1)
    assert left(stand) == [
        event("expired", offset=0, delivery_count=0),
        event("dropped", offset=0, reason="cycle", delivery_count=0),
    ]


def test_transient_messages_that_are_not_wanted_as_dead_letters_are_none(stand: AuditStand) -> None:
    stand.queue("dead")
    queue = stand.queue(
        x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_dead_letter_transient=False
    )
    stand.put(queue, b"1")
    stand.put(queue, b"2", delivery_mode=2)
    reject_first(queue)
    reject_first(queue)
    assert left(stand) == [
        event("rejected", offset=0, delivery_count=0),
        event("rejected", offset=1, delivery_count=0),
        event("dead-lettered", offset=1, reason="rejected", delivery_count=0),
    ]


def test_dead_letters_that_wait_for_others_keep_their_places(stand: AuditStand) -> None:
    stand.queue("dead")
    queue = stand.queue(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    stand.put(queue, *[b"x"] * 3)
    scheduler = stand.vhost.environment.dead_letter_scheduler
    scheduler.hold()
    for _ in range(3):
        reject_first(queue)
    assert not [each for each in left(stand) if each["event"] == "dead-lettered"]
    scheduler.release()
    assert [each["offset"] for each in left(stand)] == [0, 1, 2]


def test_a_deleted_queue_tells_of_each_dead_letter(stand: AuditStand) -> None:
    stand.queue("other")
    queue = declare(stand.vhost, arguments={"alternateBinding": {"destination": "other"}})
    stand.put(queue, b"1", b"2")
    stand.vhost.delete_queue("q", None)
    assert left(stand) == [
        event("dead-lettered", offset=offset, reason="deleted", delivery_count=0)
        for offset in (0, 1)
    ]


def test_a_delayed_message_without_a_queue_in_the_end_is_unroutable(stand: AuditStand) -> None:
    exchange = declare_exchange(
        stand.vhost, "later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}
    )
    message = make_message(b"1", exchange="later", routing_key="k", headers={"x-delay": 5})
    (delay_queue,), _, _ = stand.vhost.routing.route(exchange, ["k"], message)
    delay_queue.put(message)
    assert stand.events() == []
    stand.timers.advance(5)
    place = {"exchange": "later", "routing_key": "k"}
    assert stand.events() == [{"event": "unroutable", **place, "size": 1}]


def test_nothing_is_archived_to_the_audit_stream(stand: AuditStand) -> None:
    with pytest.raises(PreconditionFailed, match=r"the broker alone writes to queue 'hareline\."):
        declare(stand.vhost, arguments={"x-archive-to": "hareline.audit"})
