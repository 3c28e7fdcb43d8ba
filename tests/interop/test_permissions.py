"""A user with few rights, through pika: each refusal is a 403 that names what was refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import get_all, publish

from .conftest import PikaConnect


@pytest.fixture
def limited(connect: PikaConnect, broker: BrokerUnderTest) -> pika.BlockingConnection:
    """A connection of the user who may configure, write and read `mine-…` only."""
    if broker.is_foreign:
        pytest.skip("needs users of its own, and AMQP_URL_UNDER_TEST names a broker that runs")
    return connect(credentials=pika.PlainCredentials("limited", "limited"))


def sync_publish(channel: BlockingChannel, exchange: str, routing_key: str) -> None:
    channel.basic_publish(exchange, routing_key, b"x")
    channel.basic_qos(prefetch_count=0)


def leak(channel: BlockingChannel, arguments: dict[str, object]) -> None:
    """A queue of one's own whose dead letters go elsewhere."""
    channel.queue_declare("mine-leak", arguments=arguments)


def test_own_resources_can_be_used(limited: pika.BlockingConnection, name: str) -> None:
    channel = limited.channel()
    queue, exchange = f"mine-{name}", f"mine-{name}-x"
    channel.queue_declare(queue, exclusive=True)
    channel.exchange_declare(exchange, "direct", auto_delete=True)
    channel.queue_bind(queue, exchange, "k")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "k", b"x", mandatory=True)
    assert get_all(channel, queue) == [b"x"]


@pytest.mark.parametrize(
    ("refused", "access", "resource"),
    [
        (lambda ch: ch.queue_declare("yours"), "configure", "queue 'yours'"),
        (lambda ch: ch.queue_delete("yours"), "configure", "queue 'yours'"),
        (lambda ch: ch.exchange_declare("yours"), "configure", "exchange 'yours'"),
        (lambda ch: ch.exchange_delete("yours"), "configure", "exchange 'yours'"),
        (
            lambda ch: leak(ch, {"x-dead-letter-exchange": "yours"}),
            "write",
            "exchange 'yours'",
        ),
        (
            lambda ch: leak(ch, {"alternateBinding": {"destination": "amq.fanout"}}),
            "write",
            "exchange 'amq.fanout'",
        ),
        (
            lambda ch: leak(ch, {"alternateBinding": '{"destination": "yours"}'}),
            "write",
            "queue 'yours'",
        ),
        (lambda ch: leak(ch, {"alternateExchange": "yours"}), "write", "queue 'yours'"),
        (
            lambda ch: ch.exchange_declare("mine-y", arguments={"alternate-exchange": "yours"}),
            "write",
            "exchange 'yours'",
        ),
        (lambda ch: ch.queue_bind("yours", "mine-x", "k"), "write", "queue 'yours'"),
        (lambda ch: ch.queue_bind("mine-q", "amq.topic", "k"), "read", "exchange 'amq.topic'"),
        (lambda ch: ch.exchange_bind("yours", "mine-x"), "write", "exchange 'yours'"),
        (lambda ch: ch.exchange_bind("mine-x", "yours"), "read", "exchange 'yours'"),
        (lambda ch: ch.basic_consume("yours", print), "read", "queue 'yours'"),
        (lambda ch: ch.basic_get("yours"), "read", "queue 'yours'"),
        (lambda ch: ch.queue_purge("yours"), "read", "queue 'yours'"),
        (lambda ch: sync_publish(ch, "amq.direct", "k"), "write", "exchange 'amq.direct'"),
        (lambda ch: sync_publish(ch, "", "mine-q"), "write", "exchange 'amq.default'"),
    ],
    ids=[
        "declare-queue",
        "delete-queue",
        "declare-exchange",
        "delete-exchange",
        "dead-letter-exchange",
        "alternate-binding",
        "alternate-binding-as-text",
        "alternate-of-a-queue",
        "alternate-of-an-exchange",
        "bind-write",
        "bind-read",
        "exchange-bind-write",
        "exchange-bind-read",
        "consume",
        "get",
        "purge",
        "publish",
        "publish-to-the-default-exchange",
    ],
)
def test_foreign_resources_are_refused(
    limited: pika.BlockingConnection,
    refused: Callable[[BlockingChannel], Any],
    access: str,
    resource: str,
) -> None:
    owner = limited.channel()
    owner.queue_declare("mine-q", exclusive=True)
    owner.exchange_declare("mine-x", auto_delete=True)
    channel = limited.channel()
    with pytest.raises(ChannelClosedByBroker) as raised:
        refused(channel)
    assert (raised.value.reply_code, raised.value.reply_text) == (
        403,
        f"ACCESS_REFUSED - {access} access to {resource} in vhost '/' refused for user 'limited'",
    )
    owner.exchange_delete("mine-x")


def test_vhost_without_permission_is_refused(
    connect: PikaConnect, limited: pika.BlockingConnection
) -> None:
    assert limited.is_open
    with pytest.raises(AMQPConnectionError) as raised:
        connect(
            credentials=pika.PlainCredentials("limited", "limited"),
            virtual_host="other",
        )
    assert "access to vhost 'other' refused for user 'limited'" in str(raised.value)
    assert "530" in repr(raised.value)


@pytest.mark.acceptance
def test_vhosts_are_separate_name_spaces(
    connect: PikaConnect, channel: BlockingChannel, queue: str, broker: BrokerUnderTest
) -> None:
    if broker.is_foreign:
        pytest.skip("needs a second vhost, and AMQP_URL_UNDER_TEST names a broker that runs")
    other = connect(virtual_host="other").channel()
    other.confirm_delivery()
    publish(other, queue, b"there")
    assert get_all(channel, queue) == []
    with pytest.raises(ChannelClosedByBroker, match=f"no queue '{queue}' in vhost 'other'"):
        other.queue_declare(queue, passive=True)
