"""``GET /api/whoami``: the user who asks, and its tags. The smallest resource module."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.management.api.access import caller
from hareline.management.api.answers import answer
from hareline.management.api.openapi import one_route
from hareline.management.api.site import Site


class WhoAmI(BaseModel):
    """A user. ``is_internal_user``: no, it was made by people."""

    name: str
    tags: list[str]
    is_internal_user: bool = False


def router(site: Site) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["whoami"])

    @router.get("/api/whoami", **one_route(WhoAmI))
    async def whoami(request: Request) -> Response:
        """The user who asks."""
        who = await caller(site, request)
        found = WhoAmI(name=who.user.name, tags=list(who.user.tags))
        return answer(found.model_dump())

    return router
