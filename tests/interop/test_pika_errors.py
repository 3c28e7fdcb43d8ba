"""What the broker refuses, as pika shows it: the exception, the code and the text.

Texts are RabbitMQ's: programs match on them, and people search the web for them.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import get_all, publish, ready_count, receive, serve_until

from .conftest import PikaConnect, StartBroker

Act = Callable[[BlockingChannel, str], object]


def closed_channel(action: Callable[[], object]) -> tuple[int, str]:
    """The code and text with which the broker closed the channel of ``action``."""
    with pytest.raises(ChannelClosedByBroker) as raised:
        action()
    return raised.value.reply_code, raised.value.reply_text


def sync(channel: BlockingChannel) -> None:
    """A round trip, so that an asynchronous channel error surfaces here."""
    channel.basic_qos(prefetch_count=0)


def act_publish(exchange: str, **properties: Any) -> Act:
    def act(channel: BlockingChannel, queue: str) -> None:
        channel.basic_publish(exchange, queue, b"x", pika.BasicProperties(**properties))
        sync(channel)

    return act


def act_ack(delivery_tag: int, method: str = "basic_ack") -> Act:
    def act(channel: BlockingChannel, _: str) -> None:
        getattr(channel, method)(delivery_tag)
        sync(channel)

    return act


def both(first: str, second: str) -> Act:
    def act(channel: BlockingChannel, _: str) -> None:
        getattr(channel, first)()
        getattr(channel, second)()

    return act


CHANNEL_ERRORS: dict[str, tuple[Act, int, str]] = {
    "passive declare of a missing queue": (
        lambda ch, _: ch.queue_declare("nobody", passive=True),
        404,
        "NOT_FOUND - no queue 'nobody' in vhost '{vhost}'",
    ),
    "passive declare of a missing exchange": (
        lambda ch, _: ch.exchange_declare("nowhere", passive=True),
        404,
        "NOT_FOUND - no exchange 'nowhere' in vhost '{vhost}'",
    ),
    "publish to a missing exchange": (
        act_publish("nowhere"),
        404,
        "NOT_FOUND - no exchange 'nowhere' in vhost '{vhost}'",
    ),
    "bind to a missing exchange": (
        lambda ch, q: ch.queue_bind(q, "nowhere"),
        404,
        "NOT_FOUND - no exchange 'nowhere' in vhost '{vhost}'",
    ),
    "bind of a missing queue": (
        lambda ch, _: ch.queue_bind("nobody", "amq.direct", "k"),
        404,
        "NOT_FOUND - no queue 'nobody' in vhost '{vhost}'",
    ),
    "consume from a missing queue": (
        lambda ch, _: ch.basic_consume("nobody", print),
        404,
        "NOT_FOUND - no queue 'nobody' in vhost '{vhost}'",
    ),
    "get from a missing queue": (
        lambda ch, _: ch.basic_get("nobody"),
        404,
        "NOT_FOUND - no queue 'nobody' in vhost '{vhost}'",
    ),
    "purge of a missing queue": (
        lambda ch, _: ch.queue_purge("nobody"),
        404,
        "NOT_FOUND - no queue 'nobody' in vhost '{vhost}'",
    ),
    "queue with a reserved name": (
        lambda ch, _: ch.queue_declare("amq.mine"),
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    "exchange with a reserved name": (
        lambda ch, _: ch.exchange_declare("amq.mine"),
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    "bind to the default exchange": (
        lambda ch, q: ch.queue_bind(q, "", "k"),
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    "delete of a predeclared exchange": (
        lambda ch, _: ch.exchange_delete("amq.fanout"),
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.fanout' in vhost '{vhost}' not allowed",
    ),
    "ack of an unknown tag": (
        act_ack(99),
        406,
        "PRECONDITION_FAILED - unknown delivery tag 99",
    ),
    "reject of an unknown tag": (
        act_ack(7, "basic_reject"),
        406,
        "PRECONDITION_FAILED - unknown delivery tag 7",
    ),
    "nack of an unknown tag": (
        act_ack(1, "basic_nack"),
        406,
        "PRECONDITION_FAILED - unknown delivery tag 1",
    ),
    "confirms on a transactional channel": (
        both("tx_select", "confirm_delivery"),
        406,
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
    ),
    "transactions on a confirming channel": (
        both("confirm_delivery", "tx_select"),
        406,
        "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
    ),
    "commit without select": (
        lambda ch, _: ch.tx_commit(),
        406,
        "PRECONDITION_FAILED - channel is not transactional",
    ),
    "rollback without select": (
        lambda ch, _: ch.tx_rollback(),
        406,
        "PRECONDITION_FAILED - channel is not transactional",
    ),
    "expiration that is no number": (
        act_publish("", expiration="soon"),
        406,
        "PRECONDITION_FAILED - invalid expiration 'soon'",
    ),
    "user id of somebody else": (
        act_publish("", user_id="somebody"),
        406,
        "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was",
    ),
    "CC header that is no array": (
        act_publish("", headers={"CC": 1}),
        406,
        "PRECONDITION_FAILED - invalid message",
    ),
    "queue argument of a wrong type": (
        lambda ch, _: ch.queue_declare("", arguments={"x-max-length": "many"}),
        406,
        "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue ",
    ),
    "negative TTL": (
        lambda ch, _: ch.queue_declare("", arguments={"x-message-ttl": -1}),
        406,
        "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue ",
    ),
    "headers binding with a wrong x-match": (
        lambda ch, q: ch.queue_bind(q, "amq.headers", arguments={"x-match": "some"}),
        406,
        "PRECONDITION_FAILED - ",
    ),
    "reply consumer that would acknowledge": (
        lambda ch, _: ch.basic_consume("amq.rabbitmq.reply-to", print),
        406,
        "PRECONDITION_FAILED - reply consumer cannot acknowledge",
    ),
    "request without a reply consumer": (
        act_publish("", reply_to="amq.rabbitmq.reply-to"),
        406,
        "PRECONDITION_FAILED - fast reply consumer does not exist",
    ),
}


@pytest.mark.parametrize("case", CHANNEL_ERRORS)
def test_refusal_closes_the_channel_and_spares_the_connection(
    connection: pika.BlockingConnection,
    channel: BlockingChannel,
    queue: str,
    broker: BrokerUnderTest,
    case: str,
) -> None:
    act, code, text = CHANNEL_ERRORS[case]
    victim = connection.channel()
    reply_code, reply_text = closed_channel(lambda: act(victim, queue))
    assert reply_code == code
    assert reply_text.startswith(text.format(vhost=broker.vhost))
    assert victim.is_closed
    publish(channel, queue, b"the neighbour works on")
    again = connection.channel(victim.channel_number)
    assert get_all(again, queue)[-1] == b"the neighbour works on"


@pytest.mark.parametrize(
    ("changed", "code", "text"),
    [
        (
            {"durable": True},
            406,
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{q}' in vhost '{v}': "
            "received 'true' but current is 'false'",
        ),
        (
            {"auto_delete": False},
            406,
            "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '{q}' in vhost '{v}': "
            "received 'false' but current is 'true'",
        ),
        (
            {"arguments": {"x-message-ttl": 60000}},
            406,
            "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{q}' in vhost "
            "'{v}': received the value '60000' of type ",
        ),
        (
            {"exclusive": True},
            405,
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{q}' in vhost '{v}'",
        ),
    ],
)
def test_queue_redeclared_differently_is_refused(
    connection: pika.BlockingConnection,
    name: str,
    broker: BrokerUnderTest,
    *,
    changed: dict[str, Any],
    code: int,
    text: str,
) -> None:
    channel, owner = connection.channel(), connection.channel()
    owner.queue_declare(name, auto_delete=True)
    reply_code, reply_text = closed_channel(
        lambda: channel.queue_declare(name, **{"auto_delete": True, **changed})
    )
    assert reply_code == code
    assert reply_text.startswith(text.format(q=name, v=broker.vhost))
    owner.queue_delete(name)


def test_exclusive_queue_is_never_durable(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.queue_declare(name, exclusive=True, durable=True)  # means the same, so no refusal
    assert channel.is_open


def test_exchange_redeclared_differently_is_refused(
    channel: BlockingChannel, name: str, broker: BrokerUnderTest
) -> None:
    channel.exchange_declare(name, "direct", auto_delete=True)
    code, text = closed_channel(lambda: channel.exchange_declare(name, "fanout", auto_delete=True))
    assert (code, text) == (
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost "
        f"'{broker.vhost}': received 'fanout' but current is 'direct'",
    )


def test_unknown_exchange_type_is_refused(
    channel: BlockingChannel, name: str, broker: BrokerUnderTest
) -> None:
    accepted: list[tuple[type[Exception], int]] = [(ChannelClosedByBroker, 406)]
    # differs: old-exchange-type
    if broker.is_foreign:  # RabbitMQ up to 3.13.0 closed the connection instead
        accepted.append((ConnectionClosedByBroker, 503))
    with pytest.raises(
        (ChannelClosedByBroker, ConnectionClosedByBroker), match="unknown exchange type 'nonsense'"
    ) as raised:
        channel.exchange_declare(name, "nonsense")
    assert (type(raised.value), raised.value.args[0]) in accepted


def test_internal_exchange_takes_no_publishes(
    channel: BlockingChannel, name: str, broker: BrokerUnderTest
) -> None:
    channel.exchange_declare(name, "fanout", internal=True, auto_delete=True)
    assert closed_channel(lambda: act_publish(name)(channel, "")) == (
        403,
        f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '{broker.vhost}'",
    )


@pytest.mark.parametrize(
    "operation",
    [
        lambda ch, q: ch.queue_declare(q, exclusive=True),
        lambda ch, q: ch.queue_declare(q, passive=True),
        lambda ch, q: ch.basic_consume(q, print),
        lambda ch, q: ch.basic_get(q),
        lambda ch, q: ch.queue_purge(q),
        lambda ch, q: ch.queue_delete(q),
        lambda ch, q: ch.queue_bind(q, "amq.direct", "k"),
        lambda ch, q: ch.queue_unbind(q, "amq.direct", "k"),
    ],
    ids=["declare", "passive", "consume", "get", "purge", "delete", "bind", "unbind"],
)
def test_exclusive_queue_is_locked_to_other_connections(
    connect: PikaConnect,
    channel: BlockingChannel,
    name: str,
    broker: BrokerUnderTest,
    operation: Act,
) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, "amq.direct", "k")
    stranger = connect().channel()
    code, text = closed_channel(lambda: operation(stranger, name))
    assert code == 405
    assert text.startswith(
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost "
        f"'{broker.vhost}'"
    )


def test_exclusive_consumer_keeps_others_out(
    connection: pika.BlockingConnection, queue: str, broker: BrokerUnderTest
) -> None:
    first, second, third = (connection.channel() for _ in range(3))
    tag = first.basic_consume(queue, print, exclusive=True)
    refused = closed_channel(lambda: second.basic_consume(queue, print))
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '{broker.vhost}' in exclusive use"
    assert refused == (403, text)
    first.basic_cancel(tag)
    third.basic_consume(queue, print)
    fourth = connection.channel()
    refused = closed_channel(lambda: fourth.basic_consume(queue, print, exclusive=True))
    assert refused == (403, text)


def test_conditional_deletes_are_refused_while_in_use(
    connection: pika.BlockingConnection,
    channel: BlockingChannel,
    queue: str,
    name: str,
    broker: BrokerUnderTest,
) -> None:
    def refusal(action: Callable[[BlockingChannel], object]) -> tuple[int, str]:
        return closed_channel(lambda: action(connection.channel()))

    where = f"in vhost '{broker.vhost}'"
    publish(channel, queue, b"x")
    channel.basic_qos()
    assert refusal(lambda ch: ch.queue_delete(queue, if_empty=True)) == (
        406,
        f"PRECONDITION_FAILED - queue '{queue}' {where} not empty",
    )
    channel.basic_consume(queue, lambda *_: None)
    assert refusal(lambda ch: ch.queue_delete(queue, if_unused=True)) == (
        406,
        f"PRECONDITION_FAILED - queue '{queue}' {where} in use",
    )
    channel.exchange_declare(name)
    channel.queue_bind(queue, name, "k")
    assert refusal(lambda ch: ch.exchange_delete(name, if_unused=True)) == (
        406,
        f"PRECONDITION_FAILED - exchange '{name}' {where} in use",
    )
    channel.queue_unbind(queue, name, "k")
    channel.exchange_delete(name, if_unused=True)


def test_acking_twice_is_an_unknown_tag(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"x")
    [(method, _, _)] = receive(channel, queue, 1)
    channel.basic_ack(method.delivery_tag)
    code, text = closed_channel(lambda: act_ack(method.delivery_tag)(channel, queue))
    assert (code, text) == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


@pytest.mark.acceptance
def test_message_above_the_limit_closes_its_channel(start_broker: StartBroker, name: str) -> None:
    daemon = start_broker("[limits]\nmax_message_bytes = 200000\n")
    with pika.BlockingConnection(pika.URLParameters(daemon.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        channel.confirm_delivery()
        channel.basic_publish("", name, b"x" * 200_000)
        assert closed_channel(lambda: channel.basic_publish("", name, b"x" * 200_001)) == (
            406,
            "PRECONDITION_FAILED - message size 200001 is larger than configured max size 200000",
        )
        assert len(get_all(connection.channel(), name)) == 1


def test_channel_error_requeues_what_the_channel_held(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    victim = connection.channel()
    for _ in range(2):
        victim.basic_get(queue)
    closed_channel(lambda: act_ack(99)(victim, queue))
    serve_until(connection, lambda: ready_count(channel, queue) == 3, "both to be requeued")
    assert get_all(channel, queue) == [b"1", b"2", b"3"]


def test_recover_without_requeue_closes_the_connection(connect: PikaConnect) -> None:
    channel = connect().channel()
    with pytest.raises(ConnectionClosedByBroker) as raised:
        channel.basic_recover(requeue=False)
    assert raised.value.reply_code == 540
    assert raised.value.reply_text.startswith("NOT_IMPLEMENTED - ")


# Connecting


def test_wrong_password_is_told_to_a_client_that_can_be_told(connect: PikaConnect) -> None:
    with pytest.raises(
        ProbableAuthenticationError,
        match=re.escape(
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
            "For details see the broker logfile."
        ),
    ):
        connect(credentials=pika.PlainCredentials("guest", "wrong"))


@pytest.mark.acceptance
def test_wrong_password_drops_a_client_that_cannot_be_told(connect: PikaConnect) -> None:
    with pytest.raises(ProbableAuthenticationError) as raised:
        connect(
            credentials=pika.PlainCredentials("nobody", "guest"),
            client_properties={"capabilities": {}},
        )
    assert "ACCESS_REFUSED" not in str(raised.value)


def test_unknown_vhost_is_not_allowed(connect: PikaConnect) -> None:
    with pytest.raises(AMQPConnectionError) as raised:
        connect(virtual_host="nope")
    assert isinstance(raised.value, (ProbableAccessDeniedError, ConnectionClosedByBroker))
    assert "530" in repr(raised.value)
    assert "NOT_ALLOWED - vhost nope not found" in repr(raised.value)


@pytest.mark.parametrize(
    "header", [b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x09\x02", b"HTTP/1.1"], ids=repr
)
def test_wrong_protocol_header_is_answered_with_ours(
    broker: BrokerUnderTest, header: bytes
) -> None:
    with socket.create_connection((broker.host, broker.port), timeout=60) as client:
        client.sendall(header)
        answer = client.recv(64)
        with contextlib.suppress(ConnectionResetError):  # RabbitMQ closes without reading the rest
            assert client.recv(64) == b""
    assert answer == b"AMQP\x00\x00\x09\x01"
