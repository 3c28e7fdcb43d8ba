"""``GET /api/stream/...``: streams for bulk readers: which there are, where they end, ranges.

Any user of the broker may ask, for queues that AMQP would let them read. docs/streams-over-http.md
is the page; ``management.stream_access`` has the logins.

Invariant: a request is refused before the first octet of an answer, or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hareline.broker.stream_queue import Stream, stream_of
from hareline.management.listener import TRANSPORT
from hareline.management.range_answers import (
    JournalRead,
    RangeResponse,
    Span,
    disconnected,
    memory_chunks,
)
from hareline.management.reader_process import ReaderProcess
from hareline.management.refusals import Refusal, json_answer
from hareline.management.relay import Relay, speaks_tls
from hareline.management.routes import Route, parameter
from hareline.management.stream_access import StreamAccess, find_stream
from hareline.storage.store.pinned import PinnedPlaces
from hareline.wire.stream_chunks import CONTENT_TYPE

WAIT_MS_MAX: Final = 30_000
RANGE_BYTES: Final = 64 << 20  # of an answer, unless the request says otherwise
CHUNK_BYTES: Final = 4 << 20
CHUNK_BYTES_MIN: Final = 256 << 10
#: What all answers may have in the memory of the reader process.
CHUNKS_BYTES: Final = 64 << 20
STOP_S: Final = 0.5  # for answers that are under way to come to the end of a chunk
_NUMBER_MAX: Final = (1 << 63) - 1
#: After a batch without the end of a large transaction; doubled for those that wait for more.
_PAUSE_S: Final = 0.005
_PAUSE_MAX_S: Final = 0.1
_QUEUES_PER_SHARE: Final = 1_000


class Query:
    """The arguments of a request. Raises Refusal for one that is not in ``names``, or is twice."""

    def __init__(self, request: Request, names: Sequence[str]) -> None:
        self._values: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in names:
                known = ", ".join(names) or "none"
                raise _bad(f"there is no argument '{name}'; known are: {known}")
            if name in self._values:
                raise _bad(f"{name}: given twice")
            self._values[name] = value

    def text(self, name: str) -> str | None:
        """The value as it came; None if there is none."""
        return self._values.get(name)

    def number(self, name: str, default: int | None = None, maximum: int = _NUMBER_MAX) -> int:
        """A natural number. Raises Refusal if there is none and no default."""
        value = self._values.get(name)
        if value is None:
            if default is None:
                raise _bad(f"{name}: missing")
            return default
        if not (value.isascii() and value.isdigit()) or len(value) > 20:
            raise _bad(f"{name}: '{value}' is not a natural number")
        number = int(value)
        if number > maximum:
            raise _bad(f"{name}: {number} is above {maximum}")
        return number


class StreamService:
    """``places``: where records are in the journal; None: nothing is kept on disk."""

    def __init__(
        self,
        access: StreamAccess,
        places: PinnedPlaces | None,
        reader: ReaderProcess | None,
    ) -> None:
        """``reader``: there if ``places`` is."""
        self._access = access
        self._places = places
        self._reader = reader
        self._is_stopping = False
        self._polls: set[asyncio.Event] = set()

    def routes(self) -> list[Route]:
        """The routes."""
        of_queue = "/api/stream/{vhost}/{queue}"
        return [
            Route(
                f"GET {path}",
                self._access.answering(endpoint),
                name=endpoint.__name__,
                text=endpoint.__doc__,
                parameters=[
                    parameter(
                        each,
                        "string" if each == "incarnation" else "integer",
                        required=each in ("start", "end", "timestamp_ms"),
                    )
                    for each in arguments
                ],
            )
            for path, endpoint, arguments in (
                ("/api/stream/{vhost}", self.streams, ()),
                (f"{of_queue}/tail", self.tail, ("after", "wait_ms")),
                (f"{of_queue}/offset-for-timestamp", self.offset, ("timestamp_ms",)),
                (f"{of_queue}/range", self.range, ("start", "end", "max_bytes", "incarnation")),
            )
        ]

    async def stop(self) -> None:
        """End long polls and reads, and the reader process; the broker stops."""
        self._is_stopping = True
        for moved in self._polls:
            moved.set()
        if self._reader is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reader.is_idle.wait(), STOP_S)
            await self._reader.stop()

    # --------------------------------------------------------------------------- routes

    async def streams(self, request: Request) -> Response:
        """The streams of a virtual host that the user may read."""
        Query(request, ())
        vhost, access = await self._access.vhost(request)
        found = []
        for number, queue in enumerate(list(vhost.queues.values()), 1):
            if not number % _QUEUES_PER_SHARE:
                await asyncio.sleep(0)
            stream = stream_of(queue)
            if stream is None or queue.is_deleted:
                continue
            if access.may("read", "queue", queue.name):
                found.append({"queue": queue.name, **_ends(stream)})
        return json_answer(200, found)

    async def tail(self, request: Request) -> Response:
        """Where a stream begins and ends; with ``after`` and ``wait_ms`` once it has grown."""
        query = Query(request, ("after", "wait_ms"))
        after = query.number("after", -1)
        wait_ms = query.number("wait_ms", 0, WAIT_MS_MAX)
        if wait_ms and after < 0:
            raise _bad("wait_ms: needs after, the offset to wait for")
        vhost, access = await self._access.vhost(request)
        stream = find_stream(vhost, access, request)
        if wait_ms and after >= stream.next:
            await self._wait(request, stream, after, wait_ms / 1000)
            vhost, access = await self._access.vhost(request)  # a right may be gone by now
            stream = find_stream(vhost, access, request)  # and it may be another stream
        ends = _ends(stream)
        arrival_ms = stream.first_arrival_ms if ends["first"] < ends["next"] else None
        return json_answer(
            200, {"queue": stream.queue.name, **ends, "first_timestamp_ms": arrival_ms}
        )

    async def offset(self, request: Request) -> Response:
        """The offset of the first message that arrived at a time or later."""
        timestamp_ms = Query(request, ("timestamp_ms",)).number("timestamp_ms")
        vhost, access = await self._access.vhost(request)
        stream = find_stream(vhost, access, request)
        offset = stream.offset_since(timestamp_ms)
        return json_answer(200, {"offset": offset, "incarnation": stream.incarnation})

    async def range(self, request: Request) -> Response:
        """The messages from offset ``start`` to before ``end``, in chunks."""
        query = Query(request, ("start", "end", "incarnation", "max_bytes"))
        start, end = query.number("start"), query.number("end")
        if end < start:
            raise _bad(f"end: {end} is below start, {start}")
        max_bytes = query.number("max_bytes", RANGE_BYTES)
        if not max_bytes:
            raise _bad("max_bytes: must be at least 1")
        vhost, access = await self._access.vhost(request)
        stream = find_stream(vhost, access, request)
        _check_range(stream, start, end, query.text("incarnation"))
        if start == end:
            return Response(media_type=CONTENT_TYPE)
        span = Span(stream, start, end, max_bytes, lambda: self._is_stopping)
        if not stream.is_journaled or self._places is None or self._reader is None:
            return StreamingResponse(memory_chunks(span), media_type=CONTENT_TYPE)
        if request.scope["http_version"] != "1.1":
            raise _bad("a range is sent in chunks of HTTP/1.1; ask with that version")
        return await self._range_response(request, span, self._places, self._reader)

    async def _range_response(
        self, request: Request, span: Span, places: PinnedPlaces, reader: ReaderProcess
    ) -> Response:
        transport: asyncio.Transport = request.scope["state"][TRANSPORT]
        relay = Relay(transport) if speaks_tls(transport) else None
        client = transport.get_extra_info("socket") if relay is None else relay.far
        try:
            answer = await reader.begin(client.fileno())
        except OSError as error:
            if relay is not None:
                relay.close()
            reason = f"the process that reads ranges cannot be started: {error.strerror}"
            raise Refusal(503, "unavailable", reason) from None
        read = JournalRead(span, places, answer, self._limit_bytes)
        return RangeResponse(read, transport, relay)

    def _limit_bytes(self) -> int:
        """Octets of one chunk: less when there are many answers."""
        assert self._reader is not None, "a read from the journal"
        share = CHUNKS_BYTES // max(self._reader.answers, 1)
        return min(max(share, CHUNK_BYTES_MIN), CHUNK_BYTES)

    # ----------------------------------------------------------------------------- below

    async def _wait(self, request: Request, stream: Stream, after: int, wait_s: float) -> None:
        """Wait until the stream has grown beyond ``after``, or for so long, or not at all."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + wait_s
        gone = asyncio.create_task(disconnected(request.receive))
        pause_s = _PAUSE_S
        try:
            while not (self._is_stopping or stream.queue.is_deleted or gone.done()):
                left_s = due_s - loop.time()
                if stream.next > after or left_s <= 0:
                    return
                if await self._has_moved(stream, gone, left_s) and stream.next <= after:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        finally:
            gone.cancel()
            await asyncio.wait((gone,))

    async def _has_moved(self, stream: Stream, gone: asyncio.Task[None], left_s: float) -> bool:
        """Wait until the end may have moved; True if it was the disk that was waited for."""
        waits_for_disk = stream.waits_for_disk
        moved = asyncio.Event()
        self._polls.add(moved)
        cancel = stream.when_moved(moved.set)
        waiting = asyncio.create_task(moved.wait())
        try:
            await asyncio.wait((waiting, gone), timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancel()
            self._polls.discard(moved)
            waiting.cancel()
        return waits_for_disk


def _ends(stream: Stream) -> dict[str, Any]:
    return {
        "incarnation": stream.incarnation,
        "first": stream.first,
        "next": stream.next,
        "bytes": stream.size_bytes,
    }


def _check_range(stream: Stream, start: int, end: int, incarnation: str | None) -> None:
    """Raises Refusal unless all of the range is there."""
    if incarnation is not None and incarnation != stream.incarnation:
        raise Refusal(
            409,
            "incarnation_changed",
            f"queue '{stream.queue.name}' was declared again: it is {stream.incarnation} now",
            details={"incarnation": stream.incarnation},
        )
    first, following = stream.first, stream.next
    if end > following:
        raise Refusal(
            416,
            "beyond_tail",
            f"end: {end} is beyond the end of the stream, {following}",
            details={"next": following},
        )
    if start < min(first, end):
        raise Refusal(
            410,
            "truncated",
            f"start: {start} is gone, the stream begins at {first}",
            details={"first": first},
        )


def _bad(reason: str) -> Refusal:
    return Refusal(400, "bad_request", reason)
