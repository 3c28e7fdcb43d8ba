"""Virtual hosts: made, changed, protected and deleted; and their limits.

Invariant: a user sees the virtual hosts it may enter, a monitoring one all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel
from starlette.responses import Response

from hareline.auth.users import INTERNAL
from hareline.broker.vhost import VirtualHost
from hareline.management.answers import answer, no_content
from hareline.management.api.call import Body, Call, Routes
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.api.users import LimitBody
from hareline.management.pace import Pace

routes = Routes("vhosts")
limits_routes = Routes("limits")


class VhostInfo(BaseModel):
    """A virtual host. ``set_by``: "settings" if these name it, else "run time"."""

    name: str
    description: str
    tags: list[str]
    default_queue_type: str
    metadata: dict[str, Any]
    tracing: bool
    protected_from_deletion: bool
    cluster_state: dict[str, str]
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    message_stats: dict[str, Any] = {}
    set_by: str


class VhostBody(Body):
    """A virtual host to be made or changed; what is not given stays as it is."""

    description: str | None = None
    tags: str | list[str] | None = None
    default_queue_type: str | None = None
    defaultqueuetype: str | None = None
    tracing: bool | str | None = None
    protected_from_deletion: bool | None = None


class Depths(NamedTuple):
    """Messages in all queues of a virtual host."""

    ready: int
    unacked: int


@routes("GET /api/vhosts", lists=VhostInfo)
async def vhosts(call: Call) -> Response:
    """The virtual hosts that the user sees."""
    found = call.who.vhosts()
    rates, depths = Rates(call), await _depths(call.pace, found)
    return await listing(
        call,
        found,
        lambda vhost: describe_vhost(call.site, vhost, rates, depths[vhost.name]),
        ("name",),
        name_of=lambda vhost: vhost.name,
    )


@routes("GET /api/vhosts/{vhost}", gives=VhostInfo)
async def vhost(call: Call) -> Response:
    """One virtual host."""
    found = call.vhost
    depths = (await _depths(call.pace, [found]))[found.name]
    row = describe_vhost(call.site, found, Rates(call), depths)
    return answer(picked_columns(call, row))


@routes("PUT /api/vhosts/{vhost}", body=VhostBody, needs="administrator", changes=True)
async def put_vhost(call: Call) -> Response:
    """Make a virtual host, which the user may then use, or change what is said of it."""
    body = call.body(VhostBody)
    name, administration = call.name("vhost"), call.administration
    is_new = administration.vhosts.put(
        name,
        description=body.description,
        tags=_tags(body.tags),
        default_queue_type=_queue_type(body.default_queue_type or body.defaultqueuetype),
        tracing=None if body.tracing is None else body.tracing in (True, "true"),
        is_protected=body.protected_from_deletion,
        by=call.by,
    )
    # who makes one may use it, as in RabbitMQ; another authority is not told
    if is_new and call.who.user.backend == INTERNAL and not call.who.may_enter(name):
        await call.settle_change()
        await call.take_turn()
        administration.users.put_permission(call.by, name, ".*", ".*", ".*", by=call.by)
        await call.settle_change("so its maker has no permissions in it")
    return await call.put_done(is_new)


@routes("DELETE /api/vhosts/{vhost}", needs="administrator", changes=True)
async def delete_vhost(call: Call) -> Response:
    """Delete a virtual host with all that is in it; its connections are closed."""
    vhosts, name = call.administration.vhosts, call.name("vhost")
    await call.pace.run(vhosts.end_connections(name))
    await call.take_turn()  # of many connections it takes long
    vhosts.delete(name, by=call.by)
    return await call.done()


@routes("POST /api/vhosts/{vhost}/start/{node}", needs="administrator")
async def start_vhost(call: Call) -> Response:
    """Nothing: a virtual host that is there runs. For tools that ask for it."""
    call.administration.vhosts.lookup(call.name("vhost"))
    return no_content()


@routes("POST /api/vhosts/{vhost}/deletion/protection", needs="administrator", changes=True)
async def protect_vhost(call: Call) -> Response:
    """Refuse to delete the virtual host from now on."""
    return await _protect(call, is_protected=True)


@routes("DELETE /api/vhosts/{vhost}/deletion/protection", needs="administrator", changes=True)
async def release_vhost(call: Call) -> Response:
    """Let the virtual host be deleted again."""
    return await _protect(call, is_protected=False)


async def _protect(call: Call, *, is_protected: bool) -> Response:
    vhosts = call.administration.vhosts
    vhost = vhosts.lookup(call.name("vhost"))
    vhosts.put(vhost.name, is_protected=is_protected, by=call.by)
    return await call.done()


async def _depths(pace: Pace, vhosts: Iterable[VirtualHost]) -> dict[str, Depths]:
    """Count the messages in each of these, by its name."""
    depths = {}
    async with pace.share() as share:
        for vhost in vhosts:
            ready = unacked = 0
            for queue in list(vhost.queues.values()):
                await share.pause()
                ready += queue.ready_count
                unacked += queue.unacked_count
            depths[vhost.name] = Depths(ready, unacked)
    return depths


def describe_vhost(site: Site, vhost: VirtualHost, rates: Rates, counted: Depths) -> dict[str, Any]:
    """A virtual host as JSON; its counters of messages are those of the last sample."""
    vhosts = site.administration.vhosts
    record = vhosts.record(vhost.name)
    queue_type = record.default_queue_type or "classic"
    is_set = vhosts.origins.fixes_vhost(vhost.name)
    key = (vhost.name,)
    depths = {
        "messages": counted.ready + counted.unacked,
        "messages_ready": counted.ready,
        "messages_unacknowledged": counted.unacked,
    }
    numbers: dict[str, Any] = dict(depths)
    if rates.is_wanted:
        numbers = rates.with_details("vhost", key, depths, "lengths")
        numbers |= rates.object_stats("vhost", key, rates.message_counts("vhost", key))
    return {
        "name": vhost.name,
        "description": record.description,
        "tags": list(record.tags),
        "default_queue_type": queue_type,
        "metadata": {
            "description": record.description,
            "tags": list(record.tags),
            "default_queue_type": queue_type,
        },
        "tracing": vhosts.is_traced(vhost.name),
        "protected_from_deletion": record.is_protected,
        "cluster_state": {site.node.name: "running"},
        "set_by": "settings" if is_set else "run time",
        **numbers,
    }


def _tags(tags: str | list[str] | None) -> list[str] | None:
    if tags is None:
        return None
    given = tags.split(",") if isinstance(tags, str) else tags
    return [tag for tag in map(str.strip, given) if tag]


def _queue_type(given: str | None) -> str | None:
    """RabbitMQ's tools say "undefined" where none was chosen."""
    return None if given in ("undefined", "default") else given


# -------------------------------------------------------------------------------------- limits


class VhostLimits(BaseModel):
    """The limits of a virtual host: ``max-connections``, ``max-queues`` and further ones."""

    vhost: str
    value: dict[str, int]


@limits_routes("GET /api/vhost-limits", gives=list[VhostLimits])
async def vhost_limits(call: Call) -> Response:
    """The limits of all virtual hosts that the user sees."""
    return answer(_limits(call, call.who.vhosts()))


@limits_routes("GET /api/vhost-limits/{vhost}", gives=list[VhostLimits])
async def limits_of_vhost(call: Call) -> Response:
    """The limits of a virtual host, as an array of one or none."""
    return answer(_limits(call, [call.vhost]))


@limits_routes(
    "PUT /api/vhost-limits/{vhost}/{limit}", body=LimitBody, needs="administrator", changes=True
)
async def put_vhost_limit(call: Call) -> Response:
    """Set a limit of a virtual host."""
    value = call.body(LimitBody).value
    call.administration.vhosts.set_limit(call.name("vhost"), call.name("limit"), value, by=call.by)
    return await call.done()


@limits_routes("DELETE /api/vhost-limits/{vhost}/{limit}", needs="administrator", changes=True)
async def delete_vhost_limit(call: Call) -> Response:
    """Lift a limit of a virtual host."""
    call.administration.vhosts.clear_limit(call.name("vhost"), call.name("limit"), by=call.by)
    return await call.done()


def _limits(call: Call, vhosts: list[VirtualHost]) -> list[dict[str, object]]:
    limits = call.administration.vhosts.limits
    return [
        {"vhost": each.name, "value": dict(limits(each.name))}
        for each in vhosts
        if limits(each.name)
    ]
