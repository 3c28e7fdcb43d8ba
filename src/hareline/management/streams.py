"""``/api/stream/...``: streams for bulk readers: which there are, where they end, ranges, readers.

Any user of the broker may ask, for queues that AMQP would let them read. Readers outside of the
broker, as those of Spark, report here how far they have come, for operators who watch the lag, and
to keep what they have not read yet (a pin).

Invariants: a user finds no stream that AMQP would not let it read; a request is refused before the
first octet of an answer, or not at all; a report about an earlier queue of the same name changes
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hareline.auth.permissions import AccessChecker
from hareline.auth.users import UserRegistry
from hareline.broker.stream_queue import Stream, stream_of
from hareline.broker.vhost import VirtualHost
from hareline.errors import AmqpError, PreconditionFailed
from hareline.management.answers import Refusal, answer
from hareline.management.authentication import Authenticator
from hareline.management.bodies import parse_body, read_body
from hareline.management.listener import TRANSPORT
from hareline.management.range_answers import (
    JournalRead,
    RangeResponse,
    ReaderProcess,
    Relay,
    Span,
    disconnected,
    memory_chunks,
    speaks_tls,
)
from hareline.management.routes import Route, name_in_path, parameter
from hareline.queues.policies.reader_positions import ReaderPosition
from hareline.queues.queue import Queue
from hareline.storage.store.pinned import PinnedPlaces
from hareline.wire.constants import SHORTSTR_MAX_OCTETS
from hareline.wire.stream_chunks import BROKER_HEADER, CONTENT_TYPE

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


class StreamAccess:
    """Finds virtual hosts and streams for the user of a request."""

    def __init__(
        self,
        authenticator: Authenticator,
        users: UserRegistry,
        vhosts: Mapping[str, VirtualHost],
        broker_id: str,
    ) -> None:
        """``broker_id``: goes with each answer."""
        self._authenticator = authenticator
        self._users = users
        self._vhosts = vhosts
        self._broker_id = broker_id

    async def vhost(self, request: Request) -> tuple[VirtualHost, AccessChecker]:
        """The virtual host in the path, which the user may enter. Raises Refusal."""
        user = await self._authenticator.user(request)
        name = name_in_path(request.path_params["vhost"])
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise Refusal(404, "not_found", f"no vhost '{name}'")
        try:
            host = "" if request.client is None else request.client.host
            return vhost, self._users.checker(user, name, host)
        except AmqpError as error:
            raise Refusal(403, "access_refused", error.explanation) from None

    async def stream(self, request: Request) -> tuple[VirtualHost, Stream]:
        """The stream in the path, which the user may read. Raises Refusal."""
        vhost, access = await self.vhost(request)
        return vhost, find_stream(vhost, access, request)

    def answering(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, whose refusals become answers; each answer says which broker gives it."""

        async def answered(request: Request) -> Response:
            try:
                response = await endpoint(request)
            except Refusal as refusal:
                response = refusal.answer()
            response.headers[BROKER_HEADER] = self._broker_id
            return response

        return answered


def find_stream(vhost: VirtualHost, access: AccessChecker, request: Request) -> Stream:
    """The stream in the path, which the user may read. Raises Refusal."""
    name = name_in_path(request.path_params["queue"])
    try:
        access.require("read", "queue", name)
    except AmqpError as error:
        raise Refusal(403, "access_refused", error.explanation) from None
    queue = vhost.queues.get(name)
    if queue is None:
        raise Refusal(404, "not_found", f"no queue '{name}' in vhost '{vhost.name}'")
    stream = stream_of(queue)
    if stream is None:
        raise Refusal(
            409,
            "not_a_stream",
            f"queue '{name}' in vhost '{vhost.name}' is not a stream, so it cannot be read again: "
            "declare it with x-queue-type = stream, or archive it to one with x-archive-to",
        )
    return stream


# ---------------------------------------------------------------------------------- ends and ranges


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
        return answer(found)

    async def tail(self, request: Request) -> Response:
        """Tell where a stream begins and ends; with ``after`` and ``wait_ms`` once it has grown."""
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
        return answer({"queue": stream.queue.name, **ends, "first_timestamp_ms": arrival_ms})

    async def offset(self, request: Request) -> Response:
        """The offset of the first message that arrived at a time or later."""
        timestamp_ms = Query(request, ("timestamp_ms",)).number("timestamp_ms")
        vhost, access = await self._access.vhost(request)
        stream = find_stream(vhost, access, request)
        offset = stream.offset_since(timestamp_ms)
        return answer({"offset": offset, "incarnation": stream.incarnation})

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


# ------------------------------------------------------------------------------------------ readers


_PATH: Final = "/api/stream/{vhost}/{queue}/readers"
_OFFSET_MAX: Final = (1 << 63) - 1
_MS_PER_S: Final = 1000


class ReaderReport(BaseModel):
    """The body of a report; what each field means is in docs/stream-readers.md."""

    model_config = ConfigDict(extra="forbid", strict=True)

    offset: int = Field(ge=0, le=_OFFSET_MAX)
    incarnation: str | None = None
    pin: bool = False


class ReaderService:
    """The routes of all virtual hosts."""

    def __init__(self, access: StreamAccess) -> None:
        self._access = access

    def routes(self) -> list[Route]:
        """The routes."""
        of_reader = f"{_PATH}/{{reader}}"
        return [
            Route(
                f"{method} {path}",
                self._access.answering(endpoint),
                name=f"{method.lower()}_{path.rpartition('/')[2].strip('{}')}",
                text=endpoint.__doc__,
                body=ReaderReport if method == "PUT" else None,
            )
            for path, method, endpoint in (
                (_PATH, "GET", self.readers),
                (of_reader, "GET", self.reader),
                (of_reader, "PUT", self.put),
                (of_reader, "DELETE", self.delete),
            )
        ]

    async def _stream(self, request: Request) -> tuple[VirtualHost, Stream]:
        vhost, stream = await self._access.stream(request)
        vhost.environment.clock.refresh()
        return vhost, stream

    # --------------------------------------------------------------------------- routes

    async def readers(self, request: Request) -> Response:
        """All readers of a stream, by name."""
        vhost, stream = await self._stream(request)
        positions = vhost.readers.positions(stream.queue)
        return answer([_shown(vhost, stream, *each) for each in sorted(positions.items())])

    async def reader(self, request: Request) -> Response:
        """One reader of a stream."""
        vhost, stream = await self._stream(request)
        name = _reader_name(request)
        position = vhost.readers.positions(stream.queue).get(name)
        if position is None:
            raise _no_reader(name, stream.queue)
        return answer(_shown(vhost, stream, name, position))

    async def put(self, request: Request) -> Response:
        """Report how far a reader of a stream has come."""
        await self._stream(request)
        octets = await read_body(request)
        vhost, stream = await self._stream(request)  # it, or the right, may be gone meanwhile
        name = _reader_name(request)
        report = parse_body(ReaderReport, octets)
        queue = stream.queue
        _check(report, stream)
        vhost.environment.clock.refresh()
        try:
            position = vhost.readers.put(queue, name, report.offset, is_pinned=report.pin)
        except PreconditionFailed as error:
            raise Refusal(409, "too_many_readers", error.explanation) from None
        return answer(_shown(vhost, stream, name, position))

    async def delete(self, request: Request) -> Response:
        """Forget a reader of a stream."""
        vhost, stream = await self._stream(request)
        name = _reader_name(request)
        if not vhost.readers.remove(stream.queue, name):
            raise _no_reader(name, stream.queue)
        return Response(status_code=204)


def _check(report: ReaderReport, stream: Stream) -> None:
    """Raise Refusal for a position that this stream does not have."""
    if report.incarnation is not None and report.incarnation != stream.incarnation:
        raise Refusal(
            409,
            "incarnation_changed",
            f"queue '{stream.queue.name}' was declared again: it is {stream.incarnation} now",
            details={"incarnation": stream.incarnation},
        )
    end = stream.next
    if report.offset > end:
        raise Refusal(
            416,
            "beyond_tail",
            f"offset: {report.offset} is beyond the end of the stream, {end}",
            details={"next": end},
        )


def _shown(
    vhost: VirtualHost, stream: Stream, name: str, position: ReaderPosition
) -> dict[str, object]:
    age_ms = vhost.environment.clock.now_ms - position.put_ms
    return {
        "name": name,
        "offset": position.offset,
        "lag": max(0, stream.next - position.offset),
        "age_s": max(0, age_ms) / _MS_PER_S,
        "pin": vhost.readers.is_pinned(stream.queue, position),
    }


def _reader_name(request: Request) -> str:
    name = name_in_path(request.path_params["reader"])
    if len(name.encode("utf-8", "surrogateescape")) > SHORTSTR_MAX_OCTETS:
        reason = f"the reader's name is longer than {SHORTSTR_MAX_OCTETS} octets"
        raise Refusal(400, "bad_request", reason)
    return name


def _no_reader(name: str, queue: Queue) -> Refusal:
    return Refusal(404, "not_found", f"no reader '{name}' of queue '{queue.name}'")
