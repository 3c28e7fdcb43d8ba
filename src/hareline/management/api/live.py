"""The live connections of the broker, as far as a caller may see them, and how they are found.

Called by the routes of connections, channels, consumers and queues. A connection is shown once it
has a user; its name is RabbitMQ's, ``127.0.0.1:41234 -> 127.0.0.1:5672``, and a channel's is that
with its number in brackets.

Invariant: a caller without the tag monitoring finds only its own connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.management.api.access import Caller
from hareline.management.api.answers import not_found
from hareline.management.api.site import Site
from hareline.management.pace import Share


def connections_of(site: Site, who: Caller) -> Iterator[Connection]:
    """The connections that the caller sees, in the order in which they came."""
    for live in list(site.context.connections):
        connection = cast("Connection", live)
        if connection.client.user is not None and (who.is_monitor or is_own(who, connection)):
            yield connection


def is_own(who: Caller, connection: Connection) -> bool:
    """Whether the caller itself has logged in by it; not a namesake of another backend."""
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
    """What objects say of the connection that they belong to."""
    socket = connection.transport.socket_facts()
    return {
        "name": connection.transport.connection_name,
        "peer_host": socket.peer_host,
        "peer_port": socket.peer_port,
    }


class ConnectionsByClient:
    """From a client, its output or what stands for it in messages to its connection; for a whole
    list."""

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
