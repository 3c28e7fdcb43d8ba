"""``/api/channels`` and ``/api/vhosts/{vhost}/channels``: what each channel is doing.

A channel is shown to whom its connection is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.amqp.channel import Channel
from hareline.management.api.access import Caller, caller
from hareline.management.api.answers import instant
from hareline.management.api.blocking import BlockedBy, blocking_json
from hareline.management.api.consumers import describe_consumer
from hareline.management.api.listing import answer_with_list, listing
from hareline.management.api.live import channels_of, find_channel, open_connections_of
from hareline.management.api.openapi import list_route, one_route
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.api.sorting import channel_keys
from hareline.management.pace import pace_of
from hareline.management.paths import name_in_path
from hareline.statistics.blocking import why_channel_waits
from hareline.statistics.readings import channel_facts
from hareline.statistics.unacked import Deliveries


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


def describe(site: Site, rates: Rates) -> Callable[[Channel], dict[str, Any]]:
    """What makes the JSON object of a channel."""
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


def _name(channel: Channel) -> str:
    return channel.port.channel_name


_KEYS: Final[Mapping[str, Callable[[Channel], Any]]] = {
    "name": _name,
    "number": lambda channel: channel.number,
    "user": lambda channel: "" if channel.client.user is None else channel.client.user.name,
    "vhost": lambda channel: channel.vhost.name,
    "consumer_count": lambda channel: len(channel.consumers.by_tag),
    "messages_unacknowledged": lambda channel: len(channel.port.unacked),
}


async def channel_list(site: Site, request: Request, found: Iterable[Channel]) -> Response:
    """The answer with these channels."""
    rates = Rates(site, request)
    described, keys = describe(site, rates), {**_KEYS, **channel_keys(rates)}
    return await listing(request, found, described, ("vhost", "name"), name_of=_name, keys=keys)


def _all(site: Site, who: Caller) -> Iterator[Channel]:
    for connection in open_connections_of(site, who):
        yield from channels_of(connection)


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["channels"])

    @router.get("/api/channels", **list_route(ChannelInfo))
    async def channels(request: Request) -> Response:
        """The channels of all connections that the user sees."""
        return await channel_list(site, request, _all(site, await caller(site, request)))

    @router.get("/api/vhosts/{vhost}/channels", **list_route(ChannelInfo))
    async def channels_of_vhost(request: Request) -> Response:
        """The channels in a virtual host that the user sees."""
        who = await caller(site, request)
        vhost = who.vhost(name_in_path(request.path_params["vhost"]))
        found = (channel for channel in _all(site, who) if channel.vhost is vhost)
        return await channel_list(site, request, found)

    @router.get("/api/channels/{channel}", **one_route(ChannelInfo))
    async def channel(request: Request) -> Response:
        """One channel, with its consumers."""
        who = await caller(site, request)
        async with pace_of(request).share() as share:
            name = name_in_path(request.path_params["channel"])
            connection, found = await find_channel(site, who, name, share)
        row = describe(site, Rates(site, request))(found)
        deliveries = Deliveries()
        details = row["consumer_details"] = []
        row["deliveries"] = []
        row["publishes"] = []
        async with pace_of(request).share() as share:
            for each in list(found.consumers.by_tag.values()):
                details.append(describe_consumer(site, connection, each, deliveries))
                await share.pause()
            return await answer_with_list(request, row, "consumer_details", share)

    return router
