"""``GET /api/hareline/changes``: what changed lately and who did it, the newest first.

A user sees the changes of what it could list: in the virtual hosts that it sees, parameters with
the tag policymaker, users and permissions with administrator, and settings, alarms and virtual
hosts themselves with monitoring. Who made a change, and from which address, is told as connections
are: of the user's own changes, and of all with monitoring. ``management.change_log`` says what is
in the log, and since when.

Invariant: the filter looks only at what the user is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.management.api.access import Caller, Tag, caller
from hareline.management.api.answers import answer
from hareline.management.api.listing import natural
from hareline.management.api.openapi import one_route
from hareline.management.api.site import Site
from hareline.management.change_log import KEPT_MAX, Change
from hareline.management.pace import pace_of
from hareline.management.refusals import Refusal

#: The tag that the routes of these objects ask for, by the first word of an event.
_TAGS: Final[Mapping[str, Tag]] = {
    "user": "administrator",
    "permission": "administrator",
    "topic": "administrator",
    "parameter": "policymaker",
}

LIMIT: Final = 100
LIMIT_MAX: Final = 500
_NUMBER_MAX: Final = 10**18 - 1


class DoneBy(BaseModel):
    """Who did it. ``via``: amqp, http, settings (a file that was read), or broker (by itself).

    ``address``: host and port of the client, null where there is none. ``user`` and ``address`` are
    null for users without monitoring, but for their own changes.
    """

    via: str
    user: str | None
    address: str | None


class ChangeInfo(BaseModel):
    """A change: ``event`` is a word such as ``queue.deleted``."""

    number: int
    at_ms: int
    event: str
    details: dict[str, Any]
    by: DoneBy


class ChangesInfo(BaseModel):
    """``since_ms``: from when on changes are known; at most ``kept_max`` are kept.

    ``before``: what older changes are asked for with; null: there are none.
    """

    items: list[ChangeInfo]
    before: int | None
    since_ms: int
    kept_max: int


def router(site: Site) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["hareline"])

    @router.get("/api/hareline/changes", **_changes_route())
    async def changes(request: Request) -> Response:
        """What changed lately: queues, exchanges, bindings, policies, users, alarms, settings."""
        who = await caller(site, request)
        wanted = request.query_params.get("filter", "").lower()
        limit = natural(request, "limit", LIMIT, 1, LIMIT_MAX)
        before = natural(request, "before", _NUMBER_MAX, 1, _NUMBER_MAX)
        found: list[Change] = []
        log = site.changes
        if log is None:
            raise Refusal(503, "not_available", "the broker keeps no changes yet")
        async with pace_of(request).share() as share:
            for change in log.newest_first():
                await share.pause()
                if change.number >= before or not _is_seen(who, change):
                    continue
                if not wanted or wanted in _searched(who, change):
                    found.append(change)
                    if len(found) > limit:
                        break
        has_more = len(found) > limit
        del found[limit:]
        rows = [
            {
                "number": each.number,
                "at_ms": each.at_ms,
                "event": each.event,
                "details": dict(each.details),
                "by": {
                    "via": each.by.via,
                    "user": user or None,
                    "address": address or None,
                },
            }
            for each in found
            for user, address in [_shown_doer(who, each)]
        ]
        return answer(
            {
                "items": rows,
                "before": found[-1].number if has_more else None,
                "since_ms": log.since_ms,
                "kept_max": KEPT_MAX,
            }
        )

    return router


def _is_seen(who: Caller, change: Change) -> bool:
    tag = _TAGS.get(change.event.partition(".")[0])
    if tag is not None and tag not in who.tags:
        return False
    if tag == "administrator":
        return True
    if change.details.get("component") == "global":  # as GET /api/global-parameters shows them
        return True
    vhost_name = change.details.get("vhost")
    return who.is_monitor if vhost_name is None else who.sees(str(vhost_name))


def _shown_doer(who: Caller, change: Change) -> tuple[str, str]:
    """User and address of a change; empty where the caller may not see them."""
    by = change.by
    is_own = (by.backend, by.user) == who.user.identity
    return (by.user, by.address) if who.is_monitor or is_own else ("", "")


def _searched(who: Caller, change: Change) -> str:
    texts = [f"{name}: {value}" for name, value in change.details.items()]
    return " ".join([change.event, *texts, *_shown_doer(who, change)]).lower()


def _changes_route() -> dict[str, Any]:
    parameters = [
        {
            "name": "limit",
            "in": "query",
            "required": False,
            "description": "How many changes at most.",
            "schema": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
        },
        {
            "name": "before",
            "in": "query",
            "required": False,
            "description": "Only changes that are older than the one of this number.",
            "schema": {"type": "integer", "minimum": 1},
        },
        {
            "name": "filter",
            "in": "query",
            "required": False,
            "description": "Only changes whose event, details, user or address, as far as they are "
            "shown, contain this.",
            "schema": {"type": "string"},
        },
    ]
    return {**one_route(ChangesInfo), "openapi_extra": {"parameters": parameters}}
