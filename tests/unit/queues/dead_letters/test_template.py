"""What is remembered of messages that died alike, and for how long."""

from __future__ import annotations

import pytest

from hareline.message import Address, Table, Timestamp, decode_fields
from hareline.queues.dead_letters.history import DeadMessage, dead_message_of
from hareline.queues.dead_letters.targets import Target
from hareline.queues.dead_letters.template import (
    ADDRESSES_MAX,
    TEMPLATE_MAX_BYTES,
    TEMPLATES_MAX_BYTES,
    DeathTemplates,
)
from hareline.queues.queue import Queue
from tests.support.dead_letters import SmallBroker, publish, reject
from tests.support.messages import make_message
from tests.support.timers import ManualTimers

SENT_TO = Address.of("x", "k")
DLX = Target("dlx", None)


@pytest.fixture
def timers() -> ManualTimers:
    return ManualTimers()


@pytest.fixture
def templates(timers: ManualTimers) -> DeathTemplates:
    return DeathTemplates("q", timers.clock)


def dead(**headers: object) -> DeadMessage:
    message = make_message(headers=Table(headers))
    return dead_message_of(message, keeps_copies=True, is_for_default=False)


def test_messages_alike_share_a_template_for_a_second(
    templates: DeathTemplates, timers: ManualTimers
) -> None:
    first = templates.template(SENT_TO, dead(a=1), "expired", DLX)
    assert templates.template(SENT_TO, dead(a=2), "expired", DLX) is first
    assert templates.template(SENT_TO, dead(), "rejected", DLX) is not first
    assert templates.template(Address.of("x", "other"), dead(), "expired", DLX) is not first
    assert len(templates.remembered) == 3
    timers.advance(1000)
    later = templates.template(SENT_TO, dead(), "expired", DLX)
    assert later is not None
    assert first is not None
    assert later.octets != first.octets, "it has the time of the first death"
    assert templates.remembered == [later]


def test_a_replaced_key_routes_and_the_own_keys_are_shown(templates: DeathTemplates) -> None:
    made = templates.template(SENT_TO, dead(CC=["copy"]), "maxlen", Target("dlx", "new"))
    assert made is not None
    assert (made.address.exchange, made.address.routing_key) == ("dlx", "new")
    assert made.routing_keys == ["new"]
    death = decode_fields(made.octets)["x-death"][0]  # type: ignore[index]
    assert death["routing-keys"] == ["k", "copy"]
    own = templates.template(SENT_TO, dead(CC=["copy"]), "maxlen", DLX)
    assert own is not None
    assert own.routing_keys == ["k", "copy"]


def test_the_default_exchange_gets_six_headers_more(templates: DeathTemplates) -> None:
    target = Target("dlx", "q.maxlen", is_default=True)
    made = templates.template(SENT_TO, dead(), "maxlen", target, 7)
    assert made is not None
    headers = decode_fields(made.octets)
    assert {name: headers[name] for name in headers if name.startswith("x-dead-")} == {
        "x-dead-reason": "maxlen",
        "x-dead-text": "the queue was full",
        "x-dead-queue": "q",
        "x-dead-exchange": "x",
        "x-dead-routing-key": "k",
        "x-dead-arrival": Timestamp(7),
    }
    assert templates.template(SENT_TO, dead(), "maxlen", target, 7) is made
    assert templates.template(SENT_TO, dead(), "maxlen", target, 8) is not made


def test_addresses_are_the_same_objects_and_bounded(templates: DeathTemplates) -> None:
    one = templates.template(SENT_TO, dead(), "maxlen", DLX)
    other = templates.template(SENT_TO, dead(), "rejected", DLX)
    assert one is not None
    assert other is not None
    assert one.address is other.address
    for number in range(2 * ADDRESSES_MAX):
        templates.template(SENT_TO, dead(), "maxlen", Target("dlx", f"{number}"))
        assert len(templates._addresses) <= ADDRESSES_MAX


@pytest.fixture
def broker() -> SmallBroker:
    return SmallBroker()


@pytest.fixture
def dlq(broker: SmallBroker) -> Queue:
    queue = broker.queue("dlq")
    broker.bind("dlx", "#", queue)
    return queue


def test_what_is_remembered_of_messages_that_died_alike_is_bounded_in_octets(
    broker: SmallBroker, dlq: Queue
) -> None:
    """A queue that many messages died in keeps little of them, and nothing of long histories."""
    queue = broker.queue("q", exchange="dlx")
    assert queue.dead_letters is not None
    templates = queue.dead_letters.templates
    for length in (1, 250, TEMPLATE_MAX_BYTES):
        for number in range(1000):
            publish(queue, headers=Table(CC=["k" * length, f"{number}"]))
            reject(queue)
            kept = sum(len(each.history) for each in templates.remembered)
            assert kept <= templates.remembered_bytes <= TEMPLATES_MAX_BYTES
            assert all(len(each.history) <= TEMPLATE_MAX_BYTES for each in templates.remembered)
        assert templates.remembered
