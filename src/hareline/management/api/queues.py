"""``/api/queues``: what is in each queue, who takes it, and how fast; for reading.

A user sees the queues of the virtual hosts that it sees. A list describes only the queues of the
page that is asked for, if it is sorted by one of ``_KEYS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from hareline.administration.terms import table_json
from hareline.amqp.consuming import ChannelConsumer
from hareline.broker.stream_queue import stream_of
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import Caller, caller
from hareline.management.api.administering import administration_of
from hareline.management.api.answers import instant, not_found
from hareline.management.api.consumers import age_s, describe_consumer, holder_json
from hareline.management.api.listing import answer_with_list, listing
from hareline.management.api.live import ConnectionsByClient, connection_details
from hareline.management.api.openapi import list_route, one_route
from hareline.management.api.policies import shown
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.api.sorting import queue_keys
from hareline.management.pace import Share, pace_of
from hareline.management.paths import name_in_path
from hareline.queues.paused import is_paused
from hareline.queues.queue import Queue
from hareline.statistics.facts import QueueFacts
from hareline.statistics.readings import channels_of, queue_facts
from hareline.statistics.sources import consumer_capacity
from hareline.statistics.unacked import Deliveries, Oldest, oldest_of_queue, oldest_on_ports

Place = tuple[VirtualHost, Queue]


class QueueInfo(BaseModel):
    """A queue. ``messages`` is ready and unacknowledged; sizes are octets of bodies."""

    model_config = ConfigDict(extra="allow")

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: dict[str, Any]
    node: str
    state: str
    consumers: int
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    message_stats: dict[str, Any] = {}


class Queues:
    """Descriptions of queues for one request."""

    def __init__(self, site: Site, request: Request) -> None:
        self._site = site
        self._rates = Rates(site, request)
        self._clients = ConnectionsByClient(site)
        self._node = site.node.name
        self._deliveries = Deliveries()

    def describe(self, place: Place) -> dict[str, Any]:
        """The JSON object of a queue."""
        vhost, queue = place
        row = self._declared(vhost, queue)
        if not self._rates.has_totals:
            return row
        capacity = consumer_capacity(self._site.sampler, vhost.name, queue)
        facts = queue_facts(queue, capacity, self._deliveries)
        key = (vhost.name, queue.name)
        depths = {
            "messages": facts.messages,
            "messages_ready": facts.ready,
            "messages_unacknowledged": facts.unacked,
        }
        if not self._rates.is_wanted:
            return row | depths
        row |= self._rates.with_details("queue", key, depths, "lengths")
        row |= _amounts(facts) | _reading(vhost, queue)
        sampler = self._site.sampler
        oldest = None if sampler is None else oldest_of_queue(sampler, queue, self._deliveries)
        row |= self._oldest_json(oldest)
        changed_ms = self._rates.changed_ms("queue", key, facts.declared_ms)
        if changed_ms is not None:
            row["idle_since"] = instant(changed_ms)
        return row | self._rates.object_stats("queue", key, facts.counts.as_dict())

    def _declared(self, vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
        row: dict[str, Any] = {
            "name": queue.name,
            "vhost": vhost.name,
            "type": type_of(queue),
            "durable": queue.is_durable,
            "auto_delete": queue.is_auto_delete,
            "exclusive": queue.owner is not None,
            "arguments": table_json(queue.arguments),
            "node": self._node,
            "state": "paused" if is_paused(queue) else "running",
            **shown(administration_of(self._site).policies.of_queue(vhost.name, queue)),
            "exclusive_consumer_tag": _exclusive_tag(queue),
            "single_active_consumer_tag": None,
        }
        arguments = vhost.queue_arguments.get(queue.name)  # None: deleted while the list is made
        if arguments is not None and arguments.single_active_consumer:
            live = [each.tag for each in queue.consumers if each.is_live]
            row["single_active_consumer_tag"] = live[0] if live else None
        if queue.owner is not None:
            connection = self._clients.of(queue.owner)
            if connection is not None:
                row["owner_pid_details"] = connection_details(connection)
        return row

    async def describe_one(self, place: Place, share: Share) -> dict[str, Any]:
        """The JSON object of a queue, with its consumers."""
        vhost, queue = place
        row = self.describe(place)
        details = row["consumer_details"] = []
        for consumer in queue.consumers:
            await share.pause()
            connection = self._clients.of(consumer.publisher)
            if connection is not None and isinstance(consumer, ChannelConsumer):
                details.append(
                    describe_consumer(self._site, connection, consumer, self._deliveries)
                )
        if queue.unacked_count and self._rates.is_wanted:
            row |= await self._oldest_of_all(vhost, queue, share)
        # which exchange brought what, and which channel took it, is not counted (rates_mode basic)
        row["deliveries"] = []
        row["incoming"] = []
        stream = stream_of(queue)
        if stream is not None:
            row["incarnation"] = stream.incarnation
            row["first_offset"] = stream.first
            row["next_offset"] = stream.next
        return row

    async def _oldest_of_all(
        self, vhost: VirtualHost, queue: Queue, share: Share
    ) -> dict[str, Any]:
        """The oldest delivery that is unacknowledged, also of what was got by basic.get."""
        sampler = self._site.sampler
        found: Oldest | None = None
        if sampler is not None:
            channels = channels_of(self._site.context)
            ports = (channel.port for channel in channels if channel.vhost is vhost)
            for oldest in oldest_on_ports(sampler, queue, ports):
                found = oldest
                await share.pause()
        return self._oldest_json(found)

    def _oldest_json(self, oldest: Oldest | None) -> dict[str, Any]:
        if oldest is None:
            return {"oldest_unacknowledged_age_s": None, "oldest_unacknowledged_by": None}
        connection = self._clients.of(oldest.port.output)
        return {
            "oldest_unacknowledged_age_s": age_s(self._site, oldest.since_ms),
            "oldest_unacknowledged_by": holder_json(oldest.port, oldest.consumer, connection),
        }

    def keys(self) -> Mapping[str, Callable[[Place], Any]]:
        """What a list can be sorted by without describing its queues."""
        return {**_KEYS, **queue_keys(self._site, self._rates, self._deliveries)}


_KEYS: Mapping[str, Callable[[Place], Any]] = {
    "name": lambda place: place[1].name,
    "vhost": lambda place: place[0].name,
    "durable": lambda place: place[1].is_durable,
    "auto_delete": lambda place: place[1].is_auto_delete,
    "exclusive": lambda place: place[1].owner is not None,
    "type": lambda place: type_of(place[1]),
    "consumers": lambda place: place[1].consumer_count,
    "messages": lambda place: place[1].ready_count + place[1].unacked_count,
    "messages_ready": lambda place: place[1].ready_count,
    "messages_unacknowledged": lambda place: place[1].unacked_count,
    "message_bytes_ready": lambda place: place[1].ready_bytes,
}


def _amounts(facts: QueueFacts) -> dict[str, Any]:
    return {
        "consumers": facts.consumers,
        "consumer_capacity": facts.capacity,
        "consumer_utilisation": facts.capacity,
        "memory": facts.memory,
        "messages_persistent": facts.persistent,
        "messages_ram": facts.in_memory,
        "messages_ready_ram": facts.ready - facts.paged_out,
        "messages_unacknowledged_ram": facts.unacked,
        "messages_paged_out": facts.paged_out,
        "messages_held": facts.held,
        "message_bytes": facts.ready_bytes + facts.unacked_bytes,
        "message_bytes_ready": facts.ready_bytes,
        "message_bytes_unacknowledged": facts.unacked_bytes,
        "message_bytes_persistent": facts.persistent_bytes,
        "message_bytes_ram": facts.in_memory_bytes,
        "message_bytes_paged_out": facts.paged_out_bytes,
        "head_message_timestamp": facts.head_timestamp,
    }


def _reading(vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
    """Of a stream: how many readers have told how far they are, and the lag of the last of them."""
    stream = stream_of(queue)
    if stream is None:
        return {}
    end = stream.next
    lags = [end - each.offset for each in vhost.readers.positions(queue).values()]
    return {"readers": len(lags), "reader_lag_max": max(lags, default=0)}


def type_of(queue: Queue) -> str:
    """classic, quorum or stream."""
    return str(queue.arguments.get("x-queue-type", "classic"))


def _exclusive_tag(queue: Queue) -> str | None:
    if not queue.exclusive_count:
        return None
    return next((each.tag for each in queue.consumers if each.is_exclusive), None)


def find_queue(who: Caller, request: Request) -> Place:
    """The queue in the path. Raises Refusal: 404 if missing, 401 if it is not seen."""
    vhost = who.vhost(name_in_path(request.path_params["vhost"]))
    queue = vhost.queues.get(name_in_path(request.path_params["queue"]))
    if queue is None:
        raise not_found()
    return vhost, queue


def _places(vhosts: list[VirtualHost]) -> Iterator[Place]:
    for vhost in vhosts:
        for queue in list(vhost.queues.values()):
            yield vhost, queue


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["queues"])

    async def queue_list(request: Request, vhosts: list[VirtualHost]) -> Response:
        queues = Queues(site, request)
        kind = request.query_params.get("type")
        return await listing(
            request,
            _places(vhosts),
            queues.describe,
            ("vhost", "name"),
            name_of=lambda place: place[1].name,
            keys=queues.keys(),
            wanted=None if kind is None else lambda place: type_of(place[1]) == kind,
        )

    @router.get("/api/queues", **_queues_route())
    async def queues(request: Request) -> Response:
        """The queues of all virtual hosts that the user sees."""
        return await queue_list(request, (await caller(site, request)).vhosts())

    @router.get("/api/queues/detailed", **_queues_route())
    async def queues_detailed(request: Request) -> Response:
        """As ``/api/queues``, which leaves nothing out here."""
        return await queue_list(request, (await caller(site, request)).vhosts())

    @router.get("/api/queues/{vhost}", **_queues_route())
    async def queues_of_vhost(request: Request) -> Response:
        """The queues of a virtual host."""
        who = await caller(site, request)
        return await queue_list(request, [who.vhost(name_in_path(request.path_params["vhost"]))])

    @router.get("/api/queues/{vhost}/{queue}", **one_route(QueueInfo))
    async def queue(request: Request) -> Response:
        """One queue, with its consumers."""
        who = await caller(site, request)
        place = find_queue(who, request)
        async with pace_of(request).share() as share:
            row = await Queues(site, request).describe_one(place, share)
            return await answer_with_list(request, row, "consumer_details", share)

    return router


def _queues_route() -> dict[str, Any]:
    route = list_route(QueueInfo)
    kind = {
        "name": "type",
        "in": "query",
        "required": False,
        "description": "Only queues of this type, such as `stream`.",
        "schema": {"type": "string"},
    }
    route["openapi_extra"]["parameters"].append(kind)
    return route
