"""``/api/stream/{vhost}/{queue}/readers``: how far readers of a stream say they have come.

Readers outside of the broker, as those of Spark, keep their own offsets; they report them here, for
operators who watch the lag, and to keep what they have not read yet (a pin). Any user may who may
read the stream. ``broker.stream_readers`` has the positions; docs/stream-readers.md is the page.

Invariant: a report about an earlier queue of the same name changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import unquote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import Match
from starlette.types import Scope

from hareline.auth.permissions import AccessChecker
from hareline.broker.queues.policies.reader_positions import ReaderPosition
from hareline.broker.queues.queue import Queue
from hareline.broker.vhost import VirtualHost
from hareline.errors import AmqpError, PreconditionFailed
from hareline.management.authentication import Authenticator
from hareline.management.bodies import parse_body, read_body
from hareline.management.refusals import Refusal, json_answer

_PATH: Final = "/api/stream/{vhost}/{queue}/readers"
_NAME_MAX_OCTETS: Final = 255
_OFFSET_MAX: Final = (1 << 63) - 1
_MS_PER_S: Final = 1000

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ReaderReport(BaseModel):
    """The body of a report; what each field means is in docs/stream-readers.md."""

    model_config = ConfigDict(extra="forbid", strict=True)

    offset: int = Field(ge=0, le=_OFFSET_MAX)
    incarnation: str | None = None
    pin: bool = False


class EncodedPathRoute(APIRoute):
    """A route that is matched before percent signs are decoded: a name may have slashes."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the path as it came on the wire is this route's."""
        raw_path: bytes = scope.get("raw_path") or b""
        return super().matches({**scope, "path": raw_path.decode("latin-1")})


class ReaderService:
    """The routes of all virtual hosts."""

    def __init__(self, authenticator: Authenticator, vhosts: Mapping[str, VirtualHost]) -> None:
        self._authenticator = authenticator
        self._vhosts = vhosts

    def router(self) -> APIRouter:
        """The routes."""
        router = APIRouter(route_class=EncodedPathRoute)
        schema = {"application/json": {"schema": ReaderReport.model_json_schema()}}
        of_reader = f"{_PATH}/{{reader}}"
        for path, method, endpoint in (
            (_PATH, "GET", self.readers),
            (of_reader, "GET", self.reader),
            (of_reader, "PUT", self.put),
            (of_reader, "DELETE", self.delete),
        ):
            router.add_api_route(
                path,
                _answering_refusals(endpoint),
                methods=[method],
                name=f"{method.lower()}_{path.rpartition('/')[2].strip('{}')}",
                description=endpoint.__doc__,
                response_model=None,
                openapi_extra={"requestBody": {"content": schema}} if method == "PUT" else None,
            )
        return router

    # --------------------------------------------------------------------------- routes

    async def readers(self, request: Request) -> Response:
        """All readers of a stream, by name."""
        vhost, queue = await self._stream(request)
        positions = vhost.readers.positions(queue)
        return json_answer(200, [_shown(vhost, queue, *each) for each in sorted(positions.items())])

    async def reader(self, request: Request) -> Response:
        """One reader of a stream."""
        vhost, queue = await self._stream(request)
        name = _reader_name(request)
        position = vhost.readers.positions(queue).get(name)
        if position is None:
            raise _no_reader(name, queue)
        return json_answer(200, _shown(vhost, queue, name, position))

    async def put(self, request: Request) -> Response:
        """Report how far a reader of a stream has come."""
        vhost, queue = await self._stream(request)
        name = _reader_name(request)
        report = parse_body(ReaderReport, await read_body(request))
        if queue.is_deleted:  # while the body came
            raise _no_queue(queue.name, vhost)
        _check(report, queue)
        vhost.environment.clock.refresh()
        try:
            position = vhost.readers.put(queue, name, report.offset, is_pinned=report.pin)
        except PreconditionFailed as error:
            raise Refusal(409, "too_many_readers", error.explanation) from None
        return json_answer(200, _shown(vhost, queue, name, position))

    async def delete(self, request: Request) -> Response:
        """Forget a reader of a stream."""
        vhost, queue = await self._stream(request)
        name = _reader_name(request)
        if not vhost.readers.remove(queue, name):
            raise _no_reader(name, queue)
        return Response(status_code=204)

    # ----------------------------------------------------------------------------- below

    async def _stream(self, request: Request) -> tuple[VirtualHost, Queue]:
        """The stream in the path, which the user may read. Raises Refusal."""
        user = await self._authenticator.user(request)
        vhost_name = _in_path(request, "vhost")
        vhost = self._vhosts.get(vhost_name)
        if vhost is None:
            raise Refusal(404, "not_found", f"no vhost '{vhost_name}'")
        name = _in_path(request, "queue")
        try:
            AccessChecker(user, vhost_name).require("read", "queue", name)
        except AmqpError as error:
            raise Refusal(403, "access_refused", error.explanation) from None
        queue = vhost.queues.get(name)
        if queue is None:
            raise _no_queue(name, vhost)
        if vhost.queue_arguments[name].queue_type != "stream":
            raise Refusal(
                409,
                "not_a_stream",
                f"queue '{name}' in vhost '{vhost_name}' is not a stream, so nothing reads it by "
                "offsets: declare it with x-queue-type = stream, or archive it to a stream with "
                "x-archive-to",
            )
        vhost.environment.clock.refresh()
        return vhost, queue


def _answering_refusals(endpoint: Handler) -> Handler:
    """The endpoint, whose refusals become answers."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Refusal as refusal:
            return refusal.answer()

    return answer


def _check(report: ReaderReport, queue: Queue) -> None:
    """Raise Refusal for a position that this stream does not have."""
    if report.incarnation is not None and report.incarnation != queue.incarnation:
        raise Refusal(
            409,
            "incarnation_changed",
            f"queue '{queue.name}' was declared again: it is {queue.incarnation} now",
            details={"incarnation": queue.incarnation},
        )
    if report.offset > queue.next_offset:
        raise Refusal(
            416,
            "beyond_tail",
            f"offset: {report.offset} is beyond the end of the stream, {queue.next_offset}",
            details={"next": queue.next_offset},
        )


def _shown(
    vhost: VirtualHost, queue: Queue, name: str, position: ReaderPosition
) -> dict[str, object]:
    age_ms = vhost.environment.clock.now_ms - position.put_ms
    return {
        "name": name,
        "offset": position.offset,
        "lag": max(0, queue.next_offset - position.offset),
        "age_s": max(0, age_ms) / _MS_PER_S,
        "pin": vhost.readers.is_pinned(queue, position),
    }


def _in_path(request: Request, part: str) -> str:
    """A name in the path; octets that are not UTF-8 are surrogates, as in the broker."""
    encoded: str = request.path_params[part]
    return unquote(encoded, errors="surrogateescape")


def _reader_name(request: Request) -> str:
    name = _in_path(request, "reader")
    if len(name.encode("utf-8", "surrogateescape")) > _NAME_MAX_OCTETS:
        reason = f"the reader's name is longer than {_NAME_MAX_OCTETS} octets"
        raise Refusal(400, "bad_request", reason)
    return name


def _no_queue(name: str, vhost: VirtualHost) -> Refusal:
    return Refusal(404, "not_found", f"no queue '{name}' in vhost '{vhost.name}'")


def _no_reader(name: str, queue: Queue) -> Refusal:
    return Refusal(404, "not_found", f"no reader '{name}' of queue '{queue.name}'")
