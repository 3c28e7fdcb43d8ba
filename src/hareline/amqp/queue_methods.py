"""queue.*: what the methods ask of the virtual host, and which rights they need.

Called by ``amqp.method_dispatch``. docs/security.md has the table of rights; everything else about
names, flags and arguments is the virtual host's.

Invariant: as of ``amqp.exchange_methods``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from hareline.amqp.channel import Channel
from hareline.amqp.name_checks import clean_name, refuse_default_exchange, require_topic
from hareline.amqp.reading_arguments import check_not_stream
from hareline.amqp.reply_to import REPLY_TO_NAME, REPLY_TO_PREFIX
from hareline.amqp.rights import require_queue_rights
from hareline.broker.archives import ARCHIVE_TO
from hareline.broker.exchanges.bindings import Binding
from hareline.errors import AccessRefused, NotFound
from hareline.queues.core.ownership import ClientOwner, client_owner
from hareline.wire.methods import commands

# Broker-J: how long a queue lives, where that is not a matter of its flags. Clients ask for this
# one when connection.start has told them of it, for temporary queues: with the auto-delete that
# they would ask for otherwise, such a queue ends with its first consumer.
LIFETIME_POLICY: Final = "qpid.lifetime_policy"
CONNECTION_LIFETIME: Final = "DELETE_ON_CONNECTION_CLOSE"


def declare(channel: Channel, method: commands.Queue.Declare) -> None:
    """Make a queue, or check that it exists and is alike."""
    name = clean_name(method.queue)
    if name == REPLY_TO_NAME or name.startswith(REPLY_TO_PREFIX):
        _declare_reply_queue(channel, method, name)
        return
    if method.passive:
        queue = channel.vhost.queue(name, channel.client)
        if queue.lease is not None:
            queue.lease.touch()
    else:
        arguments: Mapping[str, object] = method.arguments or {}
        is_server_named = not name
        if is_server_named:
            name = channel.generated_queue_name(arguments)
        else:
            channel.access.require("configure", "queue", name)
        owner = _owner(channel, method)
        ends_with_connection = (
            owner is channel.client and arguments.get(LIFETIME_POLICY) == CONNECTION_LIFETIME
        )
        queue = channel.vhost.declare_queue(
            name,
            is_server_named=is_server_named,
            is_durable=bool(method.durable) and (owner is None or isinstance(owner, ClientOwner)),
            is_auto_delete=bool(method.auto_delete) and not ends_with_connection,
            owner=owner,
            arguments=arguments,
            lenient_to=channel.client if channel.dialect.redeclares_leniently else None,
            check_rights=partial(require_queue_rights, channel.access, channel.vhost, name),
        )
        if is_server_named:
            channel.take_generated_name()
    channel.last_queue_name = queue.name
    queue.deliver_due()
    if not method.nowait:
        channel.reply(
            commands.Queue.DeclareOk,
            queue=queue.name,
            message_count=queue.ready_count,
            consumer_count=queue.consumer_count,
        )
    channel.connection.await_definitions(queue.name, str(queue.arguments.get(ARCHIVE_TO, "")))


def _owner(channel: Channel, method: commands.Queue.Declare) -> object | None:
    """Whose the queue is exclusively.

    A durable one is RabbitMQ's clients' as long as their connection lasts, and so not durable at
    all; for Qpid's it is a durable subscription, which their client id owns.
    """
    if not method.exclusive:
        return None
    client = channel.client
    if method.durable and channel.dialect.keeps_durable_exclusive:
        return client_owner(client) or client
    return client


def _declare_reply_queue(channel: Channel, method: commands.Queue.Declare, name: str) -> None:
    """A declare of a reply address, passive or not, asks whether the requester is still there."""
    if name != REPLY_TO_NAME and name not in channel.vhost.reply_queues:
        raise NotFound(f"no queue '{name}' in vhost '{channel.vhost.name}'")
    if not method.nowait:
        channel.reply(commands.Queue.DeclareOk, queue=name, message_count=0, consumer_count=1)


def delete(channel: Channel, method: commands.Queue.Delete) -> None:
    """Delete a queue; one that does not exist is no error."""
    name = channel.queue_name(clean_name(method.queue))
    channel.access.require("configure", "queue", name)
    count = channel.vhost.delete_queue(
        name,
        channel.client,
        if_unused=bool(method.if_unused),
        if_empty=bool(method.if_empty),
    )
    if not method.nowait:
        channel.reply(commands.Queue.DeleteOk, message_count=count)
    channel.connection.await_definitions(name)


def purge(channel: Channel, method: commands.Queue.Purge) -> None:
    """Drop all ready messages of a queue."""
    name = channel.queue_name(method.queue)
    channel.access.require("read", "queue", name)
    queue = channel.vhost.queue(name, channel.client)
    queue_arguments = channel.vhost.queue_arguments[name]
    check_not_stream(queue_arguments, "queue.purge", queue=name, vhost=channel.vhost.name)
    queue.deliver_due()
    count = queue.purge()
    recorder = channel.parts.context.recorder
    if recorder is not None:
        recorder.on_queue("queue.purged", channel.vhost.name, queue, {"messages": count})
    if not method.nowait:
        channel.reply(commands.Queue.PurgeOk, message_count=count)


def _ends(
    channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind
) -> tuple[str, str, str]:
    """Exchange, queue and routing key, with the protocol's defaults filled in (queue.bind)."""
    name, exchange = channel.queue_name(clean_name(method.queue)), clean_name(method.exchange)
    routing_key = method.routing_key
    if not method.queue and not routing_key:
        routing_key = name
    if name == REPLY_TO_NAME or name.startswith(REPLY_TO_PREFIX):
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")
    refuse_default_exchange(exchange)
    channel.access.require("write", "queue", name)
    channel.access.require("read", "exchange", exchange, routing_key)
    require_topic(channel, exchange, routing_key)
    return exchange, name, routing_key


def bind(channel: Channel, method: commands.Queue.Bind) -> None:
    """Route from an exchange to a queue."""
    exchange, name, routing_key = _ends(channel, method)
    channel.vhost.exchange(exchange)  # where both are missing, RabbitMQ names this one
    queue = channel.vhost.queue(name, channel.client)
    channel.vhost.bind(
        exchange,
        "queue",
        queue,
        routing_key,
        method.arguments or {},
        is_by_key=channel.dialect.replaces_bindings,
    )
    if not method.nowait:
        channel.reply(commands.Queue.BindOk)
    channel.connection.await_definitions(exchange, name)


def unbind(channel: Channel, method: commands.Queue.Unbind) -> None:
    """End a binding of a queue; one that does not exist is no error, whosever the queue is."""
    exchange, name, routing_key = _ends(channel, method)
    vhost, arguments = channel.vhost, method.arguments or {}
    is_by_key = channel.dialect.replaces_bindings
    if is_by_key or Binding.of(exchange, "queue", name, routing_key, arguments) in vhost.bindings:
        with suppress(NotFound):
            queue = vhost.queue(name, channel.client)
            vhost.unbind(exchange, "queue", queue, routing_key, arguments, is_by_key=is_by_key)
    channel.reply(commands.Queue.UnbindOk)
    channel.connection.await_definitions(exchange, name)
