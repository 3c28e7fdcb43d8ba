"""exchange.*: what the methods ask of the virtual host, and which rights they need.

Called by ``amqp.method_dispatch``. docs/security.md has the table of rights; everything else about
names, flags and arguments is the virtual host's.

Invariant: what is durable was asked for before the reply to it can be written
(``await_definitions``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hareline.amqp.channel import Channel
from hareline.amqp.name_checks import clean_name, refuse_default_exchange, require_topic
from hareline.amqp.rights import require_exchange_rights, require_passing_on
from hareline.broker.archives import ARCHIVE_TO
from hareline.broker.exchange_types import exchange_class
from hareline.broker.exchanges.alternate import with_alternate
from hareline.errors import NotFound
from hareline.wire.methods import Exchange as ExchangeMethods
from hareline.wire.methods import commands


def declare(channel: Channel, method: commands.Exchange.Declare) -> None:
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
    if not method.nowait:
        channel.reply(commands.Exchange.DeclareOk)
    channel.connection.await_definitions(name, str((method.arguments or {}).get(ARCHIVE_TO, "")))


def delete(channel: Channel, method: commands.Exchange.Delete) -> None:
    """Delete an exchange; one that does not exist is no error."""
    name = clean_name(method.exchange)
    refuse_default_exchange(name)
    channel.access.require("configure", "exchange", name)
    channel.vhost.delete_exchange(name, if_unused=bool(method.if_unused))
    if not method.nowait:
        channel.reply(commands.Exchange.DeleteOk)
    channel.connection.await_definitions(name)


def _ends(
    channel: Channel, method: commands.Exchange.Bind | commands.Exchange.Unbind
) -> tuple[str, str]:
    """The names of source and destination."""
    source, destination = clean_name(method.source), clean_name(method.destination)
    refuse_default_exchange(source, destination)
    channel.access.require("write", "exchange", destination)
    channel.access.require("read", "exchange", source, method.routing_key)
    require_topic(channel, source, method.routing_key)
    return source, destination


def bind(channel: Channel, method: commands.Exchange.Bind) -> None:
    """Route from one exchange to another."""
    source, name = _ends(channel, method)
    channel.vhost.exchange(source)  # where both are missing, RabbitMQ names this one
    destination = channel.vhost.exchange(name)
    require_passing_on(channel.access, destination)
    channel.vhost.bind(source, "exchange", destination, method.routing_key, method.arguments or {})
    if not method.nowait:
        channel.reply(commands.Exchange.BindOk)
    channel.connection.await_definitions(source, name)


def unbind(channel: Channel, method: commands.Exchange.Unbind) -> None:
    """End a binding between exchanges; one that does not exist is no error."""
    source, name = _ends(channel, method)
    with suppress(NotFound):  # with an end the binding is gone too, which is no error in RabbitMQ
        destination = channel.vhost.exchange(name)
        channel.vhost.unbind(
            source, "exchange", destination, method.routing_key, method.arguments or {}
        )
    if not method.nowait:
        channel.reply(commands.Exchange.UnbindOk)
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
