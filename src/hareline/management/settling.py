"""Waiting until changes are durable, on the event loop.

Used by requests of ``management.api``, and by the start of a broker, which imports definitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hareline.administration.changes import Changes
from hareline.errors import StoreError

WhenSettled = Callable[[Callable[[StoreError | None], None]], bool]


async def settled(when_settled: WhenSettled) -> None:
    """Return when what was changed is durable. Raises StoreError if it is lost."""
    error = await _outcome(when_settled)
    if error is not None:
        raise error


async def idle(changes: Changes) -> None:
    """Return when no change is under way, so that the next can begin."""
    while changes.is_pending:
        await _outcome(changes.when_settled)


async def _outcome(when_settled: WhenSettled) -> StoreError | None:
    outcome: list[StoreError | None] = []
    is_settled = asyncio.Event()

    def on_settled(error: StoreError | None) -> None:
        outcome.append(error)
        is_settled.set()

    if not when_settled(on_settled):
        return None
    await is_settled.wait()
    return outcome[0]
