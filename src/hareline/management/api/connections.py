"""Connections, their channels and consumers: what each is doing, and its end.

Users see their own connections, and consumers of these in virtual hosts that they see; with the tag
monitoring all. A connection is closed, and a consumer cancelled, by its user or an administrator:
the client gets connection.close 320 with the reason from ``X-Reason``, or basic.cancel.

Invariant: a caller without the tag monitoring finds only its own connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hareline import events
from hareline.administration.checks import table_json
from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.consumer_watch import slow_reason
from hareline.amqp.consuming import ChannelConsumer, timeout_ms_of
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.ports import tls_fields
from hareline.counts import ConnectionCounts
from hareline.management.answers import Refusal, answer, bad_request, instant, no_content, not_found
from hareline.management.api.call import Call, Caller, Routes
from hareline.management.api.listing import answer_with_list, listing, picked_columns
from hareline.management.api.rates import RATED, Keys, Rates
from hareline.management.api.site import Site
from hareline.management.pace import Share
from hareline.management.routes import parameter
from hareline.queues.queue import Queue
from hareline.statistics.blocking import Blocked, why_channel_waits, why_connection_waits
from hareline.statistics.readings import (
    channel_facts,
    channel_state,
    connection_facts,
    connection_state,
    consumer_facts,
    provided_name,
)
from hareline.statistics.unacked import Deliveries, delivered_ms, oldest_ms

routes = Routes("connections")
channel_routes = Routes("channels")
consumer_routes = Routes("consumers")

DEFAULT_REASON: Final = "Closed via management plugin"
_REASON: Final = parameter("X-Reason", "string", "Why; the client is told.", place="header")

ConsumerPlace = tuple[Connection, ChannelConsumer]


# -------------------------------------------------------------------------------- what is shown


class BlockedBy(BaseModel):
    """A reason to wait: memory, disk, queue, behind, commit, output, or client.

    ``limit``: the argument of the full queue; ``value`` of ``limit_value`` is used.
    """

    reason: str
    text: str
    since_ms: int | None
    vhost: str | None
    queue: str | None
    limit: str | None
    limit_value: int | None
    value: int | None
    channel: int | None


def blocking_json(reasons: Sequence[Blocked]) -> dict[str, Any]:
    """The keys of a connection or channel; the times are epoch milliseconds."""
    known = [each.since_ms for each in reasons if each.since_ms is not None]
    return {
        "blocked_reason": "; ".join(each.text for each in reasons) or None,
        "blocked_since_ms": min(known, default=None),
        "blocked_by": [each._asdict() for each in reasons],
    }


def blocked_since_ms(reasons: Sequence[Blocked]) -> int:
    """To sort by: when the first reason began; 0 where nothing blocks or no time is known."""
    return min((each.since_ms for each in reasons if each.since_ms is not None), default=0)


class ConnectionInfo(BaseModel):
    """A connection. Times are epoch milliseconds; ``timeout``: the heartbeat in seconds.

    ``blocked_reason``: why its publishes wait, null if they do not; ``blocked_by`` has the parts.
    ``ssl_...`` are null without TLS, and ``peer_cert_...`` unless its client has shown one.
    """

    model_config = ConfigDict(extra="allow")

    name: str
    node: str
    user: str
    vhost: str
    state: str
    blocked_reason: str | None = None
    blocked_since_ms: int | None = None
    blocked_by: list[BlockedBy] = []
    protocol: str
    peer_host: str
    peer_port: int
    host: str
    port: int
    channels: int
    connected_at: int
    frame_max: int
    channel_max: int
    timeout: int
    auth_mechanism: str
    ssl: bool
    ssl_protocol: str | None
    ssl_key_exchange: str | None
    ssl_cipher: str | None
    ssl_hash: str | None
    peer_cert_subject: str | None
    peer_cert_issuer: str | None
    peer_cert_validity: str | None
    client_properties: dict[str, Any]
    recv_oct: int
    send_oct: int


def describe_connections(site: Site, rates: Rates) -> Callable[[Connection], dict[str, Any]]:
    """Return the function that makes the JSON object of a connection."""
    node = site.node.name

    def described(connection: Connection) -> dict[str, Any]:
        facts = connection_facts(connection)
        row: dict[str, Any] = {
            "name": facts.name,
            "node": node,
            "vhost": facts.vhost,
            "user": facts.user,
            "user_who_performed_action": facts.user,
            "type": "network",
            "protocol": "AMQP 0-9-1",
            "state": facts.state,
            "peer_host": facts.peer_host,
            "peer_port": facts.peer_port,
            "host": facts.host,
            "port": facts.port,
            **tls_fields(connection.transport.tls),
            "auth_mechanism": facts.auth_mechanism,
            "connected_at": facts.connected_ms,
            "timeout": facts.heartbeat_s,
            "frame_max": facts.frame_max,
            "channel_max": facts.channel_max,
            "client_properties": facts.client_properties,
        }
        if facts.user_provided_name:
            row["user_provided_name"] = facts.user_provided_name
        if rates.is_wanted:
            row |= blocking_json(why_connection_waits(connection))
            row["channels"] = facts.channel_count
            row["send_pend"] = facts.send_pend
            row["is_slow"] = facts.is_slow
            row |= rates.with_details(
                "connection", (facts.name,), facts.counts.as_dict(), "data_rates"
            )
        return row

    return described


class ConnectionDetails(BaseModel):
    """The connection of a channel."""

    name: str
    peer_host: str
    peer_port: int


class ChannelInfo(BaseModel):
    """A channel; ``state`` is running, flow or closing, ``blocked_reason`` why it waits."""

    model_config = ConfigDict(extra="allow")

    name: str
    number: int
    node: str
    user: str
    vhost: str
    state: str
    blocked_reason: str | None
    blocked_since_ms: int | None
    blocked_by: list[BlockedBy]
    connection_details: ConnectionDetails
    prefetch_count: int
    global_prefetch_count: int
    consumer_count: int
    confirm: bool
    transactional: bool
    messages_unacknowledged: int
    messages_unconfirmed: int
    messages_uncommitted: int
    acks_uncommitted: int


def describe_channels(site: Site, rates: Rates) -> Callable[[Channel], dict[str, Any]]:
    """Return the function that makes the JSON object of a channel."""
    node = site.node.name

    def described(channel: Channel) -> dict[str, Any]:
        facts = channel_facts(channel)
        socket = channel.parts.transport.socket_facts()
        row: dict[str, Any] = {
            "name": facts.name,
            "number": facts.number,
            "node": node,
            "user": facts.user,
            "user_who_performed_action": facts.user,
            "vhost": facts.vhost,
            "state": facts.state,
            "connection_details": {
                "name": facts.connection_name,
                "peer_host": socket.peer_host,
                "peer_port": socket.peer_port,
            },
            "prefetch_count": facts.prefetch_count,
            "global_prefetch_count": facts.global_prefetch_count,
            "consumer_count": facts.consumer_count,
            "confirm": facts.is_confirming,
            "transactional": facts.is_transactional,
            "messages_unacknowledged": facts.unacked,
            "messages_unconfirmed": facts.unconfirmed,
            "messages_uncommitted": facts.uncommitted,
            "acks_uncommitted": facts.acks_uncommitted,
            "is_stopped": facts.is_stopped,
            **blocking_json(why_channel_waits(channel)),
        }
        if rates.is_wanted:
            row |= rates.object_stats("channel", (facts.name,), facts.counts.as_dict())
            changed_ms = rates.changed_ms("channel", (facts.name,), 0)
            if changed_ms:
                row["idle_since"] = instant(changed_ms)
        return row

    return described


class QueuePlace(BaseModel):
    """The queue of a consumer."""

    name: str
    vhost: str


class ChannelDetails(BaseModel):
    """The channel of a consumer."""

    name: str
    number: int
    user: str
    connection_name: str
    user_provided_name: str
    peer_host: str
    peer_port: int
    node: str


class ConsumerInfo(BaseModel):
    """A consumer; ``activity_status`` is up, single_active or waiting."""

    model_config = ConfigDict(extra="allow")

    consumer_tag: str
    queue: QueuePlace
    channel_details: ChannelDetails
    ack_required: bool
    exclusive: bool
    active: bool
    activity_status: str
    prefetch_count: int
    arguments: dict[str, Any]


def describe_consumer(
    site: Site,
    connection: Connection,
    consumer: ChannelConsumer,
    deliveries: Deliveries | None = None,
) -> dict[str, Any]:
    """The JSON object of a consumer; ``deliveries``: those of a list that shows more of them."""
    facts = consumer_facts(consumer, connection.client.vhost.name, deliveries)
    socket, user = connection.transport.socket_facts(), connection.client.user
    row: dict[str, Any] = {
        "consumer_tag": facts.tag,
        "queue": {"name": facts.queue, "vhost": facts.vhost},
        "channel_details": {
            "name": facts.channel_name,
            "number": consumer.port.number,
            "user": "" if user is None else user.name,
            "connection_name": connection.transport.connection_name,
            "user_provided_name": provided_name(connection),
            "peer_host": socket.peer_host,
            "peer_port": socket.peer_port,
            "node": site.node.name,
        },
        "ack_required": facts.ack_required,
        "exclusive": facts.exclusive,
        "active": facts.active,
        "activity_status": facts.status,
        "prefetch_count": facts.prefetch_count,
        "consumer_timeout": timeout_ms_of(consumer, connection.client.vhost),
        "arguments": table_json(facts.arguments),
        "priority": facts.priority,
        "messages_unacknowledged": facts.unacked,
        "is_slow": bool(facts.slow_reason),
    }
    if facts.slow_reason:
        row["slow_reason"] = facts.slow_reason
    if facts.credit is not None:
        row["credit"] = facts.credit
    if facts.oldest_tag and site.sampler is not None:
        since_ms = delivered_ms(site.sampler, facts.channel_name, facts.oldest_tag)
        if since_ms is not None:
            row["oldest_unacknowledged_age_s"] = age_s(site, since_ms)
    return row


def holder_json(
    port: DeliveryPort, consumer: ChannelConsumer | None, connection: Connection | None
) -> dict[str, Any]:
    """Tell the holder of a delivery. ``consumer`` None: it was got, or its consumer is gone."""
    user = None if connection is None else connection.client.user
    return {
        "consumer_tag": None if consumer is None else consumer.tag,
        "channel": port.channel_name,
        "connection_name": port.output.connection_name,
        "user": None if user is None else user.name,
    }


def age_s(site: Site, since_ms: int) -> float:
    """Return the time since then, in seconds."""
    return max(0, site.context.clock.now_ms - since_ms) / 1000


# ----------------------------------------------------------------------------- those that are open


def connections_of(site: Site, who: Caller) -> Iterator[Connection]:
    """The connections that the caller sees, in the order in which they came."""
    for live in list(site.context.connections):
        connection = cast("Connection", live)
        if connection.client.user is not None and (who.is_monitor or is_own(who, connection)):
            yield connection


def is_own(who: Caller, connection: Connection) -> bool:
    """True if the caller itself has logged in by it; not a namesake of another backend."""
    user = connection.client.user
    return user is not None and user.identity == who.user.identity


def open_connections_of(site: Site, who: Caller) -> Iterator[Connection]:
    """Those of them that have entered a virtual host, so that they may have channels."""
    return (each for each in connections_of(site, who) if each.client.is_open)


def channels_of(connection: Connection) -> list[Channel]:
    """Its channels, by number."""
    return [channel for _, channel in sorted(connection.channels.by_number.items())]


async def find_connection(site: Site, who: Caller, name: str, share: Share) -> Connection:
    """The connection of this name. Raises Refusal: 404 if the caller sees none."""
    for connection in connections_of(site, who):
        await share.pause()
        if connection.transport.connection_name == name:
            return connection
    raise not_found()


async def find_channel(
    site: Site, who: Caller, name: str, share: Share
) -> tuple[Connection, Channel]:
    """The channel of this name, and its connection. Raises Refusal: 404 if the caller sees none."""
    connection_part, _, number = name.removesuffix(")").rpartition(" (")
    connection = await find_connection(site, who, connection_part, share)
    for channel in channels_of(connection):
        if str(channel.number) == number:
            return connection, channel
    raise not_found()


def connection_details(connection: Connection) -> dict[str, Any]:
    """Return the details that objects show of the connection that they belong to."""
    socket = connection.transport.socket_facts()
    return {
        "name": connection.transport.connection_name,
        "peer_host": socket.peer_host,
        "peer_port": socket.peer_port,
    }


class ConnectionsByClient:
    """Connections by client: its output or what stands for it in messages; for a whole list."""

    __slots__ = ("_connections", "_site")

    def __init__(self, site: Site) -> None:
        self._site = site
        self._connections: dict[object, Connection] | None = None

    def of(self, client: object) -> Connection | None:
        """The connection of this client, publisher or output; None if it has gone."""
        found = self._connections
        if found is None:
            connections = cast("list[Connection]", list(self._site.context.connections))
            found = self._connections = {}
            for connection in connections:
                found[connection.client] = found[connection.client.publisher] = connection
                found[connection.output] = connection
        return found.get(client)


# ------------------------------------------------------------------------------ lists, by sorted


def connection_keys(rates: Rates) -> Keys[Connection]:
    """Columns of connections that a list is sorted by without describing them."""
    return {
        "name": _name,
        "user": user_name,
        "vhost": lambda each: each.client.vhost.name if each.client.is_open else "",
        "connected_at": lambda connection: connection.connected_ms,
        "channels": lambda connection: len(connection.channels.by_number),
        "blocked_since_ms": lambda each: blocked_since_ms(why_connection_waits(each)),
        "state": connection_state,
        "peer_host": lambda connection: connection.transport.socket_facts().peer_host,
        **rates.keys(
            "connection",
            lambda connection: (_name(connection),),
            tuple(ConnectionCounts().as_dict()),
            "{}_details.rate",
        ),
    }


def channel_keys(rates: Rates) -> Keys[Channel]:
    """As ``connection_keys``, of channels."""
    return {
        "name": _channel_name,
        "number": lambda channel: channel.number,
        "user": lambda channel: "" if channel.client.user is None else channel.client.user.name,
        "vhost": lambda channel: channel.vhost.name,
        "consumer_count": lambda channel: len(channel.consumers.by_tag),
        "messages_unacknowledged": lambda channel: len(channel.port.unacked),
        "state": channel_state,
        "prefetch_count": lambda channel: channel.prefetch.count,
        "messages_unconfirmed": _unconfirmed,
        **rates.keys("channel", lambda channel: (_channel_name(channel),), *RATED),
    }


def consumer_keys(site: Site, deliveries: Deliveries) -> Keys[ConsumerPlace]:
    """As ``connection_keys``, of consumers."""
    sampler = site.sampler

    def age_ms(place: ConsumerPlace) -> int:
        since_ms = None if sampler is None else oldest_ms(sampler, place[1], deliveries)
        return -1 if since_ms is None else site.context.clock.now_ms - since_ms

    return {
        "consumer_tag": lambda place: place[1].tag,
        "queue.name": lambda place: place[1].queue.name,
        "queue.vhost": lambda place: place[0].client.vhost.name,
        "channel_details.name": lambda place: place[1].port.channel_name,
        "channel_details.user": lambda place: user_name(place[0]),
        "activity_status": lambda place: _status_of(place[1]),
        "ack_required": lambda place: place[1].acknowledges,
        "prefetch_count": lambda place: place[1].prefetch_count,
        "messages_unacknowledged": lambda place: deliveries.of_consumer(place[1])[1],
        "is_slow": lambda place: bool(slow_reason(place[1])),
        "oldest_unacknowledged_age_s": age_ms,
    }


def _name(connection: Connection) -> str:
    return connection.transport.connection_name


def _channel_name(channel: Channel) -> str:
    return channel.port.channel_name


def user_name(connection: Connection) -> str:
    """The user of an open connection; empty while it logs in."""
    user = connection.client.user
    return "" if user is None else user.name


def _status_of(consumer: ChannelConsumer) -> str:
    queue = consumer.queue
    if not isinstance(queue, Queue) or queue.lane.consumers.live is None:
        return "up"
    return "single_active" if consumer.is_live else "waiting"


def _unconfirmed(channel: Channel) -> int:
    confirms = channel.publishing.confirms
    return 0 if confirms is None else confirms.unconfirmed_count


async def _connections(call: Call, found: Iterable[Connection]) -> Response:
    rates = Rates(call)
    return await listing(
        call,
        found,
        describe_connections(call.site, rates),
        # a line each: the name, and the one that the client gives
        name_of=lambda each: f"{_name(each)}\n{provided_name(each)}",
        keys=connection_keys(rates),
    )


async def _channels(call: Call, found: Iterable[Channel]) -> Response:
    rates = Rates(call)
    described = describe_channels(call.site, rates)
    keys = channel_keys(rates)
    return await listing(call, found, described, name_of=_channel_name, keys=keys)


async def _consumers(call: Call, places: Iterator[ConsumerPlace]) -> Response:
    deliveries = Deliveries()
    return await listing(
        call,
        places,
        lambda place: describe_consumer(call.site, *place, deliveries),
        ("queue.vhost", "queue.name", "consumer_tag"),
        name_of=lambda place: f"{place[1].queue.name}\n{provided_name(place[0])}",
        keys=consumer_keys(call.site, deliveries),
    )


def _all_channels(call: Call) -> Iterator[Channel]:
    for connection in open_connections_of(call.site, call.who):
        yield from channels_of(connection)


def _all_consumers(call: Call) -> Iterator[ConsumerPlace]:
    for connection in open_connections_of(call.site, call.who):
        if call.who.sees(connection.client.vhost.name):
            for channel in channels_of(connection):
                for consumer in list(channel.consumers.by_tag.values()):
                    yield connection, consumer


# --------------------------------------------------------------------------------- connections


@routes("GET /api/connections", lists=ConnectionInfo)
async def connections(call: Call) -> Response:
    """The connections that the user sees."""
    return await _connections(call, connections_of(call.site, call.who))


@routes("GET /api/vhosts/{vhost}/connections", lists=ConnectionInfo)
async def connections_of_vhost(call: Call) -> Response:
    """The connections in a virtual host that the user sees."""
    vhost, found = call.vhost, open_connections_of(call.site, call.who)
    return await _connections(call, (each for each in found if each.client.vhost is vhost))


@routes("GET /api/connections/username/{user}", lists=ConnectionInfo)
async def connections_of_user(call: Call) -> Response:
    """The connections of a user: its own, or with the tag monitoring those of any."""
    name = call.name("user")
    if not call.who.is_monitor and name != call.by:
        raise _not_authorised()
    found = connections_of(call.site, call.who)
    return await _connections(call, (each for each in found if user_name(each) == name))


@routes("DELETE /api/connections/username/{user}", status=204, parameters=[_REASON])
async def close_connections_of_user(call: Call) -> Response:
    """Close all connections of a user; the header X-Reason says why."""
    who, name = call.who, call.name("user")
    if not who.is_administrator and name != call.by:
        raise _not_authorised()
    async with call.pace.share() as share:
        for connection in connections_of(call.site, who):
            await share.pause()
            is_closed = who.is_administrator or is_own(who, connection)
            if is_closed and user_name(connection) == name:
                _close(call, connection)
    return no_content()


@routes("GET /api/connections/{connection}", gives=ConnectionInfo)
async def connection(call: Call) -> Response:
    """One connection."""
    found = await _connection(call)
    row = describe_connections(call.site, Rates(call))(found)
    return answer(picked_columns(call, row))


@routes("DELETE /api/connections/{connection}", status=204, parameters=[_REASON])
async def close_connection(call: Call) -> Response:
    """Close a connection; the header X-Reason says why, and is told to its client."""
    found = await _connection(call)
    if not call.who.is_administrator and not is_own(call.who, found):
        raise _not_authorised()
    _close(call, found)
    return no_content()


@routes("GET /api/connections/{connection}/channels", lists=ChannelInfo)
async def channels_of_connection(call: Call) -> Response:
    """The channels of a connection."""
    return await _channels(call, channels_of(await _connection(call)))


async def _connection(call: Call) -> Connection:
    """The connection in the path. Raises Refusal: 404 if the caller sees none."""
    async with call.pace.share() as share:
        return await find_connection(call.site, call.who, call.name("connection"), share)


def _close(call: Call, connection: Connection) -> None:
    """Close a connection for a caller that may; its client is told the reason."""
    # the text came as octets of UTF-8, which the server has read as Latin-1
    given = call.request.headers.get("X-Reason", "").encode("latin-1", "replace")
    reason = given.decode("utf-8", "replace") or DEFAULT_REASON
    call.site.context.report(
        events.CONNECTION_CLOSED_OVER_HTTP,
        peer=connection.transport.peer,
        user=call.by,
        reason=reason,
    )
    user = connection.client.user
    of_user = None if user is None else user.name
    call.site.note("connection.closed", name=_name(connection), of_user=of_user, reason=reason)
    connection.force_close(reason)


def _not_authorised() -> Refusal:
    return Refusal(401, "not_authorised", "User not authorised to access object")


# ------------------------------------------------------------------------ channels and consumers


@channel_routes("GET /api/channels", lists=ChannelInfo)
async def channels(call: Call) -> Response:
    """The channels of all connections that the user sees."""
    return await _channels(call, _all_channels(call))


@channel_routes("GET /api/vhosts/{vhost}/channels", lists=ChannelInfo)
async def channels_of_vhost(call: Call) -> Response:
    """The channels in a virtual host that the user sees."""
    vhost = call.vhost
    return await _channels(call, (each for each in _all_channels(call) if each.vhost is vhost))


@channel_routes("GET /api/channels/{channel}", gives=ChannelInfo)
async def channel(call: Call) -> Response:
    """One channel, with its consumers."""
    async with call.pace.share() as share:
        connection, found = await find_channel(call.site, call.who, call.name("channel"), share)
    row = describe_channels(call.site, Rates(call))(found)
    deliveries = Deliveries()
    details = row["consumer_details"] = []
    row["deliveries"] = []
    row["publishes"] = []
    async with call.pace.share() as share:
        for each in list(found.consumers.by_tag.values()):
            details.append(describe_consumer(call.site, connection, each, deliveries))
            await share.pause()
        return await answer_with_list(call, row, "consumer_details", share)


@consumer_routes("GET /api/consumers", lists=ConsumerInfo)
async def consumers(call: Call) -> Response:
    """All consumers that the user sees; ``name`` filters by the name of the queue."""
    return await _consumers(call, _all_consumers(call))


@consumer_routes("GET /api/consumers/{vhost}", lists=ConsumerInfo)
async def consumers_of_vhost(call: Call) -> Response:
    """The consumers in a virtual host that the user sees."""
    vhost, found = call.vhost, _all_consumers(call)
    return await _consumers(call, (each for each in found if each[0].client.vhost is vhost))


@consumer_routes("DELETE /api/consumers/{vhost}/{connection}/{channel}/{consumer}", status=204)
async def cancel_consumer(call: Call) -> Response:
    """Cancel a consumer, by connection, number of the channel, and tag; its client is told."""
    vhost, site = call.vhost, call.site
    connection = await _connection(call)
    await call.check()  # a right may be gone since
    client = connection.client
    if not call.who.is_administrator and not is_own(call.who, connection):
        raise _not_authorised()
    if not client.is_open or client.vhost is not vhost:
        raise not_found()
    if not client.takes_consumer_cancel:
        raise bad_request(
            "its client does not understand basic.cancel; close the connection instead"
        )
    site.context.clock.refresh()
    tag = call.name("consumer")
    with call.acting():
        _cancel(connection, call.name("channel"), tag)
    site.note("consumer.cancelled", vhost=vhost.name, name=tag, connection=call.name("connection"))
    return no_content()


def _cancel(connection: Connection, number: str, tag: str) -> None:
    """Cancel a consumer. Raises Refusal if the connection has none like that."""
    for channel in channels_of(connection):
        consumer = channel.consumers.by_tag.get(tag)
        if str(channel.number) == number and consumer is not None:
            consumer.queue.deliver_due()
            consumer.queue.remove_consumer(consumer)
            channel.consumers.on_cancelled(consumer)
            return
    raise not_found()
