"""``GET /api/hareline/near-limits``: what uses most of what it may have.

Queues by their lengths and consumers, connections by their channels, users by connections and
channels, virtual hosts by queues and connections, and the broker by memory, disk, connections and
file descriptors. The nearest come first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from pydantic import BaseModel
from starlette.responses import Response

from hareline.amqp.connection import Connection
from hareline.auth.users import Identity, User
from hareline.broker.vhost import VirtualHost
from hareline.management.answers import answer
from hareline.management.api.call import Call, Caller, Routes
from hareline.management.api.connections import channels_of, open_connections_of
from hareline.management.api.site import Site
from hareline.management.pace import Share
from hareline.management.routes import integer, parameter
from hareline.queues.declare.table import BY_FIELD, OVERFLOWS

routes = Routes("hareline")

THRESHOLD_PERCENT: Final = 80
ITEMS_MAX: Final = 500

Unit = Literal["count", "bytes"]

_TITLES: Final = {"vhosts": "Virtual hosts"}


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
        """The part of the limit that is used; above 1 where it is exceeded."""
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


@routes(
    "GET /api/hareline/near-limits",
    gives=UsedLimits,
    parameters=[
        parameter(
            "threshold",
            integer(0, 100, THRESHOLD_PERCENT),
            "From which part of a limit, in percent.",
        ),
        parameter("vhost", "string", "Only in this virtual host."),
    ],
)
async def near_limits(call: Call) -> Response:
    """List all that uses at least ``threshold`` percent of a limit, the nearest first."""
    least = call.number("threshold", THRESHOLD_PERCENT, 0, 100) / 100
    name = call.query.get("vhost")
    vhosts = [call.who.vhost(name)] if name else call.who.vhosts()
    async with call.pace.share() as share:
        found = await _nearest(call.site, call.who, vhosts, least, share)
    rows = [{**asdict(use), "part": round(use.part, 4)} for use in found[:ITEMS_MAX]]
    return answer({"items": rows, "is_complete": len(found) <= ITEMS_MAX})


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
    open_counts: Counter[str] = Counter()  # of virtual hosts
    connection_counts: Counter[Identity] = Counter()
    channel_counts: Counter[Identity] = Counter()
    running_count = 0
    for live in list(site.context.connections):
        yield None
        client = live.client
        if live.is_running:
            running_count += 1
            if client.user is not None:
                connection_counts[client.user.identity] += 1
            open_counts[client.vhost.name] += 1
        if client.user is not None:
            channel_counts[client.user.identity] += live.channel_count
    names = {vhost.name for vhost in vhosts}
    for connection in open_connections_of(site, who):
        yield None
        if connection.client.vhost.name in names:
            yield from _of_connection(site, connection)
    if who.is_monitor:
        yield from _of_node(site, running_count)
    for user in list(site.users):
        yield None
        if who.is_monitor or user.identity == who.user.identity:
            yield from _of_user(
                site, user, connection_counts[user.identity], channel_counts[user.identity]
            )
    for vhost in vhosts:
        yield from _of_vhost(site, vhost, open_counts[vhost.name])
        yield from _of_queues(vhost)


def _counted(
    place: tuple[str, str, str | None],
    limit_name: str,
    title: str,
    value: int,
    limit: int | None,
    consequence: str,
) -> Iterator[Use]:
    """Yield the use of a count; nothing without a limit. ``place``: kind, name, vhost."""
    if limit is not None:
        yield Use(*place, limit_name, title, "count", value, limit, consequence)


def _of_connection(site: Site, connection: Connection) -> Iterator[Use]:
    vhost_name = connection.client.vhost.name
    channels = channels_of(connection)
    yield from _counted(
        ("connection", connection.transport.connection_name, vhost_name),
        "channel_max",
        "Channels",
        len(channels),
        connection.channels.channel_max,
        "a further channel closes the connection",
    )
    for channel in channels:
        yield from _counted(
            ("channel", channel.port.channel_name, vhost_name),
            "limits.max_consumers_per_channel",
            "Consumers",
            len(channel.consumers.by_tag),
            site.context.limits.max_consumers_per_channel or None,
            "further consumers are refused",
        )
        yield from _counted(
            ("channel", channel.port.channel_name, vhost_name),
            "limits.max_unacked_per_channel",
            "Unacknowledged deliveries",
            len(channel.port.unacked),
            site.context.limits.max_unacked_per_channel or None,
            "more of them close the channel",
        )


def _of_node(site: Site, running_count: int) -> Iterator[Use]:
    memory, disk = site.node.memory(), site.node.disk()
    name, blocked = site.node.name, "connections that publish are blocked"
    place = ("broker", name, None)
    if memory.watermark_bytes:
        yield Use(
            *place,
            "memory.watermark",
            "Memory",
            "bytes",
            memory.bytes_now,
            memory.watermark_bytes,
            blocked,
        )
    if disk.watermark_bytes and disk.bytes_now:
        # the nearer to the watermark, the fuller: at the watermark the part is 1
        yield Use(
            *place,
            "disk.free_watermark",
            "Free disk (needed of what is free)",
            "bytes",
            disk.watermark_bytes,
            disk.bytes_now,
            blocked,
        )
    limits, capacity, counts = site.context.limits, site.context.capacity, site.context.open_counts
    for what, count, limit in (
        ("connections", running_count, limits.max_connections),
        ("channels", counts.channels, limits.max_channels),
        ("vhosts", len(site.context.vhosts), limits.max_vhosts),
        ("queues", capacity.queue_count, capacity.max_queues),
        ("exchanges", capacity.exchange_count, capacity.max_exchanges),
        ("bindings", capacity.binding_count, capacity.max_bindings),
    ):
        yield from _counted(
            place,
            f"limits.max_{what}",
            _TITLES.get(what, what.capitalize()),
            count,
            limit or None,
            f"further {what} are refused",
        )
    used, total = site.node.descriptors()
    yield from _counted(
        place,
        "file_descriptors",
        "File descriptors",
        used,
        total if used >= 0 < total else None,
        "further connections fail, and so may writing to disk",
    )


def _of_user(site: Site, user: User, connection_count: int, channel_count: int) -> Iterator[Use]:
    place, limits = ("user", user.name, None), site.context.limits
    for what, count, own, of_all in (
        ("connections", connection_count, user.max_connections, limits.max_connections_per_user),
        ("channels", channel_count, user.max_channels, limits.max_channels_per_user),
    ):
        yield from _counted(
            place,
            f"limits.max_{what}_per_user" if own is None else f"max-{what}",
            what.capitalize(),
            count,
            of_all or None if own is None else own,
            "further ones of this user are refused",
        )


def _of_vhost(site: Site, vhost: VirtualHost, connection_count: int) -> Iterator[Use]:
    for what, count, limit in (
        ("queues", len(vhost.queues), vhost.capacity.max_queues),
        ("exchanges", len(vhost.exchanges), vhost.capacity.max_exchanges),
        ("bindings", len(vhost.bindings), vhost.capacity.max_bindings),
        (
            "connections",
            connection_count,
            site.context.vhost_connection_limits.get(vhost.name),
        ),
    ):
        yield from _counted(
            ("vhost", vhost.name, None),
            f"max-{what}",
            what.capitalize(),
            count,
            limit,
            f"further {what} are refused",
        )


def _of_queues(vhost: VirtualHost) -> Iterator[Use | None]:
    """Limits of queues; what a stream keeps is none that it could be near: it is always full."""
    for queue in list(vhost.queues.values()):
        yield None
        place = ("queue", queue.name, vhost.name)
        overflow = queue.overflow
        if overflow is not None:
            at_limit = OVERFLOWS[overflow.policy].at_limit
            yield from _of_argument(
                place, "max_length", overflow.depth_count, overflow.max_length, at_limit
            )
            yield from _of_argument(
                place, "max_length_bytes", overflow.depth_bytes, overflow.max_length_bytes, at_limit
            )
        arguments = vhost.queue_arguments.get(queue.name)
        if arguments is not None:
            yield from _of_argument(
                place, "max_consumers", queue.consumer_count, arguments.max_consumers
            )


def _of_argument(
    place: tuple[str, str, str], field: str, value: int, limit: int | None, at_limit: str = ""
) -> Iterator[Use]:
    row = BY_FIELD[field]
    if limit is not None and row.limit is not None:
        unit: Unit = "bytes" if row.is_bytes else "count"
        consequence = row.limit.at_limit or at_limit
        yield Use(*place, row.name, row.limit.title, unit, value, limit, consequence)
