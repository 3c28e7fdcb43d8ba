"""The HTTP application on the management port: what all routes have in common.

``hareline.server.http_side`` gives it the routers. It has the health check for containers, finds
paths as they came (``management.paths``), makes answers of errors, and describes all routes;
requests of other sites come no further than ``management.protection``.

``GET /api/health`` needs no login. It answers 503 if only a restart helps, or one is under way:
the store has failed, the broker is stopping. An alarm is answered with 200, because a broker that
is killed for it would have the same messages afterwards. docs/http-api.md describes all routes.

Invariant: whatever goes wrong below a route, the client gets a status and JSON that says what.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from hareline import __version__, events
from hareline.administration import AdministrationError
from hareline.auth.peer import Networks
from hareline.errors import AmqpError
from hareline.events import Report
from hareline.management.api.administering import refusal_of
from hareline.management.api.answers import amqp_refusal
from hareline.management.api.openapi import description_of
from hareline.management.bodies import BODY_MAX_BYTES, BodiesInFlight
from hareline.management.change_log import CALLER
from hareline.management.forwarded import ForwardedFor
from hareline.management.health import Health
from hareline.management.pace import Pace
from hareline.management.paths import RawPaths
from hareline.management.pending_rights import PendingRights
from hareline.management.protection import Protection
from hareline.management.refusals import Refusal
from hareline.management.stopping import Stopping

NO_PROXIES: Final = Networks()
_LOOKS: Final = ("GET", "HEAD", "OPTIONS")
_REQUEST_MAX: Final = 1_024


def create_app(
    read_health: Callable[[], Health],
    routers: Sequence[APIRouter] = (),
    proxies: Networks = NO_PROXIES,
    *,
    report: Report | None = None,
    asks_for_rights: bool = False,
) -> FastAPI:
    """The application with these routers. ``proxies`` are believed when they name a client.

    ``report``: the log, which has refusals of administrative acts. ``asks_for_rights``: rights may
    have to be asked for (``management.pending_rights``).
    """
    app = FastAPI(
        title="Hareline", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.report = report
    app.state.pace = Pace()
    app.state.bodies = BodiesInFlight()
    app.state.answers = BodiesInFlight(
        "other answers with messages are too large and not sent yet; try again", BODY_MAX_BYTES
    )

    @app.get("/api/health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        current = read_health()
        if current.status != "ok":
            response.status_code = 503
        return current

    description = _Description(app)
    app.openapi = description  # type: ignore[method-assign]

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(await description.octets(), media_type="application/json")

    for router in routers:
        # not include_router: FastAPI would build all of them again, while the first request waits
        app.router.routes.extend(router.routes)
    if asks_for_rights:
        app.add_middleware(PendingRights)
    app.add_middleware(RawPaths)
    app.add_middleware(Stopping)
    app.add_middleware(Protection)
    app.add_middleware(ForwardedFor, proxies=proxies)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _not_allowed)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(AmqpError, _amqp_error)
    app.add_exception_handler(AdministrationError, _not_administered)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _bug)
    app.middleware_stack = app.build_middleware_stack()  # the first request would wait for it
    return app


class _Description:
    """The OpenAPI document of an application, made when it is first asked for."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._document: dict[str, Any] | None = None
        self._octets: bytes | None = None

    def __call__(self) -> dict[str, Any]:
        if self._document is None:
            self._document = description_of(self._app)
        return self._document

    async def octets(self) -> bytes:
        """The document as JSON; made in a thread, since that takes some hundred ms."""
        if self._octets is None:
            self._octets = await asyncio.to_thread(lambda: json.dumps(self()).encode())
        return self._octets


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
    return refusal_of(error).answer()


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()]
    return Refusal(400, "bad_request", "; ".join(problems)).answer()


async def _bug(_request: Request, _error: Exception) -> Response:
    """An exception of ours; the server logs it when this is answered."""
    return Refusal(500, "internal_error", "internal error; the broker's log says more").answer()
