"""``/api/vhost-limits`` and ``/api/user-limits``: how much of something there may be.

Invariant: a limit is shown as it was set; a negative one is in force as none.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.management.api.access import caller
from hareline.management.api.administering import (
    Body,
    administration_of,
    answer_done,
    body_of,
    changer,
    changer_with_body,
    name_of,
)
from hareline.management.api.answers import answer
from hareline.management.api.openapi import body_route, one_route
from hareline.management.api.site import Site


class VhostLimits(BaseModel):
    """The limits of a virtual host: ``max-connections``, ``max-queues`` and further ones."""

    vhost: str
    value: dict[str, int]


class UserLimits(BaseModel):
    """The limits of a user: ``max-connections``, ``max-channels`` and rates of publishing."""

    user: str
    value: dict[str, int]


class LimitBody(Body):
    """A limit; a negative one means no limit."""

    value: object


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["limits"])

    def of_vhost(name: str) -> list[dict[str, object]]:
        limits = administration_of(site).vhosts.limits(name)
        return [{"vhost": name, "value": dict(limits)}] if limits else []

    def of_user(name: str) -> list[dict[str, object]]:
        limits = administration_of(site).users.limits(name)
        return [{"user": name, "value": dict(limits)}] if limits else []

    @router.get("/api/vhost-limits", **one_route(list[VhostLimits]))
    async def vhost_limits(request: Request) -> Response:
        """The limits of all virtual hosts that the user sees."""
        who = await caller(site, request)
        return answer([each for vhost in who.vhosts() for each in of_vhost(vhost.name)])

    @router.get("/api/vhost-limits/{vhost}", **one_route(list[VhostLimits]))
    async def limits_of_vhost(request: Request) -> Response:
        """The limits of a virtual host, as an array of one or none."""
        who = await caller(site, request)
        return answer(of_vhost(who.vhost(name_of(request, "vhost")).name))

    @router.put("/api/vhost-limits/{vhost}/{limit}", **body_route(LimitBody))
    async def put_vhost_limit(request: Request) -> Response:
        """Set a limit of a virtual host."""
        who, octets = await changer_with_body(site, request)
        body = body_of(LimitBody, octets)
        administration_of(site).vhosts.set_limit(
            name_of(request, "vhost"), name_of(request, "limit"), body.value, by=who.user.name
        )
        return await answer_done(site)

    @router.delete("/api/vhost-limits/{vhost}/{limit}", **one_route(None))
    async def delete_vhost_limit(request: Request) -> Response:
        """Lift a limit of a virtual host."""
        who = await changer(site, request)
        administration_of(site).vhosts.clear_limit(
            name_of(request, "vhost"), name_of(request, "limit"), by=who.user.name
        )
        return await answer_done(site)

    @router.get("/api/user-limits", **one_route(list[UserLimits]))
    async def user_limits(request: Request) -> Response:
        """The limits of all users."""
        await caller(site, request, "administrator")
        names = sorted(user.name for user in site.users)
        return answer([each for name in names for each in of_user(name)])

    @router.get("/api/user-limits/{user}", **one_route(list[UserLimits]))
    async def limits_of_user(request: Request) -> Response:
        """The limits of a user, as an array of one or none."""
        await caller(site, request, "administrator")
        user = administration_of(site).users.lookup(name_of(request, "user"))
        return answer(of_user(user.name))

    @router.put("/api/user-limits/{user}/{limit}", **body_route(LimitBody))
    async def put_user_limit(request: Request) -> Response:
        """Set a limit of a user."""
        who, octets = await changer_with_body(site, request)
        body = body_of(LimitBody, octets)
        administration_of(site).users.set_limit(
            name_of(request, "user"), name_of(request, "limit"), body.value, by=who.user.name
        )
        return await answer_done(site)

    @router.delete("/api/user-limits/{user}/{limit}", **one_route(None))
    async def delete_user_limit(request: Request) -> Response:
        """Lift a limit of a user."""
        who = await changer(site, request)
        administration_of(site).users.clear_limit(
            name_of(request, "user"), name_of(request, "limit"), by=who.user.name
        )
        return await answer_done(site)

    return router
