"""A request that needs a right which has to be asked for is handled again when that is decided.

``management.api.app`` puts it before the routes. Checks of rights are plain calls, which raise
RightsPending where another authority decides (``auth.permissions``); they stand before anything is
changed and before an answer begins. What was read of the request's body is given to the route once
more.

Invariant: a request whose answer has begun is never handled again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hareline.auth.permissions import RightsPending
from hareline.management.refusals import Refusal

#: More rights than any request needs, but for a list of thousands of virtual hosts.
ROUNDS_MAX: Final = 10_000


class PendingRights:
    """Waits for the rights that a request needs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request, as often as it takes until all rights that it needs are known."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(receive, send)
        for _ in range(ROUNDS_MAX):
            try:
                await self._app(dict(scope), request.receive, request.send)
            except RightsPending as pending:
                if request.has_begun_answer:
                    raise
                await _decided(pending)
                request.start_again()
            else:
                return
        refusal = Refusal(503, "unavailable", "answers about rights are forgotten too quickly")
        await refusal.answer()(scope, receive, send)


class _Request:
    """What came of a request, to be received again, and whether its answer has begun."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._received: list[Message] = []
        self._again: deque[Message] = deque()
        self.has_begun_answer = False

    def start_again(self) -> None:
        self._again = deque(self._received)

    async def receive(self) -> Message:
        if self._again:
            return self._again.popleft()
        message = await self._receive()
        if not self.has_begun_answer:
            self._received.append(message)
        return message

    async def send(self, message: Message) -> None:
        self.has_begun_answer = True
        self._received.clear()
        await self._send(message)


async def _decided(pending: RightsPending) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done() -> None:
        if not future.done():
            future.set_result(None)

    pending.when_decided(done)
    await future
