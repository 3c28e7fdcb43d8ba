"""``/api/permissions`` and ``/api/topic-permissions``: what users may do in virtual hosts.

Invariant: permissions are shown by user and virtual host, whether the settings give them or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.auth.permissions import Permissions
from hareline.auth.users import User
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
)
from hareline.management.api.answers import answer, not_found
from hareline.management.api.listing import listing
from hareline.management.api.openapi import body_route, list_route, one_route
from hareline.management.api.site import Site


class PermissionInfo(BaseModel):
    """The patterns of a user in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionInfo(BaseModel):
    """The patterns of a user for the routing keys of a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class PermissionBody(Body):
    """Patterns for names; an empty one permits nothing."""

    configure: str
    write: str
    read: str


class TopicPermissionBody(Body):
    """Patterns for routing keys of an exchange."""

    exchange: str
    write: str
    read: str


class _Given(NamedTuple):
    user: str
    vhost: str
    permissions: Permissions


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["permissions"])

    async def permissions_of(
        request: Request, user: str | None = None, vhost: str | None = None
    ) -> Response:
        found = (
            each
            for each in _all_given(site)
            if user in (None, each.user) and vhost in (None, each.vhost)
        )
        return await listing(request, found, _describe, ("user", "vhost"))

    async def topics_of(
        request: Request, user: str | None = None, vhost: str | None = None
    ) -> Response:
        found = (
            each._asdict()
            for each in administration_of(site).users.topic_permissions()
            if user in (None, each.user) and vhost in (None, each.vhost)
        )
        return await listing(request, found, dict, ("user", "vhost", "exchange"))

    @router.get("/api/permissions", **list_route(PermissionInfo))
    async def permissions(request: Request) -> Response:
        """The permissions of all users."""
        await caller(site, request, "administrator")
        return await permissions_of(request)

    @router.get("/api/users/{user}/permissions", **list_route(PermissionInfo))
    async def user_permissions(request: Request) -> Response:
        """The permissions of a user."""
        await caller(site, request, "administrator")
        user = administration_of(site).users.lookup(name_of(request, "user"))
        return await permissions_of(request, user=user.name)

    @router.get("/api/vhosts/{vhost}/permissions", **list_route(PermissionInfo))
    async def vhost_permissions(request: Request) -> Response:
        """The permissions in a virtual host."""
        await caller(site, request, "administrator")
        vhost = administration_of(site).vhosts.lookup(name_of(request, "vhost"))
        return await permissions_of(request, vhost=vhost.name)

    @router.get("/api/permissions/{vhost}/{user}", **one_route(PermissionInfo))
    async def permission(request: Request) -> Response:
        """The permissions of a user in a virtual host."""
        await caller(site, request, "administrator")
        user = administration_of(site).users.lookup(name_of(request, "user"))
        vhost = name_of(request, "vhost")
        found = user.permissions.get(vhost)
        if found is None or vhost not in site.vhosts:
            raise not_found()
        return answer(_describe(_Given(user.name, vhost, found)))

    @router.put("/api/permissions/{vhost}/{user}", **body_route(PermissionBody))
    async def put_permission(request: Request) -> Response:
        """Set what a user may do in a virtual host; open connections follow at once."""
        who, octets = await changer_with_body(site, request)
        body = body_of(PermissionBody, octets)
        is_new = administration_of(site).users.put_permission(
            name_of(request, "user"),
            name_of(request, "vhost"),
            body.configure,
            body.write,
            body.read,
            by=who.user.name,
        )
        return await answer_put(site, is_new)

    @router.delete("/api/permissions/{vhost}/{user}", **one_route(None))
    async def delete_permission(request: Request) -> Response:
        """Take all permissions of a user in a virtual host."""
        who = await changer(site, request)
        administration_of(site).users.delete_permission(
            name_of(request, "user"), name_of(request, "vhost"), by=who.user.name
        )
        return await answer_done(site)

    @router.get("/api/topic-permissions", **list_route(TopicPermissionInfo))
    async def topic_permissions(request: Request) -> Response:
        """The topic permissions of all users."""
        await caller(site, request, "administrator")
        return await topics_of(request)

    @router.get("/api/users/{user}/topic-permissions", **list_route(TopicPermissionInfo))
    async def user_topic_permissions(request: Request) -> Response:
        """The topic permissions of a user."""
        await caller(site, request, "administrator")
        user = administration_of(site).users.lookup(name_of(request, "user"))
        return await topics_of(request, user=user.name)

    @router.get("/api/vhosts/{vhost}/topic-permissions", **list_route(TopicPermissionInfo))
    async def vhost_topic_permissions(request: Request) -> Response:
        """The topic permissions in a virtual host."""
        await caller(site, request, "administrator")
        vhost = administration_of(site).vhosts.lookup(name_of(request, "vhost"))
        return await topics_of(request, vhost=vhost.name)

    @router.get("/api/topic-permissions/{vhost}/{user}", **list_route(TopicPermissionInfo))
    async def topic_permission(request: Request) -> Response:
        """The topic permissions of a user in a virtual host."""
        await caller(site, request, "administrator")
        user = administration_of(site).users.lookup(name_of(request, "user"))
        vhost = administration_of(site).vhosts.lookup(name_of(request, "vhost"))
        if not any(key[0] == vhost.name for key in user.topic_permissions):
            raise not_found()
        return await topics_of(request, user=user.name, vhost=vhost.name)

    @router.put("/api/topic-permissions/{vhost}/{user}", **body_route(TopicPermissionBody))
    async def put_topic_permission(request: Request) -> Response:
        """Set which routing keys a user may use with a topic exchange."""
        who, octets = await changer_with_body(site, request)
        body = body_of(TopicPermissionBody, octets)
        is_new = administration_of(site).users.put_topic_permission(
            name_of(request, "user"),
            name_of(request, "vhost"),
            body.exchange,
            body.write,
            body.read,
            by=who.user.name,
        )
        return await answer_put(site, is_new)

    @router.delete("/api/topic-permissions/{vhost}/{user}", **one_route(None))
    async def delete_topic_permissions(request: Request) -> Response:
        """Lift all bounds on the routing keys of a user in a virtual host."""
        who = await changer(site, request)
        administration_of(site).users.delete_topic_permissions(
            name_of(request, "user"), name_of(request, "vhost"), by=who.user.name
        )
        return await answer_done(site)

    @router.delete("/api/topic-permissions/{vhost}/{user}/{exchange}", **one_route(None))
    async def delete_topic_permission(request: Request) -> Response:
        """Lift the bounds on the routing keys of a user for one exchange."""
        who = await changer(site, request)
        administration_of(site).users.delete_topic_permissions(
            name_of(request, "user"),
            name_of(request, "vhost"),
            name_of(request, "exchange"),
            by=who.user.name,
        )
        return await answer_done(site)

    return router


def _all_given(site: Site) -> Iterator[_Given]:
    users: list[User] = list(site.users)
    for user in users:
        for vhost, permissions in user.permissions.items():
            if vhost in site.vhosts:
                yield _Given(user.name, vhost, permissions)


def _describe(given: _Given) -> Mapping[str, Any]:
    permissions = given.permissions
    return {
        "user": given.user,
        "vhost": given.vhost,
        "configure": permissions.configure,
        "write": permissions.write,
        "read": permissions.read,
    }
