"""Events of connections, channels, consumers and logins, for the event exchange.

Names of headers are RabbitMQ's; where it has the id of a process, ``pid``, this is the name of the
object. Each event that something has come is followed by one that it has gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from hareline.amqp.client import Client
from hareline.amqp.context import ConnectionParts, Context
from hareline.amqp.ports import Transport, tls_fields
from hareline.broker.change_recorder import NOBODY, ChangeRecorder, Doer
from hareline.broker.event_exchange import EventExchange
from hareline.queues.core.consumer import Consumer
from hareline.wire.table import Table

PROTOCOL = "{0,9,1}"  # as RabbitMQ writes it in a header


def acting(context: Context, doer: Doer) -> AbstractContextManager[None]:
    """Attribute what happens meanwhile to ``doer``."""
    events, recorder = context.events, context.recorder
    if events is None or not doer.user:
        return nullcontext() if recorder is None else recorder.acting(doer)
    return events.acting(doer.user) if recorder is None else _acting(events, recorder, doer)


@contextmanager
def _acting(events: EventExchange, recorder: ChangeRecorder, doer: Doer) -> Iterator[None]:
    with events.acting(doer.user), recorder.acting(doer):
        yield


def doer_of(client: Client, transport: Transport) -> Doer:
    """The user of a connection as the one who does what it asks for."""
    user = client.user
    return NOBODY if user is None else Doer("amqp", user.name, transport.peer, user.backend)


def wanted_events(context: Context) -> EventExchange | None:
    events = context.events
    return None if events is None or not events.is_wanted else events


def on_login(
    context: Context, transport: Transport, name: str, mechanism: str, error: str = ""
) -> None:
    """A user has logged in, or with ``error`` has tried to."""
    events = wanted_events(context)
    if events is None:
        return
    fields: dict[str, object] = {
        "connection_type": "network",
        "name": name,
        "connection_name": transport.connection_name,
        **_ends(transport, "host", "peer_host", "peer_port"),
        "protocol": PROTOCOL,
        "auth_mechanism": mechanism,
        "ssl": transport.tls is not None,
    }
    if error:
        events.emit("user.authentication.failure", {**fields, "error": error})
    else:
        events.emit("user.authentication.success", fields)


def on_connection_open(
    context: Context,
    transport: Transport,
    client: Client,
    *,
    mechanism: str,
    frame_max: int,
    channel_max: int,
    heartbeat_s: int,
) -> None:
    events = wanted_events(context)
    if events is None or client.user is None:
        return
    given = client.properties.get("connection_name")
    events.emit(
        "connection.created",
        {
            "type": "network",
            "pid": transport.connection_name,
            "name": transport.connection_name,
            **_ends(transport, "host", "port", "peer_host", "peer_port"),
            **tls_fields(transport.tls),
            "auth_mechanism": mechanism,
            "protocol": PROTOCOL,
            "user": client.user.name,
            "vhost": client.vhost.name,
            "timeout": heartbeat_s,
            "frame_max": frame_max,
            "channel_max": channel_max,
            "client_properties": Table(client.properties),
            "user_provided_name": given if isinstance(given, str) else None,
            "connected_at": context.clock.now_ms,
            "node": events.node,
            "user_who_performed_action": client.user.name,
        },
    )


@contextmanager
def ending(
    context: Context, transport: Transport, client: Client, *, is_open: bool
) -> Iterator[None]:
    """A connection ends meanwhile, with its channels and all that is its own."""
    if context.events is None or not is_open:
        yield
        return
    with acting(context, doer_of(client, transport)):
        yield
    events = wanted_events(context)
    if events is not None and client.user is not None:
        events.emit(
            "connection.closed",
            {
                "pid": transport.connection_name,
                "name": transport.connection_name,
                "node": events.node,
                "client_properties": Table(client.properties),
                "vhost": client.vhost.name,
                "user_who_performed_action": client.user.name,
            },
        )


def on_channel(key: str, parts: ConnectionParts, number: int) -> None:
    """``channel.created`` or ``channel.closed``."""
    events, client, transport = wanted_events(parts.context), parts.client, parts.transport
    if events is None or client.user is None:
        return
    name = channel_name(transport, number)
    fields: dict[str, object] = {"pid": name, "name": name}
    if key == "channel.created":
        fields |= {
            "connection": transport.connection_name,
            "number": number,
            "user": client.user.name,
            "vhost": client.vhost.name,
        }
    events.emit(key, {**fields, "user_who_performed_action": client.user.name})


def on_consumer(
    key: str,
    parts: ConnectionParts,
    number: int,
    consumer: Consumer,
    further: Mapping[str, object] | None = None,
) -> None:
    """``consumer.created``, ``consumer.slow`` or ``consumer.deleted``, with ``further`` fields."""
    events, client = wanted_events(parts.context), parts.client
    if events is None or client.user is None:
        return
    fields: dict[str, object] = {
        "consumer_tag": consumer.tag,
        "channel": channel_name(parts.transport, number),
        "queue": consumer.queue.name,
        "vhost": client.vhost.name,
        **(further or {}),
    }
    if key == "consumer.created":
        fields |= {"exclusive": consumer.is_exclusive, "ack_required": consumer.acknowledges}
    events.emit(key, {**fields, "user_who_performed_action": client.user.name})


def channel_name(transport: Transport, number: int) -> str:
    """RabbitMQ's name of a channel: its connection's name and its number."""
    return f"{transport.connection_name} ({number})"


def _ends(transport: Transport, *names: str) -> dict[str, object]:
    facts = transport.socket_facts()
    return {name: getattr(facts, name) for name in names}
