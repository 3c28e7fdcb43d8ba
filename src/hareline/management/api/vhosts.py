"""``/api/vhosts``: virtual hosts, made, changed, protected and deleted.

Invariant: a user sees the virtual hosts it may enter, a monitoring one all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.auth.users import INTERNAL
from hareline.broker.vhost import VirtualHost
from hareline.management.api.access import caller
from hareline.management.api.administering import (
    Body,
    administration_of,
    answer_done,
    answer_put,
    body_of,
    changer,
    changer_with_body,
    name_of,
    settle_change,
)
from hareline.management.api.answers import answer, no_content
from hareline.management.api.listing import listing, picked_columns
from hareline.management.api.openapi import body_route, list_route, one_route
from hareline.management.api.rates import Rates
from hareline.management.api.site import Site
from hareline.management.pace import pace_of


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


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["vhosts"])

    @router.get("/api/vhosts", **list_route(VhostInfo))
    async def vhosts(request: Request) -> Response:
        """The virtual hosts that the user sees."""
        found = (await caller(site, request)).vhosts()
        rates, depths = Rates(site, request), await _depths(request, found)

        def describe(vhost: VirtualHost) -> Mapping[str, Any]:
            return describe_vhost(site, vhost, rates, depths[vhost.name])

        return await listing(request, found, describe, ("name",), name_of=_name)

    @router.get("/api/vhosts/{vhost}", **one_route(VhostInfo))
    async def vhost(request: Request) -> Response:
        """One virtual host."""
        who = await caller(site, request)
        found = who.vhost(name_of(request, "vhost"))
        depths = (await _depths(request, [found]))[found.name]
        row = describe_vhost(site, found, Rates(site, request), depths)
        return answer(picked_columns(request, row))

    @router.put("/api/vhosts/{vhost}", **body_route(VhostBody))
    async def put_vhost(request: Request) -> Response:
        """Make a virtual host, which the user may then use, or change what is said of it."""
        who, octets = await changer_with_body(site, request)
        body = body_of(VhostBody, octets)
        name, administration = name_of(request, "vhost"), administration_of(site)
        is_new = administration.vhosts.put(
            name,
            description=body.description,
            tags=_tags(body.tags),
            default_queue_type=_queue_type(body.default_queue_type or body.defaultqueuetype),
            tracing=None if body.tracing is None else body.tracing in (True, "true"),
            is_protected=body.protected_from_deletion,
            by=who.user.name,
        )
        # who makes one may use it, as in RabbitMQ; another authority is not told
        if is_new and who.user.backend == INTERNAL and not who.may_enter(name):
            await settle_change(site)
            who = await changer(site, request)
            administration.users.put_permission(
                who.user.name, name, ".*", ".*", ".*", by=who.user.name
            )
            await settle_change(site, "so its maker has no permissions in it")
        return await answer_put(site, is_new)

    @router.delete("/api/vhosts/{vhost}", **one_route(None))
    async def delete_vhost(request: Request) -> Response:
        """Delete a virtual host with all that is in it; its connections are closed."""
        await changer(site, request)
        vhosts, name = administration_of(site).vhosts, name_of(request, "vhost")
        await pace_of(request).run(vhosts.end_connections(name))
        who = await changer(site, request)  # of many connections it takes long
        vhosts.delete(name, by=who.user.name)
        return await answer_done(site)

    @router.post("/api/vhosts/{vhost}/start/{node}", **one_route(None))
    async def start_vhost(request: Request) -> Response:
        """Nothing: a virtual host that is there runs. For tools that ask for it."""
        await caller(site, request, "administrator")
        administration_of(site).vhosts.lookup(name_of(request, "vhost"))
        return no_content()

    async def protect(request: Request, is_protected: bool) -> Response:
        who = await changer(site, request)
        vhosts = administration_of(site).vhosts
        vhost = vhosts.lookup(name_of(request, "vhost"))
        vhosts.put(vhost.name, is_protected=is_protected, by=who.user.name)
        return await answer_done(site)

    @router.post("/api/vhosts/{vhost}/deletion/protection", **one_route(None))
    async def protect_vhost(request: Request) -> Response:
        """Refuse to delete the virtual host from now on."""
        return await protect(request, True)

    @router.delete("/api/vhosts/{vhost}/deletion/protection", **one_route(None))
    async def release_vhost(request: Request) -> Response:
        """Let the virtual host be deleted again."""
        return await protect(request, False)

    return router


async def _depths(request: Request, vhosts: Iterable[VirtualHost]) -> dict[str, Depths]:
    """How many messages there are in each of these, by its name."""
    depths = {}
    async with pace_of(request).share() as share:
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
    vhosts = administration_of(site).vhosts
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


def _name(vhost: VirtualHost) -> str:
    return vhost.name


def _tags(tags: str | list[str] | None) -> list[str] | None:
    if tags is None:
        return None
    given = tags.split(",") if isinstance(tags, str) else tags
    return [tag for tag in map(str.strip, given) if tag]


def _queue_type(given: str | None) -> str | None:
    """RabbitMQ's tools say "undefined" where none was chosen."""
    return None if given in ("undefined", "default") else given
