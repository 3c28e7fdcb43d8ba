"""``/api/connections``, ``/api/vhosts/{vhost}/connections``: who is connected, and closing them.

Users see their own connections; with the tag monitoring all. A connection is closed by its user or
an administrator: its client gets connection.close 320 with the reason from the header ``X-Reason``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline import events
from hareline.amqp.connection import Connection
from hareline.amqp.ports import tls_fields
from hareline.management.api.access import Caller, caller
from hareline.management.api.answers import PROBLEMS, answer, no_content
from hareline.management.api.blocking import BlockedBy, blocked_since_ms, blocking_json
from hareline.management.api.channels import ChannelInfo, channel_list
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.live import (
    channels_of,
    connections_of,
    find_connection,
    is_own,
    open_connections_of,
)
from hareline.management.api.openapi import list_route, one_route
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.api.sorting import connection_keys
from hareline.management.pace import pace_of
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal
from hareline.statistics.blocking import why_connection_waits
from hareline.statistics.readings import connection_facts, provided_name

DEFAULT_REASON: Final = "Closed via management plugin"


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


def describe(site: Site, rates: Rates) -> Callable[[Connection], dict[str, Any]]:
    """What makes the JSON object of a connection."""
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


def _name(connection: Connection) -> str:
    return connection.transport.connection_name


def _names(connection: Connection) -> str:
    """Text for a filter, a line each: the name, and the one that the client gives."""
    return f"{_name(connection)}\n{provided_name(connection)}"


def _user_name(connection: Connection) -> str:
    user = connection.client.user
    return "" if user is None else user.name


def _vhost_name(connection: Connection) -> str:
    return connection.client.vhost.name if connection.client.is_open else ""


_KEYS: Final[Mapping[str, Callable[[Connection], Any]]] = {
    "name": _name,
    "user": _user_name,
    "vhost": _vhost_name,
    "connected_at": lambda connection: connection.connected_ms,
    "channels": lambda connection: len(connection.channels.by_number),
    "blocked_since_ms": lambda each: blocked_since_ms(why_connection_waits(each)),
}


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["connections"])

    async def connection_list(request: Request, found: Iterator[Connection]) -> Response:
        rates = Rates(site, request)
        return await listing(
            request,
            found,
            describe(site, rates),
            ("vhost", "name"),
            name_of=_names,
            keys={**_KEYS, **connection_keys(rates)},
        )

    @router.get("/api/connections", **list_route(ConnectionInfo))
    async def connections(request: Request) -> Response:
        """The connections that the user sees."""
        who = await caller(site, request)
        return await connection_list(request, connections_of(site, who))

    @router.get("/api/vhosts/{vhost}/connections", **list_route(ConnectionInfo))
    async def connections_of_vhost(request: Request) -> Response:
        """The connections in a virtual host that the user sees."""
        who = await caller(site, request)
        vhost = who.vhost(name_in_path(request.path_params["vhost"]))
        found = open_connections_of(site, who)
        return await connection_list(
            request, (each for each in found if each.client.vhost is vhost)
        )

    @router.get("/api/connections/username/{user}", **list_route(ConnectionInfo))
    async def connections_of_user(request: Request) -> Response:
        """The connections of a user: its own, or with the tag monitoring those of any."""
        who = await caller(site, request)
        name = name_in_path(request.path_params["user"])
        if not who.is_monitor and name != who.user.name:
            raise _not_authorised()
        found = connections_of(site, who)
        return await connection_list(request, (each for each in found if _user_name(each) == name))

    @router.delete("/api/connections/username/{user}", status_code=204, **_closing())
    async def close_connections_of_user(request: Request) -> Response:
        """Close all connections of a user; the header X-Reason says why."""
        who = await caller(site, request)
        name = name_in_path(request.path_params["user"])
        if not who.is_administrator and name != who.user.name:
            raise _not_authorised()
        async with pace_of(request).share() as share:
            for connection in connections_of(site, who):
                await share.pause()
                is_closed = who.is_administrator or is_own(who, connection)
                if is_closed and _user_name(connection) == name:
                    close(site, who, connection, _reason(request))
        return no_content()

    @router.get("/api/connections/{connection}", **one_route(ConnectionInfo))
    async def connection(request: Request) -> Response:
        """One connection."""
        who = await caller(site, request)
        found = await _find(site, who, request)
        row = describe(site, Rates(site, request))(found)
        return answer(picked_columns(request, row))

    @router.delete("/api/connections/{connection}", status_code=204, **_closing())
    async def close_connection(request: Request) -> Response:
        """Close a connection; the header X-Reason says why, and is told to its client."""
        who = await caller(site, request)
        found = await _find(site, who, request)
        if not who.is_administrator and not is_own(who, found):
            raise _not_authorised()
        close(site, who, found, _reason(request))
        return no_content()

    @router.get("/api/connections/{connection}/channels", **list_route(ChannelInfo))
    async def channels_of_connection(request: Request) -> Response:
        """The channels of a connection."""
        who = await caller(site, request)
        found = await _find(site, who, request)
        return await channel_list(site, request, channels_of(found))

    return router


def close(site: Site, who: Caller, connection: Connection, reason: str) -> None:
    """Close a connection for a caller that may; its client is told the reason."""
    site.context.report(
        events.CONNECTION_CLOSED_OVER_HTTP,
        peer=connection.transport.peer,
        user=who.user.name,
        reason=reason,
    )
    user = connection.client.user
    site.note(
        "connection.closed",
        name=connection.transport.connection_name,
        of_user=None if user is None else user.name,
        reason=reason,
    )
    connection.force_close(reason)


def _closing() -> dict[str, Any]:
    reason = {
        "name": "X-Reason",
        "in": "header",
        "required": False,
        "description": "Why; the client is told.",
        "schema": {"type": "string"},
    }
    return {
        "response_model": None,
        "responses": PROBLEMS,
        "openapi_extra": {"parameters": [reason]},
    }


async def _find(site: Site, who: Caller, request: Request) -> Connection:
    name = name_in_path(request.path_params["connection"])
    async with pace_of(request).share() as share:
        return await find_connection(site, who, name, share)


def _reason(request: Request) -> str:
    """The header's text; it came as octets of UTF-8, which the server has read as Latin-1."""
    given = request.headers.get("X-Reason", "").encode("latin-1", "replace")
    return given.decode("utf-8", "replace") or DEFAULT_REASON


def _not_authorised() -> Refusal:
    return Refusal(401, "not_authorised", "User not authorised to access object")
