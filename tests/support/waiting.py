"""Waiting for a condition with a deadline: the only way tests spend time.

Used by every test that watches another process or thread. Invariant: a wait returns as soon
as its condition holds, and fails with a sentence that names it when the deadline passes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.01


def wait_for(probe: Callable[[], T | None], deadline_s: float, what: str) -> T:
    """Call ``probe`` until it returns something true, and return that.

    Raises AssertionError naming ``what`` when ``deadline_s`` seconds have passed. The probe is
    called at least once more after the deadline, so a slow machine gets a fair last look.
    """
    end = time.monotonic() + deadline_s
    while True:
        is_late = time.monotonic() >= end
        result = probe()
        if result:
            return result
        if is_late:
            raise AssertionError(f"waited {deadline_s:g} s for {what}")
        time.sleep(POLL_S)


async def until(is_so: Callable[[], object], what: str, deadline_s: float = 60.0) -> None:
    """As ``wait_for``, for a test that is itself in the event loop."""
    for _ in range(int(deadline_s / POLL_S)):
        if is_so():
            return
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"waited {deadline_s:g} s in vain for {what}")
