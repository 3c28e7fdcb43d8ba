"""The state of the broker for health checks: ``GET /api/health`` and ``management.api.health``.

``hareline.server.http_side`` reads it of the alarms and the store. Invariant: ``status`` is "ok"
unless only a restart helps or one is under way.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


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
