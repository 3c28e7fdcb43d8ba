"""What tools ask of a cluster, and a single node answers without doing anything; its settings.

Leaders of queues are moved and mirrors are synchronised among nodes. With one node both are so
already, and a tool that asks is told that it is done, if it may ask and the queue is there.

Invariant: no answer has a password, or a hash of one.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from hareline.management.api.access import caller, caller_with_body
from hareline.management.api.administering import Body, body_of
from hareline.management.api.answers import answer, no_content
from hareline.management.api.listing import picked_columns
from hareline.management.api.openapi import body_route, one_route
from hareline.management.api.queues import find_queue
from hareline.management.api.site import Site
from hareline.management.refusals import Refusal

#: Of a mirrored queue of RabbitMQ; a queue here has no mirrors.
ACTIONS: Final = ("sync", "cancel_sync")


class ActionBody(Body):
    """``action``: sync or cancel_sync."""

    action: str


def router(site: Site) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["node"])

    @router.post("/api/rebalance/queues", status_code=204, **one_route(None))
    async def rebalance(request: Request) -> Response:
        """Nothing: the leaders of all queues are on the only node."""
        await caller(site, request, "administrator")
        return no_content()

    @router.post("/api/queues/{vhost}/{queue}/actions", status_code=204, **body_route(ActionBody))
    async def act(request: Request) -> Response:
        """Nothing: a queue has no mirrors that could lag behind."""
        who, octets = await caller_with_body(site, request, "administrator")
        find_queue(who, request)
        body = body_of(ActionBody, octets)
        if body.action not in ACTIONS:
            known = " and ".join(ACTIONS)
            raise Refusal(400, "bad_request", f"action: '{body.action}' is not one of {known}")
        return no_content()

    @router.get("/api/config/effective", **one_route(dict[str, Any]))
    async def settings_in_force(request: Request) -> Response:
        """The settings in force, by sections and options; users are left out."""
        await caller(site, request, "administrator")
        found = site.settings().model_dump(mode="json", exclude={"users"})
        return answer(picked_columns(request, found))

    return router
