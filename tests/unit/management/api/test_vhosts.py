"""Virtual hosts as JSON: what is in them is summed up in shares; the rest is asked over HTTP."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hareline.management.api.vhosts import _depths
from hareline.management.pace import Pace


async def test_messages_are_summed_up_while_others_have_their_turn() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def vhost(name: str, count: int) -> Any:
        queue = SimpleNamespace(ready_count=3, unacked_count=2)
        return SimpleNamespace(name=name, queues=dict.fromkeys(range(count), queue))

    working = asyncio.create_task(others())
    depths = await _depths(Pace(share_s=0), [vhost("a", 50), vhost("b", 0)])
    working.cancel()
    assert depths == {"a": (150, 100), "b": (0, 0)}
    assert turns >= 50
