"""Answers over HTTP: JSON of any value, 201, 204, and refusals with RabbitMQ's statuses and texts.

A ``Refusal`` may be raised anywhere below a route. What comes out is UTF-8 that a strict reader
takes, whatever octets a client has put into a name, an argument or a header. What OpenAPI says of
all answers is here too: problems, and pages of lists.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from hareline.errors import AccessRefused, AmqpError, NotAllowed, NotFound
from hareline.management.routes import parameter
from hareline.octets import readable, readable_octets, with_texts

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500

Item = TypeVar("Item", bound=BaseModel)


def encoded(data: object) -> bytes:
    """These data as JSON. Octets, times and numbers that JSON does not have are translated.

    Text that is not UTF-8 has RabbitMQ's form (``octets.readable``).
    """
    try:
        return orjson.dumps(data, _plain)
    except TypeError:  # text with octets that are not UTF-8, or a number beyond 64 bits
        plain = _finite(with_texts(data, readable))
        return json.dumps(plain, default=_plain, separators=(",", ":")).encode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return readable_octets(bytes(value))
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
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value


def answer(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(data), status, headers, media_type="application/json")


class Refusal(Exception):
    """``error``: a word in lower case. ``details`` are further fields of the body."""

    def __init__(
        self,
        status: int,
        error: str,
        reason: str,
        *,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})
        self.details = dict(details or {})

    def answer(self) -> Response:
        # a sentence stays one if it quotes octets that are not UTF-8
        reason = self.reason.encode("utf-8", "replace").decode()
        body = {"error": self.error, "reason": reason, **self.details}
        return answer(body, self.status, self.headers)


class Problem(BaseModel):
    """The body of every refusal: ``error`` is a word for programs, ``reason`` a sentence."""

    error: str
    reason: str


class Page(BaseModel, Generic[Item]):
    """The answer with ``page``: some of the items, and how many there are."""

    items: list[Item]
    page: int
    page_count: int
    page_size: int
    item_count: int
    filtered_count: int
    total_count: int


#: What every route may refuse.
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Problem, "description": "The request is not valid"},
    401: {"model": Problem, "description": "No valid login, or the user may not do this"},
    404: {"model": Problem, "description": "No such object"},
    429: {"model": Problem, "description": "Too many logins have failed; see Retry-After"},
}

#: Arguments of a route that ends with ``listing``.
LIST_PARAMETERS: Final = (
    parameter("page", "integer", "Which page, from 1. Without it all items come as an array."),
    parameter("page_size", "integer", f"Items of a page, up to {PAGE_SIZE_MAX}."),
    parameter("name", "string", "Only items whose name contains this, in any case."),
    parameter("use_regex", "boolean", "Whether `name` is a regular expression."),
    parameter("sort", "string", "Column to sort by; of nested ones with dots between."),
    parameter("sort_reverse", "boolean", "Whether the order is reversed."),
    parameter("columns", "string", "Columns to answer with, separated by commas."),
    parameter("disable_stats", "boolean", "Whether rates and statistics are left out."),
)


def created(location: str | None = None) -> Response:
    """201; ``location``: the path of what was made, relative to the request's."""
    return Response(status_code=201, headers={"Location": location} if location else None)


def no_content() -> Response:
    return Response(status_code=204)


def not_found(reason: str = "Not Found") -> Refusal:
    """The refusal for an object that is not there."""
    error = "Object Not Found" if reason == "Not Found" else "not_found"
    return Refusal(404, error, reason)


def bad_request(reason: str) -> Refusal:
    return Refusal(400, "bad_request", reason)


def amqp_refusal(error: AmqpError) -> Refusal:
    """Return the refusal that RabbitMQ's API makes of an error of the broker.

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
