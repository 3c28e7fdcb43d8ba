"""Queues that are made when a client first uses them; ``broker.auto_creation`` has the rules.

Each is durable and has no arguments but those of policies. Its user needs the rights of a declare.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hareline.amqp.internal_events import acting, doer_of
from hareline.amqp.rights import require_queue_rights
from hareline.wire.methods import commands, decode_method

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel
    from hareline.queues.queue import Queue


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
    if not vhost.auto_creation.makes_queue(name):
        return
    access.require("configure", "queue", name)
    with acting(channel.parts.context, doer_of(channel.client, channel.parts.transport)):
        vhost.declare_queue(
            name,
            is_durable=True,
            is_auto_delete=False,
            owner=None,
            arguments={},
            check_rights=partial(require_queue_rights, access, vhost, name),
        )
    channel.connection.await_definitions(name)


def before_publish(channel: Channel, method_payload: bytes) -> None:
    """Make the queue that a publish to the default exchange names, where that is to be made.

    Its content is handled when the queue is durable, since no route leads there before; a queue
    that another client's use has just made is waited for too.
    """
    if method_payload in channel.publishing.routes:
        return
    method = decode_method(method_payload)
    assert isinstance(method, commands.Basic.Publish)
    name, vhost = str(method.routing_key), channel.vhost
    queue = vhost.queues.get(name)
    if method.exchange or (queue is not None and queue not in vhost.routing.hidden):
        return
    if queue is None:
        channel.access.require("write", "exchange", "", name)
        make_missing_queue(channel, name)
    elif vhost.auto_creation.makes_queue(name):
        channel.connection.await_definitions(name)
