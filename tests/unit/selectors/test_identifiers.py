from __future__ import annotations

from typing import Any

import pytest

from hareline.message import Message
from hareline.selectors.identifiers import KNOWN_NAMES, expiration_ms
from hareline.selectors.selector import compile_selector
from hareline.wire.table import SignedInt, Table, Timestamp
from tests.support.messages import make_message

from .subjects import message_with

# As the JMS clients of Qpid and of RabbitMQ write them, and a message that says nothing.
FROM_QPID = make_message(
    headers=Table(JMSXGroupID="g", JMS_QPID_DESTTYPE=SignedInt(1)),
    message_id="ID:17",
    correlation_id="c",
    type="news",
    reply_to="direct://amq.direct/k/q",
    priority=4,
    delivery_mode=2,
    timestamp=Timestamp(1_700_000_000_123),
    expiration="1700000060123",
    user_id="guest",
    app_id="app",
)
FROM_RABBITMQ = make_message(
    headers=Table(
        JMSMessageID="ID:18",
        JMSCorrelationID="d",
        JMSType="news",
        JMSTimestamp=1_700_000_000_456,
        JMSPriority=SignedInt(7),
        JMSDeliveryMode="PERSISTENT",
    ),
    priority=7,
    delivery_mode=2,
    expiration="60000",
)
FROM_ANYONE = make_message()


@pytest.mark.parametrize(
    ("text", "of_qpid", "of_rabbitmq", "of_anyone"),
    [
        ("JMSMessageID = 'ID:17'", True, False, None),
        ("JMSMessageID = 'ID:18'", False, True, None),
        ("AMQMessageID LIKE 'ID:%'", True, None, None),
        ("JMSCorrelationID = 'c'", True, False, None),
        ("JMSType = 'news'", True, True, None),
        ("JMSReplyTo LIKE 'direct:%'", True, None, None),
        ("JMSPriority = 4", True, False, False),
        ("JMSPriority = 7", False, True, False),
        ("JMSPriority = 0", False, False, True),
        ("JMSDeliveryMode = 'PERSISTENT'", True, True, False),
        ("JMSDeliveryMode = 'NON_PERSISTENT'", False, False, True),
        ("JMSTimestamp = 1700000000123", True, False, None),
        ("JMSTimestamp = 1700000000456", False, True, None),
        ("JMSExpiration = 1700000060123", True, False, False),
        ("JMSExpiration = 60000", False, True, False),
        ("JMSExpiration = 0", False, False, True),
        ("JMSXUserID = 'guest'", True, None, None),
        ("JMSXAppID = 'app'", True, None, None),
        ("JMSXGroupID = 'g'", True, None, None),
        ("JMS_QPID_DESTTYPE = 1", True, None, None),
        ("JMSDestination IS NULL", True, True, True),
        ("JMSRedelivered = FALSE", True, True, True),
    ],
)
def test_what_each_client_writes_is_read(
    text: str, of_qpid: bool | None, of_rabbitmq: bool | None, of_anyone: bool | None
) -> None:
    selector = compile_selector(text)
    assert selector.evaluate(FROM_QPID) is of_qpid
    assert selector.evaluate(FROM_RABBITMQ) is of_rabbitmq
    assert selector.evaluate(FROM_ANYONE) is of_anyone


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("JMSMessageID", "message_id"),
        ("JMSCorrelationID", "correlation_id"),
        ("JMSType", "type"),
        ("JMSXUserID", "user_id"),
        ("JMSXAppID", "app_id"),
    ],
)
def test_a_property_counts_before_the_header_of_its_jms_name(name: str, field: str) -> None:
    headers = Table({name: "header"})
    properties: dict[str, Any] = {field: "property"}
    of_property = compile_selector(f"{name} = 'property'")
    of_header = compile_selector(f"{name} = 'header'")
    both = make_message(headers=headers, **properties)
    assert of_property.matches(both)
    assert not of_header.matches(both)
    assert of_header.matches(make_message(headers=headers))
    assert of_property.matches(make_message(**properties))


def test_the_timestamp_counts_before_the_header() -> None:
    headers = Table(JMSTimestamp=2)
    assert compile_selector("JMSTimestamp = 2").matches(make_message(headers=headers))
    both = make_message(headers=headers, timestamp=Timestamp(0))
    assert compile_selector("JMSTimestamp = 0").matches(both)


@pytest.mark.parametrize(
    ("name", "header", "text"),
    [
        ("JMSPriority", 9, "JMSPriority = 0"),
        ("JMSDeliveryMode", "PERSISTENT", "JMSDeliveryMode = 'NON_PERSISTENT'"),
        ("JMSExpiration", 5, "JMSExpiration = 0"),
        ("JMSReplyTo", "here", "JMSReplyTo IS NULL"),
        ("AMQMessageID", "ID:1", "AMQMessageID IS NULL"),
        ("JMSRedelivered", True, "NOT JMSRedelivered"),
    ],
)
def test_these_are_never_read_from_headers(name: str, header: object, text: str) -> None:
    assert compile_selector(text).matches(message_with({name: header}))


@pytest.mark.parametrize(
    ("delivery_mode", "text"),
    [(None, "NON_PERSISTENT"), (1, "NON_PERSISTENT"), (2, "PERSISTENT"), (3, "NON_PERSISTENT")],
)
def test_delivery_modes_have_names(delivery_mode: int | None, text: str) -> None:
    message = make_message(delivery_mode=delivery_mode)
    assert compile_selector(f"JMSDeliveryMode = '{text}'").matches(message)
    assert not compile_selector(f"JMSDeliveryMode <> '{text}'").matches(message)


@pytest.mark.parametrize("priority", [0, 1, 9, 255])
def test_a_priority_is_a_number(priority: int) -> None:
    message = make_message(priority=priority)
    assert compile_selector(f"JMSPriority = {priority}").matches(message)
    assert compile_selector(f"JMSPriority > {priority - 1}").matches(message)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (None, 0),
        ("0", 0),
        ("60000", 60_000),
        ("007", 7),
        ("9" * 255, int("9" * 255)),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        (" 5", None),
        ("٣", None),
    ],
)
def test_an_expiration_is_a_number_or_unknown(text: str | None, number: int | None) -> None:
    assert expiration_ms(text) == number


def test_an_expiration_that_is_no_number_is_unknown() -> None:
    message = make_message(expiration="soon")
    assert compile_selector("JMSExpiration > 0").evaluate(message) is None
    assert compile_selector("JMSExpiration IS NULL").matches(message)


@pytest.mark.parametrize("name", KNOWN_NAMES)
def test_every_known_name_can_be_selected_on(name: str) -> None:
    for message in (FROM_QPID, FROM_RABBITMQ, FROM_ANYONE):
        is_null = compile_selector(f"{name} IS NULL").evaluate(message)
        assert is_null is _is_null(name, message)


def _is_null(name: str, message: Message) -> bool:
    """By the answer to a comparison, which is unknown for NULL and nothing else."""
    literal = {"number": "1", "text": "'x'", "boolean": "TRUE"}[KNOWN_NAMES[name].kind]
    return compile_selector(f"{name} = {literal}").evaluate(message) is None
