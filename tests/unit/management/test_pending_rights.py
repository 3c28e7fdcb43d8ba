"""A request is handled again, with all of its body, when a right that it needs is decided."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from hareline.auth.permissions import RightsPending
from hareline.management import middleware
from hareline.management.middleware import PendingRights


class App:
    """Needs ``rights`` answers before it sends the body of the request back."""

    def __init__(self, rights: int) -> None:
        self.rights = rights
        self.runs = 0
        self.begins_early = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.runs += 1
        if self.begins_early:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        body = await Request(scope, receive).body()
        if self.rights:
            raise RightsPending(self._when_decided)
        await PlainTextResponse(body)(scope, receive, send)

    def _when_decided(self, callback: Callable[[], None]) -> None:
        def decide() -> None:
            self.rights -= 1
            callback()

        asyncio.get_running_loop().call_soon(decide)


async def ask(app: App, body: bytes = b"body") -> httpx.Response:
    transport = httpx.ASGITransport(PendingRights(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return await client.post("/", content=body)


@pytest.mark.parametrize("rights", [0, 1, 3])
async def test_a_request_is_handled_until_its_rights_are_known(rights: int) -> None:
    app = App(rights)
    answer = await ask(app, b"x" * 100_000)
    assert answer.content == b"x" * 100_000
    assert app.runs == rights + 1


async def test_an_answer_that_has_begun_is_not_begun_again() -> None:
    app = App(1)
    app.begins_early = True
    with pytest.raises(RightsPending):
        await ask(app)
    assert app.runs == 1


async def test_rights_that_are_never_known_long_enough_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(middleware, "ROUNDS_MAX", 3)
    app = App(100)
    answer = await ask(app)
    assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
    assert app.runs == 3


async def test_a_body_in_pieces_comes_again_in_order() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"a", b"b", b"c"):
            yield piece

    app = App(2)
    transport = httpx.ASGITransport(PendingRights(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.post("/", content=pieces())
    assert answer.text == "abc"
