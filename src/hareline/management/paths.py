"""Paths of requests: matched as they came, so that names may hold a slash as ``%2F``.

``management.api.app`` puts ``RawPaths`` before all routes; routes decode the names in their path
with ``name_in_path``. The default exchange may have its empty name. A slash at the end of a path
means nothing, as in RabbitMQ's API, and a HEAD is a GET whose body stays away; not for streams,
whose bodies another process writes.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from hareline.auth.permissions import DEFAULT_EXCHANGE_NAME
from hareline.octets import readable, restored

PREFIX: Final = b"/api/"
_STREAMS: Final = b"/api/stream/"
#: Where a path names an exchange, and the name is empty: it is behind the first group.
_NAMELESS: Final = re.compile(r"^(/api/exchanges/[^/]+/|/api/bindings/[^/]+/e/(?:[^/]+/e/)?)(?=/)")


class RawPaths:
    """Has paths below ``/api/`` matched as they came, before ``%2F`` becomes a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        raw_path: bytes = scope.get("raw_path") or b""
        if raw_path.startswith(PREFIX):
            path = raw_path.decode("latin-1").rstrip("/")
            scope["path"] = _NAMELESS.sub(rf"\1{DEFAULT_EXCHANGE_NAME}", path)
            if scope.get("method") == "HEAD" and not raw_path.startswith(_STREAMS):
                scope = {**scope, "method": "GET"}  # the server still knows that it is a HEAD
        await self._app(scope, receive, send)


def name_in_path(encoded: str) -> str:
    """The name of a virtual host, queue ...; octets that are not UTF-8 are surrogates.

    The name of such an object may also be given as answers show it.
    """
    given = unquote(encoded, errors="surrogateescape")
    name = restored(given)
    return name if readable(name) == given else given


def exchange_name(written: str) -> str:
    """The name of an exchange that users write; ``amq.default`` is the default exchange."""
    return "" if written == DEFAULT_EXCHANGE_NAME else written


def path_of_name(name: str) -> str:
    """The name as a segment of a path, such as ``%2F``; the inverse of ``name_in_path``."""
    return quote(name, safe="", errors="surrogateescape")
