"""Answers of the API: JSON, 201, 204, and refusals with RabbitMQ's statuses and texts.

Every route of ``management.api`` answers with what is here. A route raises a ``Refusal`` or lets an
AmqpError pass; ``management.api.app`` turns both into answers, so that no route has an ``except``
for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fastapi.responses import Response
from pydantic import BaseModel

from hareline.errors import AccessRefused, AmqpError, NotAllowed, NotFound
from hareline.management.refusals import Refusal
from hareline.management.strict_json import encoded

__all__ = [
    "PROBLEMS",
    "Problem",
    "Refusal",
    "amqp_refusal",
    "answer",
    "created",
    "instant",
    "no_content",
    "not_found",
]


class Problem(BaseModel):
    """The body of every refusal: ``error`` is a word for programs, ``reason`` a sentence."""

    error: str
    reason: str


#: For ``responses=`` of a route: what each of them may refuse.
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Problem, "description": "The request is not valid"},
    401: {"model": Problem, "description": "No valid login, or the user may not do this"},
    404: {"model": Problem, "description": "No such object"},
    429: {"model": Problem, "description": "Too many logins have failed; see Retry-After"},
}


def answer(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """These data as JSON."""
    return Response(encoded(data), status, headers, media_type="application/json")


def created(location: str | None = None) -> Response:
    """201 without a body; ``location``: the path of what was made, relative to the request's."""
    return Response(status_code=201, headers={"Location": location} if location else None)


def no_content() -> Response:
    """204: done, and nothing more to say."""
    return Response(status_code=204)


def not_found(reason: str = "Not Found") -> Refusal:
    """The refusal for an object that is not there."""
    error = "Object Not Found" if reason == "Not Found" else "not_found"
    return Refusal(404, error, reason)


def amqp_refusal(error: AmqpError) -> Refusal:
    """What RabbitMQ's API makes of an error of the broker.

    401 where a right is missing, 404 for what is not there, otherwise 400 with code and text.
    """
    if isinstance(error, AccessRefused | NotAllowed):
        return Refusal(401, "not_authorised", error.reply_text)
    if isinstance(error, NotFound):
        return Refusal(404, "not_found", error.reply_text)
    return Refusal(400, "bad_request", f"{error.reply_code} {error.reply_text}")


def instant(epoch_ms: int) -> str:
    """A time as RabbitMQ writes it: ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
