"""Threads for logins: password hashes, questions to a directory, and SCRAM keys of the settings.

Both running and waiting tasks are bounded, since one argon2id hash takes some 20 ms and 19 MiB.
Origins (addresses) are served in turn, so a wave from one address does not hold up the others. The
line is only touched on the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from hareline import events
from hareline.auth.backends import Workers
from hareline.auth.users import UserRegistry
from hareline.events import Report

T = TypeVar("T")

#: Hashes that are computed at once.
THREADS: Final = max(1, min(4, (os.cpu_count() or 1) - 1))
#: Logins that may wait, in all and of one origin; the deadline of the handshake is theirs too.
WAITING_MAX: Final = 2_000
WAITING_OF_ORIGIN_MAX: Final = 500


class _Task(NamedTuple):
    since_s: float
    work: Callable[[], Any]
    done: Callable[[Any], None]
    is_wanted: Callable[[], bool]


class LoginWorkers(Workers):
    """Needs a running event loop when something is submitted.

    ``wait_max_s``: how long anything may wait, called each time. By then the client of a login is
    gone, and computing its hash would only make the next ones wait as long. ``what``: for the log.
    """

    def __init__(
        self,
        report: Report,
        wait_max_s: Callable[[], float],
        threads: int = THREADS,
        what: str = "a password hash",
    ) -> None:
        self._report = report
        self._wait_max_s = wait_max_s
        self._threads_max = threads
        self._what = what
        self._waiting: OrderedDict[str, deque[_Task]] = OrderedDict()  # the next origin first
        self._waiting_count = 0
        self._running_count = 0
        self._threads: ThreadPoolExecutor | None = None
        self._is_stopped = False

    def submit(
        self,
        origin: str,
        work: Callable[[], T],
        done: Callable[[T | None], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        line = self._waiting.get(origin)
        is_full = self._waiting_count >= WAITING_MAX or (
            line is not None and len(line) >= WAITING_OF_ORIGIN_MAX
        )
        if is_full or self._is_stopped:
            return False
        if line is None:
            line = self._waiting[origin] = deque()
        line.append(_Task(asyncio.get_running_loop().time(), work, done, is_wanted))
        self._waiting_count += 1
        self._start_waiting()
        return True

    def stop(self) -> None:
        """Compute no more; what waits is never answered."""
        self._is_stopped = True
        self._waiting.clear()
        self._waiting_count = 0
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _start_waiting(self) -> None:
        """Start what waits, one of each origin after the other, while there are threads."""
        loop = asyncio.get_running_loop()
        oldest_s = loop.time() - self._wait_max_s()
        while self._waiting_count and self._running_count < self._threads_max:
            origin, line = self._waiting.popitem(last=False)
            task = line.popleft()
            if line:
                self._waiting[origin] = line
            self._waiting_count -= 1
            if task.since_s < oldest_s or not task.is_wanted():
                loop.call_soon(task.done, None)
                continue
            self._running_count += 1
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._threads_max, "login")
            future = loop.run_in_executor(self._threads, task.work)
            future.add_done_callback(partial(self._finish, task))

    def _finish(self, task: _Task, future: asyncio.Future[Any]) -> None:
        self._running_count -= 1
        if self._is_stopped or future.cancelled():
            return
        self._start_waiting()
        error = future.exception()
        if error is not None:
            self._report(events.BROKER_FAILED, where=self._what, exc_info=error)
        task.done(None if error is not None else future.result())


# --------------------------------------------------------------------------------------- SCRAM keys


class KeyMaker:
    """Needs a running event loop from ``start`` to ``stop``."""

    def __init__(self, users: UserRegistry) -> None:
        self._users = users
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Derive the keys that are missing; a derivation that runs takes in what was added."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._derive_all())

    def stop(self) -> None:
        """Derive no more keys."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _derive_all(self) -> None:
        loop = asyncio.get_running_loop()
        while (keys := self._users.next_underived()) is not None:
            await loop.run_in_executor(None, keys.derive)
