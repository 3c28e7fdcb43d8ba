"""Long answers are made in shares of the loop's time, one share for all of them at a time.

``management.api.app`` makes one ``Pace`` for all requests. Whatever loops over something that
clients can make large does so within ``async with pace.share() as share`` and calls
``await share.pause()`` for each item; that costs one look at the clock until the share is used up.

Invariant: however many requests there are, they take one share of a round of the event loop
together, so messages wait for one share at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from time import perf_counter
from types import TracebackType
from typing import Final, Self, TypeVar

from starlette.requests import Request

SHARE_S: Final = 0.005

T = TypeVar("T")


class Pace:
    """Hands out shares, in the order in which requests ask for them."""

    __slots__ = ("_lock", "_share_s")

    def __init__(self, share_s: float = SHARE_S) -> None:
        self._lock = asyncio.Lock()
        self._share_s = share_s

    def share(self) -> Share:
        """A share for one answer; see the module."""
        return Share(self._lock, self._share_s)

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Return the result of the steps, taken one by one in shares."""
        async with self.share() as share:
            return await share.take(steps)


class Share:
    """The time of one answer; an asynchronous context."""

    __slots__ = ("_due_s", "_lock", "_owns_lock", "_share_s")

    def __init__(self, lock: asyncio.Lock, share_s: float) -> None:
        self._lock = lock
        self._share_s = share_s
        self._owns_lock = False
        self._due_s = 0.0

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    async def pause(self) -> None:
        """Return at once while there is time left; otherwise after everything else had its turn."""
        if perf_counter() >= self._due_s:
            self._end()
            await asyncio.sleep(0)
            await self._begin()

    async def take(self, steps: Generator[None, None, T]) -> T:
        """Return the result of the steps, with a ``pause`` after each."""
        try:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    found: T = end.value
                    await self.pause()
                    return found
                await self.pause()
        finally:
            steps.close()

    async def wait_for(self, work: Awaitable[T]) -> T:
        """Await work done elsewhere; other answers may use the time of this one meanwhile."""
        self._end()
        try:
            return await work
        finally:
            await self._begin()

    @property
    def is_used_up(self) -> bool:
        """True if ``pause`` would let others have their turn."""
        return perf_counter() >= self._due_s

    def leave(self) -> None:
        """Give the rest of the share away, until ``come_back``."""
        self._end()

    async def come_back(self) -> None:
        """Go on with a new share."""
        await self._begin()

    async def _begin(self) -> None:
        await self._lock.acquire()
        self._owns_lock = True
        self._due_s = perf_counter() + self._share_s

    def _end(self) -> None:
        if self._owns_lock:  # not if it was cancelled while it waited
            self._owns_lock = False
            self._lock.release()


def pace_of(request: Request) -> Pace:
    """The pace of the application that handles this request."""
    pace = request.app.state.pace
    assert isinstance(pace, Pace)
    return pace
