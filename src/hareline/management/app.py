"""The HTTP application on the management port: health checks, and a place for other routes.

``GET /api/health`` needs no login. It answers 503 if only a restart helps, or one is under way:
the store has failed, the broker is stopping. An alarm is answered with 200, because a broker that
is killed for it would have the same messages afterwards. docs/http-api.md describes all routes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import BaseModel

from hareline import __version__
from hareline.management.refusals import Refusal
from hareline.management.stream_access import RawStreamPaths


class Health(BaseModel):
    """The answer to a health check.

    ``alarms``: the resources that are short; each of them blocks connections that publish.
    ``store``: whether persistent messages are stored. ``reason``: what is wrong, as text.
    """

    status: Literal["ok", "failed", "stopping"]
    alarms: list[str] = []
    publishers_blocked: bool = False
    store: Literal["ok", "refusing", "failed"] = "ok"
    reason: str = ""


def create_app(read_health: Callable[[], Health], routers: Sequence[APIRouter] = ()) -> FastAPI:
    app = FastAPI(title="Hareline", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/api/health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        current = read_health()
        if current.status != "ok":
            response.status_code = 503
        return current

    for router in routers:
        app.include_router(router)
    app.add_middleware(RawStreamPaths)
    app.add_exception_handler(404, _not_found)
    app.add_exception_handler(405, _not_allowed)
    return app


async def _not_found(request: Request, _error: Exception) -> Response:
    return Refusal(404, "not_found", f"there is no {request.url.path}").answer()


async def _not_allowed(request: Request, error: Exception) -> Response:
    reason = f"{request.url.path} does not take {request.method}"
    headers = getattr(error, "headers", None)
    return Refusal(405, "method_not_allowed", reason, headers=headers).answer()
