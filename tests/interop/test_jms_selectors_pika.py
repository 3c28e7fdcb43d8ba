"""Selectors as JMS clients use them: on consumers and on bindings, with the names of JMS.

The messages are published as the two JMS clients publish theirs: Qpid's fills in the properties,
RabbitMQ's leaves most of them out and writes headers of the JMS names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import ChannelClosedByBroker

from tests.support.pika_calls import get_all, receive

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

# differs: additions
pytestmark = pytest.mark.usefixtures("only_hareline")

SELECTOR = "x-filter-jms-selector"

QPID: dict[str, Any] = {
    "message_id": "ID:7b3c",
    "correlation_id": "order-7",
    "type": "order",
    "priority": 7,
    "timestamp": 1_700_000_000_123,
    "expiration": "4102444800000",
    "reply_to": "direct://amq.direct//answers?routingkey='answers'",
    "delivery_mode": 2,
    "user_id": "guest",
    "headers": {"JMS_QPID_DESTTYPE": 1, "JMSXGroupID": "g1", "JMSXGroupSeq": 2, "color": "red"},
}
RABBITMQ: dict[str, Any] = {
    "correlation_id": "order-7",
    "priority": 7,
    "delivery_mode": 2,
    "expiration": "4294967295",
    "reply_to": "amq.rabbitmq.reply-to.x",
    "headers": {
        "JMSMessageID": "ID:7b3c",
        "JMSCorrelationID": "order-7",
        "JMSType": "order",
        "JMSPriority": 7,
        "JMSTimestamp": 1_700_000_000_123,
        "JMSDeliveryMode": "PERSISTENT",
        "JMSXGroupID": "g1",
        "JMSXGroupSeq": 2,
        "JMSXUserID": "guest",
        "color": "red",
    },
}

#: true of both messages, and false or unknown of one that has none of these
NAMES = [
    "JMSMessageID = 'ID:7b3c'",
    "JMSMessageID LIKE 'ID:%'",
    "JMSCorrelationID IN ('order-6', 'order-7')",
    "JMSType = 'order'",
    "JMSPriority > 4",
    "JMSPriority BETWEEN 7 AND 9",
    "JMSTimestamp >= 1700000000000",
    "JMSDeliveryMode = 'PERSISTENT'",
    "JMSExpiration <> 0",
    "JMSReplyTo IS NOT NULL",
    "JMSXUserID = 'guest'",
    "JMSXGroupID = 'g1' AND JMSXGroupSeq = 2",
    "color = 'red' AND JMSRedelivered = FALSE",
    "(JMSPriority > 4) = (color = 'red')",
]


@pytest.fixture(params=[QPID, RABBITMQ], ids=["qpid", "rabbitmq"])
def properties(request: pytest.FixtureRequest) -> pika.BasicProperties:
    return pika.BasicProperties(**request.param)


@pytest.mark.row("M10")
@pytest.mark.parametrize("selector", NAMES)
def test_the_names_of_jms_select_on_consumers(
    channel: BlockingChannel, queue: str, properties: pika.BasicProperties, selector: str
) -> None:
    channel.basic_publish("", queue, b"plain")
    channel.basic_publish("", queue, b"jms", properties)
    ((_, _, body),) = receive(channel, queue, 1, auto_ack=True, arguments={SELECTOR: selector})
    channel.cancel()
    assert body == b"jms"
    assert get_all(channel, queue) == [b"plain"]


@pytest.mark.row("M10")
@pytest.mark.parametrize("exchange", ["amq.topic", "amq.direct", "amq.fanout", "amq.match"])
@pytest.mark.parametrize("selector", NAMES)
def test_the_names_of_jms_select_on_bindings(
    channel: BlockingChannel,
    name: str,
    properties: pika.BasicProperties,
    selector: str,
    exchange: str,
) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, exchange, name, {SELECTOR: selector})
    channel.basic_publish(exchange, name, b"plain")
    channel.basic_publish(exchange, name, b"jms", properties)
    assert get_all(channel, queue) == [b"jms"]


@pytest.mark.row("M10")
def test_what_came_back_is_redelivered_to_selectors_too(
    channel: BlockingChannel, queue: str
) -> None:
    for body in (b"0", b"1"):
        channel.basic_publish("", queue, body)
    channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    arguments = {SELECTOR: "JMSRedelivered"}
    ((_, _, body),) = receive(channel, queue, 1, auto_ack=True, arguments=arguments)
    channel.cancel()
    assert body == b"0"
    assert get_all(channel, queue) == [b"1"]


@pytest.mark.row("M10")
@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_selector_is_none_as_qpid_sends_it_with_every_consumer(
    channel: BlockingChannel, queue: str, blank: str
) -> None:
    channel.basic_publish("", queue, b"any")
    ((_, _, body),) = receive(channel, queue, 1, auto_ack=True, arguments={SELECTOR: blank})
    channel.cancel()
    assert body == b"any"


@pytest.mark.row("M10")
@pytest.mark.parametrize(
    "selector",
    [
        "a % 2 = 1",
        "a = 0x1F OR a = 017 OR a = 3L",
        '"amq.x" = 3 OR a = 3',
        "a = 3 /* three */",
        "a = 3 -- three\n AND TRUE",
        "NOT NOT a = 3",
        "(a = 3) = b",
        "(a > 1) <> (a > 5)",
        "(a > 5) = FALSE",
        "b = NOT (a > 5)",
        "a BETWEEN 1 AND 5 AND s LIKE 'x\\_%' ESCAPE '\\'",
    ],
)
def test_what_qpid_adds_to_the_language_is_taken(
    channel: BlockingChannel, queue: str, selector: str
) -> None:
    properties = pika.BasicProperties(headers={"a": 3, "b": True, "s": "x_y"})
    channel.basic_publish("", queue, b"other", pika.BasicProperties(headers={"a": 8}))
    channel.basic_publish("", queue, b"selected", properties)
    ((_, _, body),) = receive(channel, queue, 1, auto_ack=True, arguments={SELECTOR: selector})
    channel.cancel()
    assert body == b"selected"


BAD = pytest.mark.parametrize(
    "selector", ["a =", "a = NULL", "a.b = 1", "1 < a < 3", "JMSType > 1"]
)


@pytest.mark.row("M10")
@BAD
def test_what_is_no_selector_is_refused_on_a_consumer(
    channel: BlockingChannel, queue: str, selector: str
) -> None:
    with pytest.raises(ChannelClosedByBroker, match="invalid selector: ") as refused:
        channel.basic_consume(queue, print, arguments={SELECTOR: selector})
    assert refused.value.reply_code == 406


@pytest.mark.row("M10")
@BAD
def test_what_is_no_selector_is_refused_on_a_binding(
    channel: BlockingChannel, queue: str, selector: str
) -> None:
    with pytest.raises(ChannelClosedByBroker, match="invalid selector: ") as refused:
        channel.queue_bind(queue, "amq.topic", "#", {SELECTOR: selector})
    assert refused.value.reply_code == 406
