"""A body is read up to a limit, and what is wrong with it is said field by field."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Request
from pydantic import BaseModel, ConfigDict

from hareline.management.bodies import BODY_MAX_BYTES, parse_body, read_body
from hareline.management.refusals import Refusal


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    count: int = 0


def request_of(*pieces: bytes) -> Request:
    """A request whose body comes in these pieces."""
    waiting = list(pieces)

    async def receive() -> dict[str, Any]:
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    return Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)


async def test_a_body_comes_in_pieces_up_to_the_limit() -> None:
    assert await read_body(request_of(b"ab", b"c" * (BODY_MAX_BYTES - 2))) == b"ab" + b"c" * (
        BODY_MAX_BYTES - 2
    )
    with pytest.raises(Refusal) as refused:
        await read_body(request_of(b"ab", b"c" * (BODY_MAX_BYTES - 1)))
    assert (refused.value.status, refused.value.reason) == (400, "body: longer than 65536 octets")


def test_a_body_becomes_the_model() -> None:
    assert parse_body(Wanted, b'{"name": "a", "count": 2}') == Wanted(name="a", count=2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "body: not JSON"),
        (b"[" * 60_000, "body: not JSON"),
        (b"[]", "body: not a JSON object"),
        (b"{}", "name: Field required"),
        (b'{"name": 1, "more": 2}', "name: Input should be a valid string; more: Extra inputs"),
        (b'{"name": "a", "count": true}', "count: Input should be a valid integer"),
    ],
)
def test_what_is_wrong_is_named(body: bytes, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_body(Wanted, body)
    assert (refused.value.status, refused.value.error) == (400, "bad_request")
    assert refused.value.reason.startswith(reason)
