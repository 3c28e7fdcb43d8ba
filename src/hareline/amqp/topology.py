"""exchange.* and queue.*: what the methods ask of the virtual host, and what they may.

Permissions are checked here (docs/security.md has the table); everything else about names, flags
and arguments is the virtual host's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hareline.amqp.reading_arguments import check_not_stream
from hareline.amqp.reply_to import REPLY_TO_NAME, REPLY_TO_PREFIX
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE, with_alternate
from hareline.broker.exchanges.registry import exchange_class
from hareline.broker.ownership import ClientOwner, client_owner
from hareline.broker.queues.dead_letters.dead_letters import alternate_of
from hareline.errors import AccessRefused, NotFound
from hareline.wire.methods import Exchange as ExchangeMethods
from hareline.wire.methods import Frame, commands

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel
    from hareline.auth.permissions import Resource
    from hareline.broker.queues.declare.arguments import QueueArguments


# Broker-J: how long a queue lives, where that is not a matter of its flags. Clients ask for this
# one when connection.start has told them of it, for temporary queues: with the auto-delete that
# they would ask for otherwise, such a queue ends with its first consumer.
LIFETIME_POLICY: Final = "qpid.lifetime_policy"
CONNECTION_LIFETIME: Final = "DELETE_ON_CONNECTION_CLOSE"


def _clean_name(name: str) -> str:
    """CR and LF are stripped where names are declared, deleted or bound, as RabbitMQ does."""
    return name.replace("\r", "").replace("\n", "")


def _refuse_default_exchange(*names: str) -> None:
    if "" in names:
        raise AccessRefused("operation not permitted on the default exchange")


def _require_dead_letter_rights(channel: Channel, name: str, arguments: QueueArguments) -> None:
    """A new queue needs read on itself and write on all that its dead letters can go to.

    For an alternate that x-dlq-auto makes it needs configure too. The text calls an alternate what
    it is now; the right covers an exchange and a queue of that name alike.
    """
    exchange, alternate = arguments.dead_letter_exchange, alternate_of(arguments, name)
    if exchange is None and alternate is None:
        return
    access, vhost = channel.access, channel.vhost
    access.require("read", "queue", name)
    if exchange is not None:
        access.require("write", "exchange", exchange)
    if alternate is not None:
        is_made = arguments.alternate_binding is None and alternate not in vhost.queues
        if is_made:
            access.require("configure", "queue", alternate)
        resource: Resource = "exchange" if alternate in vhost.exchanges else "queue"
        access.require("write", resource, alternate)


# ------------------------------------------------------------------------- exchange


def declare_exchange(channel: Channel, method: commands.Exchange.Declare) -> None:
    name = _clean_name(method.exchange)
    if not channel.dialect.declares_default_exchange:
        _refuse_default_exchange(name)
    if method.passive or (name == "" and method.exchange_type == "direct"):
        channel.vhost.exchange(name)
    else:
        exchange_class(method.exchange_type)  # an unknown type is refused before anything else
        channel.access.require("configure", "exchange", name)
        arguments: Mapping[str, object] = method.arguments or {}
        if name not in channel.vhost.exchanges:
            arguments = with_alternate(arguments, exchange=name, vhost=channel.vhost.name)
            alternate = arguments.get(ALTERNATE_EXCHANGE)
            if isinstance(alternate, str):
                channel.access.require("read", "exchange", name)
                channel.access.require("write", "exchange", alternate)
        channel.vhost.declare_exchange(
            name,
            method.exchange_type,
            is_durable=bool(method.durable),
            is_auto_delete=bool(method.auto_delete),
            is_internal=bool(method.internal),
            arguments=arguments,
            is_lenient=channel.dialect.redeclares_leniently,
        )
    if not method.nowait:
        channel.reply(commands.Exchange.DeclareOk)


def delete_exchange(channel: Channel, method: commands.Exchange.Delete) -> None:
    name = _clean_name(method.exchange)
    _refuse_default_exchange(name)
    channel.access.require("configure", "exchange", name)
    channel.vhost.delete_exchange(name, if_unused=bool(method.if_unused))
    if not method.nowait:
        channel.reply(commands.Exchange.DeleteOk)


def _exchange_ends(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind
) -> tuple[str, str]:
    """The names of source and destination."""
    source, destination = _clean_name(method.source), _clean_name(method.destination)
    _refuse_default_exchange(source, destination)
    channel.access.require("write", "exchange", destination)
    channel.access.require("read", "exchange", source)
    return source, destination


def bind_exchange(channel: Channel, method: commands.Exchange.Bind) -> None:
    source, name = _exchange_ends(channel, method)
    channel.vhost.exchange(source)  # where both are missing, RabbitMQ names this one
    destination = channel.vhost.exchange(name)
    channel.vhost.bind(source, "exchange", destination, method.routing_key, method.arguments or {})
    if not method.nowait:
        channel.reply(commands.Exchange.BindOk)


def unbind_exchange(channel: Channel, method: commands.Exchange.Unbind) -> None:
    source, name = _exchange_ends(channel, method)
    with suppress(NotFound):  # with an end the binding is gone too, which is no error in RabbitMQ
        destination = channel.vhost.exchange(name)
        channel.vhost.unbind(
            source, "exchange", destination, method.routing_key, method.arguments or {}
        )
    if not method.nowait:
        channel.reply(commands.Exchange.UnbindOk)


# exchange.bound reply codes, Qpid's extension of class exchange (method 22)
_BOUND, _NO_EXCHANGE, _NO_QUEUE, _NO_BINDINGS, _NOT_BOUND, _NO_KEY, _NOT_WITH_KEY = range(7)


def exchange_bound(channel: Channel, method: ExchangeMethods.Bound) -> None:
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


# ---------------------------------------------------------------------------- queue


def declare_queue(channel: Channel, method: commands.Queue.Declare) -> None:
    name = _clean_name(method.queue)
    if name == REPLY_TO_NAME or name.startswith(REPLY_TO_PREFIX):
        _declare_reply_queue(channel, method, name)
        return
    if method.passive:
        queue = channel.vhost.queue(name, channel.connection)
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
            owner is channel.connection and arguments.get(LIFETIME_POLICY) == CONNECTION_LIFETIME
        )
        queue = channel.vhost.declare_queue(
            name,
            is_server_named=is_server_named,
            is_durable=bool(method.durable) and (owner is None or isinstance(owner, ClientOwner)),
            is_auto_delete=bool(method.auto_delete) and not ends_with_connection,
            owner=owner,
            arguments=arguments,
            lenient_to=channel.connection if channel.dialect.redeclares_leniently else None,
            check_rights=partial(_require_dead_letter_rights, channel, name),
        )
    channel.last_queue_name = queue.name
    queue.deliver_due()
    if not method.nowait:
        channel.reply(
            commands.Queue.DeclareOk,
            queue=queue.name,
            message_count=queue.ready_count,
            consumer_count=queue.consumer_count,
        )


def _owner(channel: Channel, method: commands.Queue.Declare) -> object | None:
    """Whose the queue is exclusively.

    A durable one is RabbitMQ's clients' as long as their connection lasts, and so not durable at
    all; for Qpid's it is a durable subscription, which their client id owns.
    """
    if not method.exclusive:
        return None
    connection = channel.connection
    if method.durable and channel.dialect.keeps_durable_exclusive:
        return client_owner(connection) or connection
    return connection


def _declare_reply_queue(channel: Channel, method: commands.Queue.Declare, name: str) -> None:
    """A declare of a reply address, passive or not, asks whether the requester is still there."""
    if name != REPLY_TO_NAME and name not in channel.vhost.reply_queues:
        raise NotFound(f"no queue '{name}' in vhost '{channel.vhost.name}'")
    if not method.nowait:
        channel.reply(commands.Queue.DeclareOk, queue=name, message_count=0, consumer_count=1)


def delete_queue(channel: Channel, method: commands.Queue.Delete) -> None:
    name = channel.queue_name(_clean_name(method.queue))
    channel.access.require("configure", "queue", name)
    count = channel.vhost.delete_queue(
        name,
        channel.connection,
        if_unused=bool(method.if_unused),
        if_empty=bool(method.if_empty),
    )
    if not method.nowait:
        channel.reply(commands.Queue.DeleteOk, message_count=count)


def purge_queue(channel: Channel, method: commands.Queue.Purge) -> None:
    name = channel.queue_name(method.queue)
    channel.access.require("read", "queue", name)
    queue = channel.vhost.queue(name, channel.connection)
    queue_arguments = channel.vhost.queue_arguments[name]
    check_not_stream(queue_arguments, "queue.purge", queue=name, vhost=channel.vhost.name)
    queue.deliver_due()
    count = queue.purge()
    if not method.nowait:
        channel.reply(commands.Queue.PurgeOk, message_count=count)


def _queue_ends(
    channel: Channel, method: commands.Queue.Bind | commands.Queue.Unbind
) -> tuple[str, str, str]:
    """Exchange, queue and routing key, with the protocol's defaults filled in (queue.bind)."""
    name, exchange = channel.queue_name(_clean_name(method.queue)), _clean_name(method.exchange)
    routing_key = method.routing_key
    if not method.queue and not routing_key:
        routing_key = name
    if name == REPLY_TO_NAME or name.startswith(REPLY_TO_PREFIX):
        raise AccessRefused("cannot bind or unbind to a volatile (direct reply-to) queue")
    _refuse_default_exchange(exchange)
    channel.access.require("write", "queue", name)
    channel.access.require("read", "exchange", exchange)
    return exchange, name, routing_key


def bind_queue(channel: Channel, method: commands.Queue.Bind) -> None:
    exchange, name, routing_key = _queue_ends(channel, method)
    channel.vhost.exchange(exchange)  # where both are missing, RabbitMQ names this one
    queue = channel.vhost.queue(name, channel.connection)
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


def unbind_queue(channel: Channel, method: commands.Queue.Unbind) -> None:
    exchange, name, routing_key = _queue_ends(channel, method)
    with suppress(NotFound):
        queue = channel.vhost.queue(name, channel.connection)
        channel.vhost.unbind(
            exchange,
            "queue",
            queue,
            routing_key,
            method.arguments or {},
            is_by_key=channel.dialect.replaces_bindings,
        )
    channel.reply(commands.Queue.UnbindOk)


Handler = Callable[["Channel", Any], None]


def _lasting(handle: Handler) -> Handler:
    """What the client is told of these is to be true after a restart too."""

    def handle_and_await(channel: Channel, method: Any) -> None:
        handle(channel, method)
        channel.connection.await_definitions()

    return handle_and_await


HANDLERS: Final[Mapping[type[Frame], Handler]] = {
    commands.Exchange.Declare: _lasting(declare_exchange),
    commands.Exchange.Delete: _lasting(delete_exchange),
    commands.Exchange.Bind: _lasting(bind_exchange),
    commands.Exchange.Unbind: _lasting(unbind_exchange),
    ExchangeMethods.Bound: exchange_bound,
    commands.Queue.Declare: _lasting(declare_queue),
    commands.Queue.Delete: _lasting(delete_queue),
    commands.Queue.Purge: purge_queue,
    commands.Queue.Bind: _lasting(bind_queue),
    commands.Queue.Unbind: _lasting(unbind_queue),
}
