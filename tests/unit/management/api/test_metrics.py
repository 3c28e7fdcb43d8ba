"""How a scrape is streamed: what it holds while its client is slow, and when it gives up.

What it says is in tests/unit/metrics and, over HTTP, in tests/server/test_metrics.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hareline.management.answers import Refusal
from hareline.management.api import metrics
from hareline.management.api.metrics import CHUNK_CHARACTERS, Scrapes, _Scrape
from hareline.management.listener import TRANSPORT
from hareline.management.pace import Pace


def pieces(count: int) -> Iterator[str]:
    """Of which two make a chunk, and an empty one behind each."""
    for _ in range(count):
        yield "x" * (CHUNK_CHARACTERS // 2)
        yield ""


async def test_a_client_that_does_not_read_holds_up_no_other() -> None:
    scrapes, pace = Scrapes(), Pace()
    stuck = scrapes.chunks(pieces(10), pace)
    assert len(await anext(stuck)) == CHUNK_CHARACTERS
    text = [chunk async for chunk in scrapes.chunks(pieces(10), pace)]
    assert sum(map(len, text)) == 10 * (CHUNK_CHARACTERS // 2)
    assert scrapes.count == 1
    await stuck.aclose()  # type: ignore[attr-defined] # of an asynchronous generator
    assert scrapes.count == 0


async def test_others_come_between_two_chunks() -> None:
    """A share of its own is no more than one round of the loop."""
    rounds = 0
    is_over = False

    async def count_rounds() -> None:
        nonlocal rounds
        while not is_over:
            rounds += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_rounds())
    chunks = [chunk async for chunk in Scrapes().chunks(pieces(20), Pace())]
    is_over = True
    await counting
    assert rounds >= len(chunks) - 1


class Transport:
    """Remembers whether it was dropped."""

    is_dropped = False

    def abort(self) -> None:
        self.is_dropped = True


async def test_a_client_that_takes_too_long_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SCRAPE_S", 0.01)
    transport = Transport()

    async def text() -> AsyncIterator[str]:
        yield "x"

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("the client says nothing more")

    async def send(message: object) -> None:
        await asyncio.Event().wait()

    scope: dict[str, Any] = {"type": "http", "state": {TRANSPORT: transport}}
    await _Scrape(text())(scope, receive, send)
    assert transport.is_dropped


async def test_more_than_a_few_at_a_time_are_refused() -> None:
    settings = SimpleNamespace(metrics=SimpleNamespace(authentication=False))
    site = SimpleNamespace(metrics=object(), settings=lambda: settings)
    scrapes = Scrapes()
    scrapes.count = metrics.SCRAPES_MAX
    call: Any = SimpleNamespace(site=site, kept=lambda _: scrapes)
    with pytest.raises(Refusal) as refused:
        await metrics.scrape(call, lambda _: iter(()))
    assert refused.value.status == 503
