"""A body is read up to a limit, and what is wrong with it is said field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from hareline.broker.change_recorder import Doer
from hareline.management.answers import Refusal
from hareline.management.bodies import (
    BODY_MAX_BYTES,
    SPARE_BYTES,
    BodiesInFlight,
    parse_body,
    read_body,
)
from hareline.management.change_log import CALLER


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


@pytest.mark.parametrize("depth", [101, 300, 900])
def test_json_that_is_too_deep_is_refused(depth: int) -> None:
    body = b'{"name": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    with pytest.raises(Refusal, match="more than 100 arrays and objects within one another"):
        parse_body(Wanted, body)


def test_brackets_in_texts_are_no_depth() -> None:
    name = "[{" * 500
    assert parse_body(Wanted, b'{"name": "%b"}' % name.encode()).name == name


async def test_a_client_that_leaves_is_no_bug() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    with pytest.raises(Refusal) as refused:
        await read_body(request)
    assert refused.value.status == 499


def test_large_bodies_of_all_requests_have_a_bound() -> None:
    bodies = BodiesInFlight()
    size = SPARE_BYTES
    with bodies.hold(size) as first, bodies.hold(size) as second, bodies.hold(size) as third:
        first.resize(size)
        second.resize(size - 1)
        third.resize(1)
        with pytest.raises(Refusal) as refused:
            third.resize(2)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        second.resize(0)
        third.resize(size)
    assert bodies.held == 0


@pytest.fixture
def _as_they_were() -> Iterator[None]:
    token = CALLER.set(CALLER.get())
    yield
    CALLER.reset(token)


@pytest.mark.usefixtures("_as_they_were")
def test_one_user_has_half_of_the_room_unless_it_is_for_one_body() -> None:
    answers = BodiesInFlight()
    CALLER.set(Doer("http", "slow"))
    with answers.hold(SPARE_BYTES) as first, answers.hold(SPARE_BYTES) as second:
        first.resize(SPARE_BYTES - 1)
        second.resize(BODY_MAX_BYTES)  # what is small has room
        with pytest.raises(Refusal, match="of yours") as refused:
            second.resize(BODY_MAX_BYTES + 1)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        second.resize(1)
        CALLER.set(Doer("http", "other"))
        with answers.hold(SPARE_BYTES) as third:
            third.resize(SPARE_BYTES)
        CALLER.set(Doer("http", "slow"))
        second.resize(0)
        first.resize(SPARE_BYTES + 7)
        first.resize(5)
        second.resize(SPARE_BYTES - 5)
        assert answers.held_by == {"internal slow": SPARE_BYTES}
        later = second.handed_over()
    assert answers.held_by == {"internal slow": SPARE_BYTES - 5}
    with later:
        assert answers.held == SPARE_BYTES - 5
    assert (answers.held, answers.held_by) == (0, {})


async def test_a_body_that_finds_no_room_is_refused_and_takes_none() -> None:
    bodies = BodiesInFlight()
    with bodies.hold(SPARE_BYTES) as other:
        other.resize(2 * SPARE_BYTES - 5)
        with pytest.raises(Refusal), bodies.hold(SPARE_BYTES) as mine:
            await read_body(request_of(b"abc", b"def"), 100, mine)
    assert bodies.held == 0


def test_small_ones_always_find_room_and_so_does_one_that_is_alone() -> None:
    answers = BodiesInFlight("busy with others", free_bytes=10)
    with answers.hold(SPARE_BYTES) as giant, answers.hold(SPARE_BYTES) as other:
        giant.resize(9 * SPARE_BYTES)
        giant.resize(10 * SPARE_BYTES)
        other.resize(10)
        with pytest.raises(Refusal, match="busy with others"):
            other.resize(11)
        assert answers.held == 10 * SPARE_BYTES
        giant.resize(10)
        other.resize(11)
        assert answers.held == 11
    assert answers.held == 0


def test_what_is_handed_over_is_held_beyond_the_context() -> None:
    answers = BodiesInFlight()
    with answers.hold(SPARE_BYTES) as held:
        held.resize(7)
        later = held.handed_over()
    assert answers.held == 7
    with later:
        later.resize(3)
        assert answers.held == 3
    assert answers.held == 0
