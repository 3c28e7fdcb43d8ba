"""``/api/consumers``: who receives from which queue, what keeps it from getting more; its end.

Consumers are shown in virtual hosts that the user sees; without the tag monitoring only those of
its own connections. One is cancelled by its user or an administrator: its client gets basic.cancel,
as when the queue is deleted, and may consume again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.administration.terms import table_json
from hareline.amqp.connection import Connection
from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.internal_events import acting
from hareline.management.api.access import Caller, caller, doer_over_http
from hareline.management.api.answers import PROBLEMS, no_content, not_found
from hareline.management.api.listing import listing
from hareline.management.api.live import (
    channels_of,
    find_connection,
    is_own,
    open_connections_of,
)
from hareline.management.api.openapi import list_route
from hareline.management.api.site import Site
from hareline.management.api.sorting import consumer_keys
from hareline.management.pace import pace_of
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal
from hareline.statistics.readings import consumer_facts, provided_name
from hareline.statistics.unacked import Deliveries, delivered_ms

Place = tuple[Connection, ChannelConsumer]


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
        "consumer_timeout": 0,
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
    """Who has a delivery. ``consumer`` None: it was got, or its consumer is gone."""
    user = None if connection is None else connection.client.user
    return {
        "consumer_tag": None if consumer is None else consumer.tag,
        "channel": port.channel_name,
        "connection_name": port.output.connection_name,
        "user": None if user is None else user.name,
    }


def age_s(site: Site, since_ms: int) -> float:
    """How long ago this was."""
    return max(0, site.context.clock.now_ms - since_ms) / 1000


_KEYS: Final[Mapping[str, Callable[[Place], Any]]] = {
    "consumer_tag": lambda place: place[1].tag,
    "queue.name": lambda place: place[1].queue.name,
    "queue.vhost": lambda place: place[0].client.vhost.name,
    "channel_details.name": lambda place: place[1].port.channel_name,
}


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["consumers"])

    async def consumer_list(request: Request, places: Iterator[Place]) -> Response:
        deliveries = Deliveries()
        return await listing(
            request,
            places,
            lambda place: describe_consumer(site, *place, deliveries),
            ("queue.vhost", "queue.name", "consumer_tag"),
            name_of=lambda place: f"{place[1].queue.name}\n{provided_name(place[0])}",
            keys={**_KEYS, **consumer_keys(site, deliveries)},
        )

    @router.get("/api/consumers", **list_route(ConsumerInfo))
    async def consumers(request: Request) -> Response:
        """All consumers that the user sees; ``name`` filters by the name of the queue."""
        return await consumer_list(request, _all(site, await caller(site, request)))

    @router.get("/api/consumers/{vhost}", **list_route(ConsumerInfo))
    async def consumers_of_vhost(request: Request) -> Response:
        """The consumers in a virtual host that the user sees."""
        who = await caller(site, request)
        vhost = who.vhost(name_in_path(request.path_params["vhost"]))
        places = (each for each in _all(site, who) if each[0].client.vhost is vhost)
        return await consumer_list(request, places)

    @router.delete(
        "/api/consumers/{vhost}/{connection}/{channel}/{consumer}",
        status_code=204,
        response_model=None,
        responses=PROBLEMS,
    )
    async def cancel_consumer(request: Request) -> Response:
        """Cancel a consumer, by connection, number of the channel, and tag; its client is told."""
        who = await caller(site, request)
        vhost = who.vhost(name_in_path(request.path_params["vhost"]))
        async with pace_of(request).share() as share:
            name = name_in_path(request.path_params["connection"])
            connection = await find_connection(site, who, name, share)
        who = await caller(site, request)  # a right may be gone since
        client = connection.client
        if not who.is_administrator and not is_own(who, connection):
            raise Refusal(401, "not_authorised", "User not authorised to access object")
        if not client.is_open or client.vhost is not vhost:
            raise not_found()
        if not client.takes_consumer_cancel:
            reason = "its client does not understand basic.cancel; close the connection instead"
            raise Refusal(400, "bad_request", reason)
        site.context.clock.refresh()
        with acting(site.context, doer_over_http(request, who.user)):
            _cancel(connection, request)
        site.note(
            "consumer.cancelled",
            vhost=vhost.name,
            name=name_in_path(request.path_params["consumer"]),
            connection=name,
        )
        return no_content()

    return router


def _cancel(connection: Connection, request: Request) -> None:
    """Cancel the consumer in the path. Raises Refusal if the connection has none like that."""
    number = name_in_path(request.path_params["channel"])
    tag = name_in_path(request.path_params["consumer"])
    for channel in channels_of(connection):
        consumer = channel.consumers.by_tag.get(tag)
        if str(channel.number) == number and consumer is not None:
            consumer.queue.deliver_due()
            consumer.queue.remove_consumer(consumer)
            channel.consumers.on_cancelled(consumer)
            return
    raise not_found()


def _all(site: Site, who: Caller) -> Iterator[Place]:
    for connection in open_connections_of(site, who):
        if who.sees(connection.client.vhost.name):
            for channel in channels_of(connection):
                for consumer in list(channel.consumers.by_tag.values()):
                    yield connection, consumer
