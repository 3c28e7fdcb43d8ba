"""What every answer says to browsers, and which requests of other sites are refused.

``management.api.app`` puts it before all routes. A browser that knows a login for this port sends
it with requests that any page asks for. So requests for the API that another site has caused are
refused, unless the reader follows a link; there are no cookies, and no CORS headers, so no page of
another site reads an answer.

What a path means is decided here, once, by the path that routes would see: one that becomes a path
of the API only when it is decoded (``/%61pi/queues``) is refused, so no rule about paths can be
avoided by spelling.

Invariant: a header that a route has set itself, such as the web UI's content policy, stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hareline.management.paths import PREFIX
from hareline.management.refusals import Refusal

SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")

#: For every answer.
HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
#: For answers of the API, which are of this moment and for this user.
API_HEADERS: Final[Mapping[str, str]] = {**HEADERS, "Cache-Control": "no-store"}


class Protection:
    """Refuses requests that another site has caused, and adds headers to all answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_api = scope["path"].encode(errors="surrogateescape").startswith(PREFIX)
        added = API_HEADERS if is_api else HEADERS

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = refusal_of(scope) if is_api else None
        if refusal is not None:
            await refusal.answer()(scope, receive, send_protected)
        else:
            await self._app(scope, receive, send_protected)


def refusal_of(scope: Scope) -> Refusal | None:
    """Why a request for the API comes no further; None if it does."""
    reason = foreign_origin(scope["method"], Headers(scope=scope))
    if reason:
        return Refusal(403, "cross_site", reason)
    if not (scope.get("raw_path") or b"").startswith(PREFIX):
        return Refusal(400, "bad_request", f"the path has to begin with {PREFIX.decode()} as it is")
    return None


def foreign_origin(method: str, headers: Mapping[str, str]) -> str:
    """Why a request counts as one of another site; empty if it does not.

    Browsers say so in Sec-Fetch-Site; older ones name the page's origin when they change something.
    Programs send neither.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        is_link = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if site in ("same-origin", "none") or is_link:
            return ""
        return f"a page of another site has asked for this (Sec-Fetch-Site: {site})"
    origin = headers.get("origin")
    if origin is None or method in SAFE_METHODS:
        return ""
    try:
        host = urlsplit(origin).netloc
    except ValueError:
        host = ""
    if host and host == headers.get("host"):
        return ""
    return f"a page of another site has asked for this (Origin: {origin})"
