"""Application on the management port: the table of routes, and what all of them have in common.

``GET /api/health`` needs no login. It answers 503 if only a restart helps, or one is under way. An
alarm is answered with 200, because a broker that is killed for it would have the same messages
afterwards.

Invariant: whatever goes wrong below a route, the client gets a status and JSON that says what.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from hareline import __version__, events
from hareline.administration import AdministrationError
from hareline.auth.peer import Networks
from hareline.errors import AmqpError
from hareline.events import Report
from hareline.management.answers import Refusal, amqp_refusal, answer
from hareline.management.api.site import Health
from hareline.management.bodies import BODY_MAX_BYTES, BodiesInFlight
from hareline.management.change_log import CALLER
from hareline.management.middleware import (
    ForwardedFor,
    PendingRights,
    Protection,
    RawPaths,
    Stopping,
)
from hareline.management.pace import Pace
from hareline.management.routes import Route, document_of

NO_PROXIES: Final = Networks()
_STATUSES: Final = {"bad_request": 400, "conflict": 409, "protected": 412}
_LOOKS: Final = ("GET", "HEAD", "OPTIONS")
_REQUEST_MAX: Final = 1_024


def create_app(
    read_health: Callable[[], Health],
    routes: Sequence[Route] = (),
    proxies: Networks = NO_PROXIES,
    *,
    report: Report | None = None,
    asks_for_rights: bool = False,
) -> Starlette:
    """The application with these routes. ``proxies`` are believed when they name a client.

    ``report``: the log, which has refusals of administrative acts. ``asks_for_rights``: rights may
    have to be asked for (``management.middleware``).
    """

    async def health(_request: Request) -> Response:
        current = read_health()
        return answer(current.model_dump(), 200 if current.status == "ok" else 503)

    async def openapi(_request: Request) -> Response:
        return Response(await document.octets(), media_type="application/json")

    answers = {503: {"model": Health}}
    described = [Route("GET /api/health", health, name="health", gives=Health, answers=answers)]
    described += routes
    document = _Document(described)
    app = Starlette(
        routes=[*described, Route("GET /openapi.json", openapi, name="", is_described=False)],
        middleware=[
            Middleware(ForwardedFor, proxies=proxies),
            Middleware(Protection),
            Middleware(Stopping),
            Middleware(RawPaths),
            *([Middleware(PendingRights)] if asks_for_rights else []),
        ],
        exception_handlers={
            404: _not_found,
            405: _not_allowed,
            Refusal: _refused,
            AmqpError: _amqp_error,
            AdministrationError: _not_administered,
            Exception: _bug,
        },
    )
    app.state.kept = {}
    app.state.report = report
    app.state.pace = Pace()
    app.state.bodies = BodiesInFlight()
    app.state.answers = BodiesInFlight(
        "other answers with messages are too large and not sent yet; try again", BODY_MAX_BYTES
    )
    app.middleware_stack = app.build_middleware_stack()  # the first request would wait for it
    return app


class _Document:
    """The OpenAPI document of an application, made when it is first asked for."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._octets: bytes | None = None

    async def octets(self) -> bytes:
        """The document as JSON; made in a thread, since that takes some hundred ms."""
        if self._octets is None:
            self._octets = await asyncio.to_thread(self._make)
        return self._octets

    def _make(self) -> bytes:
        return json.dumps(document_of(self._routes, "Hareline", __version__)).encode()


async def _not_found(request: Request, _error: Exception) -> Response:
    return Refusal(404, "not_found", f"there is no {request.url.path}").answer()


async def _not_allowed(request: Request, error: Exception) -> Response:
    reason = f"{request.url.path} does not take {request.method}"
    headers = getattr(error, "headers", None)
    return Refusal(405, "method_not_allowed", reason, headers=headers).answer()


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    _audit_refusal(request, error)
    return error.answer()


async def _amqp_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AmqpError)
    refusal = amqp_refusal(error)
    _audit_refusal(request, refusal)
    return refusal.answer()


def _audit_refusal(request: Request, refusal: Refusal) -> None:
    """Log that a user who has logged in was refused an act for want of a right."""
    report, who = request.app.state.report, CALLER.get()
    if report is None or request.method in _LOOKS or refusal.status not in (401, 403):
        return
    if who.user:  # a login that has failed is logged as such
        report(
            events.ADMINISTRATION_REFUSED,
            user=who.user,
            address=who.address,
            request=f"{request.method} {request.url.path}"[:_REQUEST_MAX],
            status=refusal.status,
            reason=refusal.reason,
        )


async def _not_administered(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AdministrationError)
    if error.kind == "not_found":
        return Refusal(404, "Object Not Found", "Not Found").answer()
    name = "precondition_failed" if error.kind == "protected" else error.kind
    return Refusal(_STATUSES[error.kind], name, error.reason).answer()


async def _bug(_request: Request, _error: Exception) -> Response:
    """An exception of ours; the server logs it when this is answered."""
    return Refusal(500, "internal_error", "internal error; the broker's log says more").answer()
