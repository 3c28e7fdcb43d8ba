"""Answers of the API: JSON, 201, 204, and refusals with RabbitMQ's statuses and texts.

Every route of ``management.api`` answers with what is here. A route raises a ``Refusal`` or lets
an AmqpError pass; ``management.app`` turns both into answers, so that no route has an ``except``
for them.

Invariant: what goes out is valid JSON, whatever octets a client has put into a name or an argument.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from fastapi.responses import Response
from pydantic import BaseModel

from hareline.errors import AccessRefused, AmqpError, NotAllowed, NotFound
from hareline.management.refusals import Refusal
from hareline.octets import text_or_base64

__all__ = [
    "PROBLEMS",
    "Problem",
    "Refusal",
    "amqp_refusal",
    "answer",
    "created",
    "encoded",
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


def encoded(data: object) -> bytes:
    """These data as JSON. Octets, times and numbers that JSON does not have are translated."""
    try:
        return orjson.dumps(data, _plain)
    except TypeError:  # text with octets that are not UTF-8, or a number beyond 64 bits
        text = json.dumps(_finite(data), default=_plain, separators=(",", ":"))
        return text.encode("ascii")


def _plain(value: object) -> object:
    """What stands in JSON for a value of a field table that JSON does not have."""
    if isinstance(value, bytes | bytearray | memoryview):
        return text_or_base64(bytes(value))[0]
    if isinstance(value, float):
        return float(value)  # of a class of our own
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def _finite(value: object) -> object:
    """The value with null for every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
