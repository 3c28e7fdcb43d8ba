"""``GET /api/hareline/changes``: what changed lately and who did it, the newest first.

A user sees the changes of what it could list. Who made a change, and from which address, is told as
connections are: of the user's own changes, and of all with monitoring.

Invariant: the filter looks only at what the user is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from hareline.management.answers import Refusal, answer
from hareline.management.api.call import Call, Caller, Routes, Tag
from hareline.management.change_log import KEPT_MAX, Change
from hareline.management.routes import integer, parameter

routes = Routes("hareline")

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
    """The author. ``via``: amqp, http, settings (a file that was read), or broker (by itself).

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


@routes(
    "GET /api/hareline/changes",
    gives=ChangesInfo,
    parameters=[
        parameter("limit", integer(1, LIMIT_MAX, LIMIT), "How many changes at most."),
        parameter(
            "before",
            {"type": "integer", "minimum": 1},
            "Only changes that are older than the one of this number.",
        ),
        parameter(
            "filter",
            "string",
            "Only changes whose event, details, user or address, as far as they are "
            "shown, contain this.",
        ),
    ],
)
async def changes(call: Call) -> Response:
    """List the latest changes: queues, exchanges, bindings, policies, users, alarms, settings."""
    who, log = call.who, call.site.changes
    wanted = call.query.get("filter", "").lower()
    limit = call.number("limit", LIMIT, 1, LIMIT_MAX)
    before = call.number("before", _NUMBER_MAX, 1, _NUMBER_MAX)
    found: list[Change] = []
    if log is None:
        raise Refusal(503, "not_available", "the broker keeps no changes yet")
    async with call.pace.share() as share:
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
    return answer(
        {
            "items": [_described(who, each) for each in found],
            "before": found[-1].number if has_more else None,
            "since_ms": log.since_ms,
            "kept_max": KEPT_MAX,
        }
    )


def _described(who: Caller, change: Change) -> dict[str, Any]:
    user, address = _shown_doer(who, change)
    return {
        "number": change.number,
        "at_ms": change.at_ms,
        "event": change.event,
        "details": dict(change.details),
        "by": {"via": change.by.via, "user": user or None, "address": address or None},
    }


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
