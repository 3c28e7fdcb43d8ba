"""``GET /api/hareline/near-limits``: what uses most of what it may have.

Queues by their lengths and consumers, connections by their channels, virtual hosts by their queues
and connections, and the broker by memory, disk and sockets. The nearest come first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import Caller, caller
from hareline.management.api.answers import answer
from hareline.management.api.listing import natural
from hareline.management.api.live import open_connections_of
from hareline.management.api.openapi import one_route
from hareline.management.api.site import Site
from hareline.management.pace import Share, pace_of

THRESHOLD_PERCENT: Final = 80
ITEMS_MAX: Final = 500

Unit = Literal["count", "bytes"]

_ON_OVERFLOW: Final = {
    "drop-head": "the oldest message is dropped or dead-lettered",
    "reject-publish": "new messages are refused",
    "reject-publish-dlx": "new messages are refused and dead-lettered",
    "none": "nothing: the limit is not enforced",
    "discard": "new messages are dropped",
    "flow-control": "its publishers wait",
    "flow-to-disk": "what is above the limit leaves memory",
}


@dataclass(frozen=True, slots=True)
class Use:
    """``value`` of ``limit`` is used. ``consequence``: what happens at the limit."""

    kind: str
    name: str
    vhost: str | None
    limit_name: str
    title: str
    unit: Unit
    value: int
    limit: int
    consequence: str

    @property
    def part(self) -> float:
        """How much of the limit is used; above 1 where it is exceeded."""
        return self.value / self.limit if self.limit > 0 else float(self.value > 0)


class UsedLimit(BaseModel):
    """A limit and how much of it is used; ``part`` is ``value / limit``."""

    kind: str
    name: str
    vhost: str | None
    limit_name: str
    title: str
    unit: Unit
    value: int
    limit: int
    part: float
    consequence: str


class UsedLimits(BaseModel):
    """``is_complete``: False if there are more than are listed."""

    items: list[UsedLimit]
    is_complete: bool


def router(site: Site) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["hareline"])

    @router.get("/api/hareline/near-limits", **_near_limits_route())
    async def near_limits(request: Request) -> Response:
        """What uses at least ``threshold`` percent of a limit, the nearest first."""
        who = await caller(site, request)
        least = natural(request, "threshold", THRESHOLD_PERCENT, 0, 100) / 100
        name = request.query_params.get("vhost")
        vhosts = [who.vhost(name)] if name else who.vhosts()
        async with pace_of(request).share() as share:
            found = await _nearest(site, who, vhosts, least, share)
        rows = [{**asdict(use), "part": round(use.part, 4)} for use in found[:ITEMS_MAX]]
        return answer({"items": rows, "is_complete": len(found) <= ITEMS_MAX})

    return router


async def _nearest(
    site: Site, who: Caller, vhosts: list[VirtualHost], least: float, share: Share
) -> list[Use]:
    """The nearest, at most one more than are listed."""
    heap: list[tuple[float, int, Use]] = []
    for number, use in enumerate(_uses(site, who, vhosts)):
        await share.pause()
        if use is None or use.part < least:
            continue
        item = (use.part, -number, use)
        if len(heap) <= ITEMS_MAX:
            heapq.heappush(heap, item)
        else:
            heapq.heappushpop(heap, item)
    return [use for _, _, use in sorted(heap, reverse=True)]


def _uses(site: Site, who: Caller, vhosts: list[VirtualHost]) -> Iterator[Use | None]:
    """All limits, and None where there is none, so that the walk can pause there."""
    if who.is_monitor:
        yield from _of_node(site)
    names = {vhost.name for vhost in vhosts}
    for connection in open_connections_of(site, who):
        vhost_name = connection.client.vhost.name
        if vhost_name not in names:
            yield None
            continue
        yield Use(
            "connection",
            connection.transport.connection_name,
            vhost_name,
            "channel_max",
            "Channels",
            "count",
            len(connection.channels.by_number),
            connection.channels.channel_max,
            "a further channel closes the connection",
        )
    for vhost in vhosts:
        yield from _of_vhost(vhost)
        yield from _of_queues(vhost)


def _of_node(site: Site) -> Iterator[Use]:
    memory, disk = site.node.memory(), site.node.disk()
    if memory.watermark_bytes:
        yield Use(
            "broker",
            site.node.name,
            None,
            "memory.watermark",
            "Memory",
            "bytes",
            memory.bytes_now,
            memory.watermark_bytes,
            "connections that publish are blocked",
        )
    if disk.watermark_bytes and disk.bytes_now:
        # the nearer to the watermark, the fuller: at the watermark the part is 1
        yield Use(
            "broker",
            site.node.name,
            None,
            "disk.free_watermark",
            "Free disk (needed of what is free)",
            "bytes",
            disk.watermark_bytes,
            disk.bytes_now,
            "connections that publish are blocked",
        )


def _of_vhost(vhost: VirtualHost) -> Iterator[Use]:
    max_queues = vhost.max_queues or 0
    if max_queues > 0:
        yield Use(
            "vhost",
            vhost.name,
            None,
            "max-queues",
            "Queues",
            "count",
            len(vhost.queues),
            max_queues,
            "further queues are refused",
        )


def _of_queues(vhost: VirtualHost) -> Iterator[Use | None]:
    for queue in list(vhost.queues.values()):
        arguments = vhost.queue_arguments.get(queue.name)
        if arguments is None:
            continue
        overflow = _ON_OVERFLOW[arguments.overflow or "drop-head"]
        limits: tuple[tuple[str, str, Unit, int, int | None, str], ...] = (
            (
                "x-max-length",
                "Messages",
                "count",
                queue.ready_count,
                arguments.max_length,
                overflow,
            ),
            (
                "x-max-length-bytes",
                "Bytes of messages",
                "bytes",
                queue.ready_bytes,
                arguments.max_length_bytes,
                overflow,
            ),
            (
                "x-max-consumers",
                "Consumers",
                "count",
                queue.consumer_count,
                arguments.max_consumers,
                "further consumers are refused",
            ),
        )
        yield None
        for name, title, unit, value, limit, consequence in limits:
            if limit is not None:
                yield Use(
                    "queue", queue.name, vhost.name, name, title, unit, value, limit, consequence
                )


def _near_limits_route() -> dict[str, Any]:
    parameters = [
        {
            "name": "threshold",
            "in": "query",
            "required": False,
            "description": "From which part of a limit, in percent.",
            "schema": {
                "type": "integer",
                "minimum": 0,
                "maximum": 100,
                "default": THRESHOLD_PERCENT,
            },
        },
        {
            "name": "vhost",
            "in": "query",
            "required": False,
            "description": "Only in this virtual host.",
            "schema": {"type": "string"},
        },
    ]
    return {**one_route(UsedLimits), "openapi_extra": {"parameters": parameters}}
