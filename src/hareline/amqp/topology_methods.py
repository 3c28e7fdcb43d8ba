"""exchange.* and queue.*: what the methods ask of the virtual host, and the rights they need.

docs/security.md has the table of rights; everything else about names, flags and arguments is the
virtual host's. Durable changes are asked for before the reply to them can be written
(``await_definitions``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from hareline.amqp.auto_creation import bind_to_topic, find_queue, require_topic_rights
from hareline.amqp.channel import Channel
from hareline.amqp.consumer_arguments import check_not_stream
from hareline.amqp.reply_to import REPLY_TO_NAME, REPLY_TO_PREFIX
from hareline.amqp.rights import require_exchange_rights, require_passing_on, require_queue_rights
from hareline.broker.archives import ARCHIVE_TO
from hareline.broker.exchange_types import exchange_class
from hareline.broker.exchanges.alternate import with_alternate
from hareline.broker.exchanges.bindings import Binding
from hareline.errors import AccessRefused, NotFound
from hareline.queues.core.ownership import ClientOwner, client_owner
from hareline.wire.methods import Exchange as ExchangeMethods
from hareline.wire.methods import commands

# Broker-J: how long a queue lives, where that is not a matter of its flags. Clients ask for this
# one when connection.start has told them of it, for temporary queues: with the auto-delete that
# they would ask for otherwise, such a queue ends with its first consumer.
LIFETIME_POLICY: Final = "qpid.lifetime_policy"
CONNECTION_LIFETIME: Final = "DELETE_ON_CONNECTION_CLOSE"


def clean_name(name: str) -> str:
    """The name without CR and LF, as RabbitMQ has it where names are declared, deleted or bound."""
    return name.replace("\r", "").replace("\n", "")


def refuse_default_exchange(*names: str) -> None:
    """Raise AccessRefused if one of these names is the default exchange's."""
    if "" in names:
        raise AccessRefused("operation not permitted on the default exchange")


def require_topic(channel: Channel, source: str, routing_key: str) -> None:
    """Raise AccessRefused if the user may not bind to a topic exchange with this key."""
    exchange = channel.vhost.exchanges.get(source)
    if exchange is not None and exchange.type_name == "topic":
        channel.access.require_topic("read", source, routing_key)


def declare_exchange(channel: Channel, method: commands.Exchange.Declare) -> None:
    """Make an exchange, or check that it exists and is alike."""
    name = clean_name(method.exchange)
    if not channel.dialect.declares_default_exchange:
        refuse_default_exchange(name)
    if method.passive or (name == "" and method.exchange_type == "direct"):
        channel.vhost.exchange(name)
    else:
        exchange_class(method.exchange_type)  # an unknown type is refused before anything else
        channel.access.require("configure", "exchange", name)
        arguments: Mapping[str, object] = method.arguments or {}
        if name not in channel.vhost.exchanges:
            arguments = with_alternate(arguments, exchange=name, vhost=channel.vhost.name)
            require_exchange_rights(channel.access, name, arguments)
        channel.vhost.declare_exchange(
            name,
            method.exchange_type,
            is_durable=bool(method.durable),
            is_auto_delete=bool(method.auto_delete),
            is_internal=bool(method.internal),
            arguments=arguments,
            is_lenient=channel.dialect.redeclares_leniently,
        )
    channel.answer(method, commands.Exchange.DeclareOk)
    channel.connection.await_definitions(name, str((method.arguments or {}).get(ARCHIVE_TO, "")))


def delete_exchange(channel: Channel, method: commands.Exchange.Delete) -> None:
    """Delete an exchange; one that does not exist is no error."""
    name = clean_name(method.exchange)
    refuse_default_exchange(name)
    channel.access.require("configure", "exchange", name)
    channel.vhost.delete_exchange(name, if_unused=bool(method.if_unused))
    channel.answer(method, commands.Exchange.DeleteOk)
    channel.connection.await_definitions(name)


def _ends_of_exchange(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind
) -> tuple[str, str]:
    source, destination = clean_name(method.source), clean_name(method.destination)
    refuse_default_exchange(source, destination)
    channel.access.require("write", "exchange", destination)
    channel.access.require("read", "exchange", source, method.routing_key)
    require_topic(channel, source, method.routing_key)
    return source, destination


def bind_exchange(channel: Channel, method: commands.Exchange.Bind) -> None:
    source, name = _ends_of_exchange(channel, method)
    channel.vhost.exchange(source)  # where both are missing, RabbitMQ names this one
    destination = channel.vhost.exchange(name)
    require_passing_on(channel.access, destination)
    channel.vhost.bind(source, "exchange", destination, method.routing_key, method.arguments or {})
    channel.answer(method, commands.Exchange.BindOk)
    channel.connection.await_definitions(source, name)


def unbind_exchange(channel: Channel, method: commands.Exchange.Unbind) -> None:
    """End a binding between exchanges; one that does not exist is no error."""
    source, name = _ends_of_exchange(channel, method)
    with suppress(NotFound):  # with an end the binding is gone too, which is no error in RabbitMQ
        destination = channel.vhost.exchange(name)
        channel.vhost.unbind(
            source, "exchange", destination, method.routing_key, method.arguments or {}
        )
    channel.answer(method, commands.Exchange.UnbindOk)
    channel.connection.await_definitions(source, name)


# exchange.bound reply codes, Qpid's extension of class exchange (method 22)
_BOUND, _NO_EXCHANGE, _NO_QUEUE, _NO_BINDINGS, _NOT_BOUND, _NO_KEY, _NOT_WITH_KEY = range(7)


def bound(channel: Channel, method: ExchangeMethods.Bound) -> None:
    """Is there a binding of this exchange to this queue, with this routing key? Empty = any."""
    code, text = _bound(channel, method.exchange, method.queue, method.routing_key)
    channel.reply(ExchangeMethods.BoundOk, reply_code=code, reply_text=text)


def _bound(channel: Channel, exchange: str, queue: str, routing_key: str) -> tuple[int, str]:
    vhost = channel.vhost
    if exchange not in vhost.exchanges:
        return _NO_EXCHANGE, f"Exchange '{exchange}' not found"
    if queue and queue not in vhost.queues:
        return _NO_QUEUE, f"Queue '{queue}' not found"
    if exchange == "":  # every queue is bound to the default exchange by its name
        bound = [(name, name) for name in ([queue] if queue else vhost.queues)]
    else:
        bindings = (
            vhost.bindings.to_destination("queue", queue)
            if queue
            else vhost.bindings.from_source(exchange)
        )
        bound = [
            (binding.destination, binding.routing_key)
            for binding in bindings
            if binding.kind == "queue" and binding.source == exchange
        ]
    if any(key == routing_key or not routing_key for _, key in bound):
        return _BOUND, ""
    if not queue and not routing_key:
        return _NO_BINDINGS, f"No bindings of '{exchange}'"
    if not routing_key:
        return _NOT_BOUND, f"Queue '{queue}' is not bound"
    if not queue:
        return _NO_KEY, f"No queue bound with '{routing_key}'"
    return _NOT_WITH_KEY, f"'{queue}' not bound with '{routing_key}'"


def declare_queue(channel: Channel, method: commands.Queue.Declare) -> None:
    """Make a queue, or check that it exists and is alike."""
    name = clean_name(method.queue)
    if name == REPLY_TO_NAME or name.startswith(REPLY_TO_PREFIX):
        _declare_reply_queue(channel, method, name)
        return
    if method.passive:
        queue = find_queue(channel, name)
        if queue.lease is not None:
            queue.lease.touch()
    else:
        arguments: Mapping[str, object] = method.arguments or {}
        is_server_named = not name
        is_new = name not in channel.vhost.queues
        topic = channel.vhost.auto_creation.topic_of(name) if is_new else None
        if is_server_named:
            name = channel.generated_queue_name(arguments)
        else:
            channel.access.require("configure", "queue", name)
        if topic is not None:
            require_topic_rights(channel, name, topic)
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
        if topic is not None:
            bind_to_topic(channel, queue, topic)
        if is_server_named:
            channel.take_generated_name()
    channel.last_queue_name = queue.name
    queue.deliver_due()
    channel.answer(
        method,
        commands.Queue.DeclareOk,
        queue=queue.name,
        message_count=queue.ready_count,
        consumer_count=queue.consumer_count,
    )
    channel.connection.await_definitions(queue.name, str(queue.arguments.get(ARCHIVE_TO, "")))


def _owner(channel: Channel, method: commands.Queue.Declare) -> object | None:
    """Owner of an exclusive queue; None if it is not exclusive.

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
    channel.answer(method, commands.Queue.DeclareOk, queue=name, message_count=0, consumer_count=1)


def delete_queue(channel: Channel, method: commands.Queue.Delete) -> None:
    """Delete a queue; one that does not exist is no error."""
    name = channel.queue_name(clean_name(method.queue))
    channel.access.require("configure", "queue", name)
    count = channel.vhost.delete_queue(
        name,
        channel.client,
        if_unused=bool(method.if_unused),
        if_empty=bool(method.if_empty),
    )
    channel.answer(method, commands.Queue.DeleteOk, message_count=count)
    channel.connection.await_definitions(name)


def purge_queue(channel: Channel, method: commands.Queue.Purge) -> None:
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
    channel.answer(method, commands.Queue.PurgeOk, message_count=count)


def _ends_of_queue(
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


def bind_queue(channel: Channel, method: commands.Queue.Bind) -> None:
    exchange, name, routing_key = _ends_of_queue(channel, method)
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
    channel.answer(method, commands.Queue.BindOk)
    channel.connection.await_definitions(exchange, name)


def unbind_queue(channel: Channel, method: commands.Queue.Unbind) -> None:
    """End a binding of a queue; one that does not exist is no error, whosever the queue is."""
    exchange, name, routing_key = _ends_of_queue(channel, method)
    vhost, arguments = channel.vhost, method.arguments or {}
    is_by_key = channel.dialect.replaces_bindings
    if is_by_key or Binding.of(exchange, "queue", name, routing_key, arguments) in vhost.bindings:
        with suppress(NotFound):
            queue = vhost.queue(name, channel.client)
            vhost.unbind(exchange, "queue", queue, routing_key, arguments, is_by_key=is_by_key)
    channel.reply(commands.Queue.UnbindOk)
    channel.connection.await_definitions(exchange, name)
