"""``GET /metrics`` and its kin: what Prometheus asks for, streamed in pieces.

The text is made by ``metrics.rendering``; here it is taken a share of the loop's time at a time. As
in RabbitMQ no login is needed, unless ``metrics.authentication`` asks for a user with the tag
monitoring. The same routes are on the management port and, where ``metrics.listener`` opens one, on
a port of their own. docs/metrics.md is the page.

Invariant: a scrape holds no lock while it waits for its client, and ends after ``SCRAPE_S``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hareline.management.answers import (
    PROBLEMS,
    Refusal,
    bad_request,
)
from hareline.management.api.call import Call, Routes
from hareline.management.listener import TRANSPORT
from hareline.management.pace import Pace
from hareline.management.routes import parameter
from hareline.metrics.exposition import CONTENT_TYPE
from hareline.metrics.rendering import Rendering
from hareline.metrics.table import CLUSTER_GROUPS, EMPTY_GROUPS, GROUPS

routes = Routes("metrics")

CHUNK_CHARACTERS: Final = 65_536
#: Scrapes at a time; each has what it shows in memory until its client has taken it.
SCRAPES_MAX: Final = 8
SCRAPE_S: Final = 60.0


class Scrapes:
    """The scrapes that are under way."""

    def __init__(self) -> None:
        self.count = 0

    async def chunks(self, pieces: Iterator[str], pace: Pace) -> AsyncIterator[str]:
        """The text, in chunks of some size; each is made in shares of the loop's time."""
        self.count += 1
        try:
            is_over = False
            while not is_over:
                is_over, chunk = await _next_chunk(pieces, pace)
                yield chunk
                await asyncio.sleep(0)  # the next share is one of another round of the loop
        finally:
            self.count -= 1


async def _next_chunk(pieces: Iterator[str], pace: Pace) -> tuple[bool, str]:
    """Return True if the text is over, and its next chunk."""
    gathered: list[str] = []
    size = 0
    async with pace.share() as share:
        for piece in pieces:
            gathered.append(piece)
            size += len(piece)
            if size >= CHUNK_CHARACTERS:
                return False, "".join(gathered)
            await share.pause()
    return True, "".join(gathered)


class _Scrape(StreamingResponse):
    """An answer that drops its client when it does not take it in time."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(SCRAPE_S):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            scope["state"][TRANSPORT].abort()
            await asyncio.sleep(0)  # until uvicorn knows, which would otherwise log an error


Render = Callable[[Rendering], Iterator[str]]


_KNOWN: Final = (*GROUPS, *CLUSTER_GROUPS)
_PARAMETERS: Final = [
    parameter(
        "family",
        {"type": "array", "items": {"type": "string"}},
        f"A group of metrics, once for each: {', '.join(_KNOWN)}.",
    ),
    parameter(
        "vhost",
        {"type": "array", "items": {"type": "string"}},
        "Only queues and exchanges of this virtual host; may be given more often.",
    ),
]
_SAID: Final[dict[str, Any]] = {
    "is_open": True,
    "media_type": "",
    "answers": {
        200: {"content": {"text/plain": {}}, "description": "Metrics in Prometheus' text format"},
        503: {**PROBLEMS[400], "description": "Too many scrapes at a time"},
    },
}


@routes("GET /metrics", **_SAID)
async def aggregated(call: Call) -> Response:
    """Sums over all objects, and what is measured of the broker."""
    return await scrape(call, Rendering.aggregated)


@routes("GET /metrics/per-object", **_SAID)
async def per_object(call: Call) -> Response:
    """Each queue, channel and connection on its own."""
    return await scrape(call, Rendering.per_object)


@routes("GET /metrics/memory-breakdown", **_SAID)
async def memory_breakdown(call: Call) -> Response:
    """Tell the uses of the process's memory."""
    return await scrape(call, Rendering.memory_breakdown)


@routes("GET /metrics/detailed", parameters=_PARAMETERS, **_SAID)
async def detailed(call: Call) -> Response:
    """The groups that are asked for, each object on its own."""
    groups = frozenset(call.query.getlist("family"))
    vhosts = frozenset(call.query.getlist("vhost"))
    _check(groups, call)
    return await scrape(call, lambda rendering: rendering.detailed(groups, vhosts))


async def scrape(call: Call, render: Render) -> Response:
    """The text that ``render`` makes. Raises Refusal: no login, or too many at a time."""
    site, scrapes = call.site, call.kept(Scrapes)
    assert site.metrics is not None
    if site.settings().metrics.authentication:
        await call.check("monitoring")
    if scrapes.count >= SCRAPES_MAX:
        reason = f"{SCRAPES_MAX} scrapes are under way; ask again later"
        raise Refusal(503, "service_unavailable", reason, headers={"Retry-After": "5"})
    chunks = scrapes.chunks(render(Rendering(site.metrics)), call.pace)
    return _Scrape(chunks, media_type=CONTENT_TYPE)


def _check(groups: frozenset[str], call: Call) -> None:
    """Raise Refusal for an unknown group or argument."""
    for name in call.query:
        if name not in ("family", "vhost"):
            reason = f"there is no argument '{name}'; known are: family, vhost"
            raise bad_request(reason)
    for group in sorted(groups):
        if group not in _KNOWN and group not in EMPTY_GROUPS:
            reason = f"family: there is no '{group}'; known are: {', '.join(_KNOWN)}"
            raise bad_request(reason)
