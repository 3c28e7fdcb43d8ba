"""``/api/stream/{vhost}/{queue}/readers``: how far readers of a stream say they have come.

Readers outside of the broker, as those of Spark, keep their own offsets; they report them here, for
operators who watch the lag, and to keep what they have not read yet (a pin). Any user may who may
read the stream. ``broker.stream_readers`` has the positions; docs/stream-readers.md is the page.

Invariant: a report about an earlier queue of the same name changes nothing.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from hareline.broker.stream_queue import Stream
from hareline.broker.vhost import VirtualHost
from hareline.errors import PreconditionFailed
from hareline.management.bodies import parse_body, read_body
from hareline.management.paths import name_in_path
from hareline.management.refusals import Refusal, json_answer
from hareline.management.routes import Route
from hareline.management.stream_access import StreamAccess
from hareline.queues.policies.reader_positions import ReaderPosition
from hareline.queues.queue import Queue

_PATH: Final = "/api/stream/{vhost}/{queue}/readers"
_NAME_MAX_OCTETS: Final = 255
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
        return json_answer(
            200, [_shown(vhost, stream, *each) for each in sorted(positions.items())]
        )

    async def reader(self, request: Request) -> Response:
        """One reader of a stream."""
        vhost, stream = await self._stream(request)
        name = _reader_name(request)
        position = vhost.readers.positions(stream.queue).get(name)
        if position is None:
            raise _no_reader(name, stream.queue)
        return json_answer(200, _shown(vhost, stream, name, position))

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
        return json_answer(200, _shown(vhost, stream, name, position))

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
    if len(name.encode("utf-8", "surrogateescape")) > _NAME_MAX_OCTETS:
        reason = f"the reader's name is longer than {_NAME_MAX_OCTETS} octets"
        raise Refusal(400, "bad_request", reason)
    return name


def _no_reader(name: str, queue: Queue) -> Refusal:
    return Refusal(404, "not_found", f"no reader '{name}' of queue '{queue.name}'")
