"""The HTTP application on the management port: health checks here, other routes are added to it.

``GET /api/health`` needs no login: 200 ``{"status": "ok", "alarms": []}`` while clients are served,
503 with status "stopping" once the listeners are closed. An alarm does not make a broker unhealthy:
restarting it would not help, so the alarms are listed beside the status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from fastapi import FastAPI, Response
from pydantic import BaseModel

from hareline import __version__


class Health(BaseModel):
    """``alarms``: the resources that are short, such as "memory"."""

    status: Literal["ok", "stopping"]
    alarms: list[str]


def create_app(read_health: Callable[[], Health]) -> FastAPI:
    app = FastAPI(title="Hareline", version=__version__, docs_url=None, redoc_url=None)

    @app.get("/api/health", responses={503: {"model": Health}})
    async def health(response: Response) -> Health:
        current = read_health()
        if current.status != "ok":
            response.status_code = 503
        return current

    return app
