"""Refusals of requests over HTTP: a status, and a body that says what was wrong.

Raised anywhere below a route of ``management``, which alone turns it into an answer. The body is
``{"error": ..., "reason": ...}`` as in RabbitMQ's API: a word for programs and a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from hareline.management.strict_json import encoded


def answer(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """These data as JSON."""
    return Response(encoded(data), status, headers, media_type="application/json")


class Refusal(Exception):
    """``error``: a word in lower case. ``details`` are further fields of the body."""

    def __init__(
        self,
        status: int,
        error: str,
        reason: str,
        *,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})
        self.details = dict(details or {})

    def answer(self) -> Response:
        # a sentence stays one if it quotes octets that are not UTF-8
        reason = self.reason.encode("utf-8", "replace").decode()
        body = {"error": self.error, "reason": reason, **self.details}
        return answer(body, self.status, self.headers)
