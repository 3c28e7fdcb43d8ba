"""Answers to requests that are broken off because the broker stops.

``management.api.app`` puts it before all routes. The server cancels what still waits a second after
the stop has begun, such as a request whose change cannot be written.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hareline.management.refusals import Refusal

_REASON: Final = "the broker is stopping; look after its next start whether this was done"


class Stopping:
    """Answers 503 to a cancelled request that has no answer yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        has_answer = False

        async def send_on(message: Message) -> None:
            nonlocal has_answer
            has_answer = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except asyncio.CancelledError:
            if has_answer or scope["type"] != "http":
                raise
            await Refusal(503, "stopping", _REASON).answer()(scope, receive, send)
