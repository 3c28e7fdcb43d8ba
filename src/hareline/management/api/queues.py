"""``/api/queues``: queues, declared and deleted, what is in each, who takes it, and how fast.

A list describes only the queues of the page that is asked for, if it is sorted by one of the keys.
Each change does what a client does with the method of the same meaning, with the rights of the user
who asks: 201 for what is new, 204 for what is there and alike, 400 for what contradicts.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hareline.administration.checks import table_json
from hareline.administration.policies import type_of
from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.rights import require_queue_rights
from hareline.amqp.topology_methods import clean_name
from hareline.broker.stream_queue import stream_of
from hareline.broker.vhost import VirtualHost
from hareline.management.answers import created, instant, no_content, not_found
from hareline.management.api.call import Call, Routes
from hareline.management.api.connections import (
    ConnectionsByClient,
    age_s,
    connection_details,
    describe_consumer,
    holder_json,
)
from hareline.management.api.listing import answer_with_list, listing
from hareline.management.api.policies import shown
from hareline.management.api.rates import RATED, Keys, Rates
from hareline.management.bodies import Arguments, ArgumentsField
from hareline.management.pace import Share
from hareline.management.routes import parameter
from hareline.queues.queue import Queue
from hareline.statistics.facts import QueueFacts
from hareline.statistics.readings import channels_of, queue_facts
from hareline.statistics.sources import consumer_capacity
from hareline.statistics.unacked import Deliveries, Oldest, oldest_of_queue, oldest_on_ports

routes = Routes("queues")
topology_routes = Routes("topology", enters=True)

Place = tuple[VirtualHost, Queue]

_DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
_TYPE: Final = parameter("type", "string", "Only queues of this type, such as `stream`.")
_MADE: Final[dict[int, dict[str, Any]]] = {
    201: {"description": "Made"},
    204: {"description": "It was there, and is alike"},
}


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


class QueueBody(BaseModel):
    """A queue to declare; every field may be left out. An exclusive one needs a connection."""

    durable: bool = False
    auto_delete: bool = False
    exclusive: Literal[False] = False
    arguments: Arguments = ArgumentsField


class Queues:
    """Descriptions of queues for one request."""

    def __init__(self, call: Call) -> None:
        site = call.site
        self._site = site
        self._rates = Rates(call)
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
        row |= _amounts(facts) | _reading(vhost, queue) | _deduplication(queue)
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
            "type": type_of(queue.arguments),
            "durable": queue.is_durable,
            "auto_delete": queue.is_auto_delete,
            "exclusive": queue.owner is not None,
            "arguments": table_json(queue.arguments),
            "node": self._node,
            "state": "paused" if queue.is_paused else "running",
            **shown(self._site.administration.policies.of_queue(vhost.name, queue)),
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

    def keys(self) -> Keys[Place]:
        """Columns that a list is sorted by without describing its queues."""
        sampler, deliveries, clock = self._site.sampler, self._deliveries, self._site.context.clock

        def key_of(place: Place) -> tuple[str, ...]:
            return place[0].name, place[1].name

        def capacity(place: Place) -> float:
            return consumer_capacity(sampler, place[0].name, place[1]) or 0.0

        def age_ms(place: Place) -> int:
            oldest = None if sampler is None else oldest_of_queue(sampler, place[1], deliveries)
            return -1 if oldest is None else clock.now_ms - oldest.since_ms

        return {
            "name": lambda place: place[1].name,
            "vhost": lambda place: place[0].name,
            "durable": lambda place: place[1].is_durable,
            "auto_delete": lambda place: place[1].is_auto_delete,
            "exclusive": lambda place: place[1].owner is not None,
            "type": lambda place: type_of(place[1].arguments),
            "state": lambda place: "paused" if place[1].is_paused else "running",
            "consumers": lambda place: place[1].consumer_count,
            "consumer_capacity": capacity,
            "consumer_utilisation": capacity,
            "oldest_unacknowledged_age_s": age_ms,
            "messages": lambda place: place[1].ready_count + place[1].unacked_count,
            "messages_ready": lambda place: place[1].ready_count,
            "messages_unacknowledged": lambda place: place[1].unacked_count,
            "message_bytes_ready": lambda place: place[1].ready_bytes,
            "message_bytes": lambda place: (
                place[1].ready_bytes + deliveries.unacked_bytes(place[1])
            ),
            **self._rates.keys("queue", key_of, _DEPTHS, "{}_details.rate"),
            **self._rates.keys("queue", key_of, *RATED),
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


def _deduplication(queue: Queue) -> dict[str, Any]:
    """Of a queue that looks at message ids: how many it knows, and its duplicates so far."""
    ids = queue.deduplication
    if ids is None:
        return {}
    return {"known_ids": ids.id_count, "duplicates": ids.duplicate_count}


def _exclusive_tag(queue: Queue) -> str | None:
    if not queue.exclusive_count:
        return None
    return next((each.tag for each in queue.consumers if each.is_exclusive), None)


def find_queue(call: Call) -> Place:
    """The queue in the path. Raises Refusal: 404 if missing, 401 if it is not seen."""
    vhost = call.vhost
    queue = vhost.queues.get(call.name("queue"))
    if queue is None:
        raise not_found()
    return vhost, queue


async def _queues(call: Call, vhosts: list[VirtualHost]) -> Response:
    queues, kind = Queues(call), call.query.get("type")
    return await listing(
        call,
        ((vhost, each) for vhost in vhosts for each in list(vhost.queues.values())),
        queues.describe,
        name_of=lambda place: place[1].name,
        keys=queues.keys(),
        wanted=None if kind is None else lambda place: type_of(place[1].arguments) == kind,
    )


@routes("GET /api/queues", lists=QueueInfo, parameters=[_TYPE])
async def queues(call: Call) -> Response:
    """The queues of all virtual hosts that the user sees."""
    return await _queues(call, call.who.vhosts())


@routes("GET /api/queues/detailed", lists=QueueInfo, parameters=[_TYPE])
async def queues_detailed(call: Call) -> Response:
    """As ``/api/queues``, which leaves nothing out here."""
    return await _queues(call, call.who.vhosts())


@routes("GET /api/queues/{vhost}", lists=QueueInfo, parameters=[_TYPE])
async def queues_of_vhost(call: Call) -> Response:
    """The queues of a virtual host."""
    return await _queues(call, [call.vhost])


@routes("GET /api/queues/{vhost}/{queue}", gives=QueueInfo)
async def queue(call: Call) -> Response:
    """One queue, with its consumers."""
    place = find_queue(call)
    async with call.pace.share() as share:
        row = await Queues(call).describe_one(place, share)
        return await answer_with_list(call, row, "consumer_details", share)


@topology_routes("PUT /api/queues/{vhost}/{queue}", status=201, body=QueueBody, answers=_MADE)
async def declare_queue(call: Call) -> Response:
    """Declare a queue."""
    name = clean_name(call.checked_name())
    asked = call.body(QueueBody)
    call.access.require("configure", "queue", name)
    vhost = call.vhost
    is_new = name not in vhost.queues
    with call.acting():
        vhost.declare_queue(
            name,
            is_durable=asked.durable,
            is_auto_delete=asked.auto_delete,
            owner=None,
            arguments=asked.arguments,
            check_rights=partial(require_queue_rights, call.access, vhost, name),
        )
    await call.settle_definitions()
    return created() if is_new else no_content()


@topology_routes(
    "DELETE /api/queues/{vhost}/{queue}",
    status=204,
    parameters=[parameter("if-unused", "boolean"), parameter("if-empty", "boolean")],
    has_problems=False,
)
async def delete_queue(call: Call) -> Response:
    """Delete a queue, with conditions if so asked."""
    name = clean_name(call.checked_name())
    call.queue(name, "configure")
    is_unused, is_empty = call.flag("if-unused"), call.flag("if-empty")
    with call.acting():
        call.vhost.delete_queue(name, None, if_unused=is_unused, if_empty=is_empty)
    await call.settle_definitions()
    return no_content()
