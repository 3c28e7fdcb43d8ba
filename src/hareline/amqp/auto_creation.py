"""Queues that are made when a client first uses them; ``broker.auto_creation`` has the rules.

Each is durable and has no arguments but those of policies. Its user needs the rights of a declare,
and of a binding where it is the queue of a virtual topic.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hareline.amqp.internal_events import acting, doer_of
from hareline.amqp.rights import require_queue_rights
from hareline.errors import AmqpError, PreconditionFailed
from hareline.wire.methods import commands, decode_method

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel
    from hareline.queues.queue import Queue

_EVERY_KEY: Final = "#"
_TOPIC_TYPES: Final = ("topic", "fanout")


def find_queue(channel: Channel, name: str) -> Queue:
    """The queue of this name, which may be made for it.

    Raises NotFound, ResourceLocked, and where it is to be made what a declare of it would raise.
    """
    if name not in channel.vhost.queues:
        make_missing_queue(channel, name)
    return channel.vhost.queue(name, channel.client)


def make_missing_queue(channel: Channel, name: str) -> None:
    """Make a queue of this name if the virtual host's rules say so; it does not exist.

    Raises AccessRefused without the right to configure it, and PreconditionFailed at a limit.
    """
    vhost, access = channel.vhost, channel.access
    topic = vhost.auto_creation.topic_of(name)
    if topic is None and not vhost.auto_creation.makes_queue(name, vhost.default_queue_type):
        return
    access.require("configure", "queue", name)
    if topic is not None:
        require_topic_rights(channel, name, topic)
    with acting(channel.parts.context, doer_of(channel.client, channel.parts.transport)):
        queue = vhost.declare_queue(
            name,
            is_durable=True,
            is_auto_delete=False,
            owner=None,
            arguments={},
            check_rights=partial(require_queue_rights, access, vhost, name),
        )
        if topic is not None:
            bind_to_topic(channel, queue, topic)
    channel.connection.await_definitions(name, topic or "")


def require_topic_rights(channel: Channel, name: str, topic: str) -> None:
    """Raise AccessRefused unless the user may bind a queue of this name to a virtual topic.

    Those of queue.bind, and to configure the exchange if it is missing. Raises PreconditionFailed
    for an exchange of a type that does not give all its messages to such a binding.
    """
    access, exchange = channel.access, channel.vhost.exchanges.get(topic)
    access.require("write", "queue", name)
    access.require("read", "exchange", topic, _EVERY_KEY)
    if exchange is None:
        access.require("configure", "exchange", topic)
    elif exchange.type_name not in _TOPIC_TYPES:
        raise PreconditionFailed(
            f"exchange '{topic}' in vhost '{channel.vhost.name}' is of type "
            f"'{exchange.type_name}'; a virtual topic is of type 'topic' or 'fanout'"
        )
    if exchange is None or exchange.type_name == "topic":
        access.require_topic("read", topic, _EVERY_KEY)


def bind_to_topic(channel: Channel, queue: Queue, topic: str) -> None:
    """Have a new queue get all messages of a virtual topic; its exchange is made if missing.

    Raises what a declare or a bind raises, and there is no queue then.
    """
    vhost = channel.vhost
    try:
        if topic not in vhost.exchanges:
            vhost.declare_exchange(
                topic,
                "topic",
                is_durable=True,
                is_auto_delete=False,
                is_internal=False,
                arguments={},
            )
        vhost.bind(topic, "queue", queue, _EVERY_KEY, {})
    except AmqpError:
        vhost.delete_queue(queue.name, channel.client)
        raise


def before_publish(channel: Channel, method_payload: bytes) -> None:
    """Make the queue that a publish to the default exchange names, where that is to be made.

    Its content is handled when the queue is durable, since no route leads there before; a queue
    that another client's use has just made is waited for too.
    """
    vhost = channel.vhost
    if not vhost.auto_creation.is_on or method_payload in channel.publishing.routes:
        return
    method = decode_method(method_payload)
    assert isinstance(method, commands.Basic.Publish)
    name = str(method.routing_key)
    queue = vhost.queues.get(name)
    if method.exchange or (queue is not None and queue not in vhost.routing.hidden):
        return
    if queue is None:
        channel.access.require("write", "exchange", "", name)
        make_missing_queue(channel, name)
    elif vhost.auto_creation.makes_queue(name, vhost.default_queue_type):
        channel.connection.await_definitions(name)
