"""AMQP over WebSocket at ``/ws/amqp``: which requests become connections, and what others are told.

``management.listener`` asks ``accepts`` of each request for an upgrade, and hands over those that
may. All others go on to the route here, which says what is wrong with them. The frames of WebSocket
and AMQP itself are ``net.websocket``'s.

Pages of other sites are refused unless the settings name them: a page could otherwise use a
broker on its reader's machine, where the password of ``guest`` is known to everybody.

Invariant: a request is upgraded only if ``refusal`` has nothing against it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from hareline.auth.peer import Networks
from hareline.management.middleware import client_of, scheme_of
from hareline.management.refusals import Refusal
from hareline.management.routes import Route

PATH: Final = "/ws/amqp"
SUBPROTOCOL: Final = "amqp"
EVERY_ORIGIN: Final = "*"
VERSION: Final = "13"  # of RFC 6455
KEY_OCTETS: Final = 16
UNKNOWN: Final = ("", 0)  # the peer was gone before it could be asked for

SocketAddress = tuple[str, int]


class UpgradeRequest(NamedTuple):
    """A request that becomes a connection: as it came, and the addresses of both ends.

    ``is_tls``: whether the client came by TLS, to the broker or to a proxy that says so.
    ``is_forwarded``: a proxy that is believed has sent it.
    """

    transport: asyncio.Transport
    headers: Sequence[tuple[bytes, bytes]]
    target: bytes
    client: SocketAddress
    local: SocketAddress
    is_tls: bool
    is_forwarded: bool = False


class WebSocketDoor:
    """``answer`` answers an upgrade and takes its transport; ``is_open``: whether clients can come.

    ``origins`` are those of pages that may connect, ``proxies`` are believed when they name a
    client.
    """

    def __init__(
        self,
        answer: Callable[[UpgradeRequest], None],
        is_open: Callable[[], bool],
        origins: Callable[[], Sequence[str]],
        proxies: Networks,
    ) -> None:
        self._answer = answer
        self._is_open = is_open
        self._origins = origins
        self._proxies = proxies

    def upgrade(self, transport: asyncio.Transport, scope: Scope, target: bytes) -> None:
        """Make a connection of the request of this scope, which ``accepts`` has found good."""
        headers = scope["headers"]
        peer, local = scope["client"] or UNKNOWN, scope["server"] or UNKNOWN
        client = client_of(peer, headers, self._proxies)
        is_tls = scheme_of(scope["scheme"], peer, headers, self._proxies) == "https"
        is_forwarded = peer[0] in self._proxies and client != peer
        self._answer(
            UpgradeRequest(transport, headers, target, client, local, is_tls, is_forwarded)
        )

    def accepts(self, scope: Scope) -> bool:
        """True if the request of this scope is to become a connection."""
        is_here = scope["method"] == "GET" and scope["path"] == PATH
        return is_here and self.refusal(Headers(scope=scope)) is None

    def refusal(self, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request for ``PATH`` does not become a connection; None if it does."""
        if headers.get("upgrade", "").lower() != "websocket":
            reason = f"this is for WebSocket, with the sub-protocol '{SUBPROTOCOL}'"
            return Refusal(426, "upgrade_required", reason, headers={"Upgrade": "websocket"})
        if headers.get("sec-websocket-version") != VERSION:
            reason = f"Sec-WebSocket-Version has to be {VERSION}"
            answer = {"Upgrade": "websocket", "Sec-WebSocket-Version": VERSION}
            return Refusal(426, "upgrade_required", reason, headers=answer)
        if not _is_key(headers.get("sec-websocket-key", "")):
            reason = f"Sec-WebSocket-Key has to be the base64 of {KEY_OCTETS} octets"
            return Refusal(400, "bad_request", reason)
        offered = headers.get("sec-websocket-protocol")
        if offered is not None and SUBPROTOCOL not in [each.strip() for each in offered.split(",")]:
            reason = f"the sub-protocol here is '{SUBPROTOCOL}', and the client knows '{offered}'"
            return Refusal(400, "bad_request", reason)
        foreign = self._foreign_origin(headers)
        if foreign:
            return Refusal(403, "cross_site", foreign)
        if not self._is_open():
            return Refusal(503, "unavailable", "the broker takes no connections now")
        return None

    def route(self) -> Route:
        """The route of requests that do not become connections."""

        async def not_upgraded(request: Request) -> Response:
            refusal = self.refusal(request.headers)
            raise refusal or Refusal(400, "bad_request", "this is not a valid upgrade to WebSocket")

        return Route(f"GET {PATH}", not_upgraded, name="not_upgraded", is_described=False)

    def _foreign_origin(self, headers: Mapping[str, str]) -> str:
        """Why the page that connects may not; empty if it may, or a program connects."""
        origin = headers.get("origin")
        if origin is None:
            return ""
        allowed = self._origins()
        if EVERY_ORIGIN in allowed or origin.lower() in [each.lower() for each in allowed]:
            return ""
        try:
            host = urlsplit(origin).netloc
        except ValueError:
            host = ""
        if host and host == headers.get("host"):
            return ""
        return f"websocket.origins does not name the page's origin: {origin}"


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_OCTETS
    except (binascii.Error, ValueError):
        return False
