"""Around all routes: the client behind a proxy, protection of browsers, the stop, rights asked for.

``management.api.app`` puts ``ForwardedFor`` first, before everything that asks who the client is,
then ``Protection``, ``Stopping``, ``RawPaths`` and ``PendingRights``. What a path means is
decided by the path that routes would see, so no rule about paths can be avoided by spelling.

Invariants: a client elsewhere whose proxy sends the header never counts as one of this machine; a
header that a route has set itself stays; a request whose answer has begun is never handled again.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hareline.auth.peer import Networks, address_of, is_loopback
from hareline.auth.permissions import DEFAULT_EXCHANGE_NAME, RightsPending
from hareline.management.answers import Refusal

PREFIX: Final = b"/api/"
_STREAMS: Final = b"/api/stream/"
#: Where a path names an exchange, and the name is empty: it is behind the first group.
_NAMELESS: Final = re.compile(r"^(/api/exchanges/[^/]+/|/api/bindings/[^/]+/e/(?:[^/]+/e/)?)(?=/)")

# ------------------------------------------------------------------------------------------ proxies


HeaderPairs = Iterable[tuple[bytes, bytes]]
ClientAddress = tuple[str, int]

#: The client of a proxy on this machine that is not believed: it may be anywhere.
UNKNOWN: Final[ClientAddress] = ("unknown", 0)
_FOR: Final = b"x-forwarded-for"
_PROTO: Final = b"x-forwarded-proto"


class ForwardedFor:
    """Puts the client that a trusted proxy names, and its scheme, in the place of the proxy."""

    def __init__(self, app: ASGIApp, proxies: Networks) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        peer = scope.get("client")
        if scope["type"] == "http" and peer is not None:
            headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
            scope["client"] = client_of(peer, headers, self._proxies)
            scope["scheme"] = scheme_of(scope["scheme"], peer, headers, self._proxies)
        await self._app(scope, receive, send)


def client_of(peer: ClientAddress, headers: HeaderPairs, proxies: Networks) -> ClientAddress:
    """The address of the client: ``peer``, unless it is a trusted proxy that names another.

    Each proxy adds the address that it was asked from at the end, so the last one that is no proxy
    of ours counts; a client could have written those before it.
    """
    if peer[0] not in proxies:
        is_passed_on = is_loopback(peer[0]) and any(name == _FOR for name, _ in headers)
        return UNKNOWN if is_passed_on else peer
    named = [
        text.strip()
        for name, value in headers
        if name == _FOR
        for text in value.decode("latin-1").split(",")
    ]
    found = peer
    for text in reversed(named):
        host, port = _host_and_port(text)
        if address_of(host) is None:
            break
        if is_loopback(host) and not is_loopback(found[0]):
            break
        found = (host, port)
        if host not in proxies:
            break
    return found


def scheme_of(scheme: str, peer: ClientAddress, headers: HeaderPairs, proxies: Networks) -> str:
    """Return the client's scheme: ``scheme``, unless a trusted proxy at ``peer`` says otherwise.

    Of a client that a proxy names without a scheme nothing is known, so it counts as ``http``.
    """
    if peer[0] in proxies:
        pairs = list(headers)
        if any(name == _FOR for name, _ in pairs):
            scheme = "http"
        for name, value in pairs:
            if name == _PROTO and value in (b"http", b"https"):
                scheme = value.decode()
    return scheme


def _host_and_port(text: str) -> ClientAddress:
    """An address with or without port: ``192.0.2.7``, ``192.0.2.7:4``, ``::1``, ``[::1]:4``."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    return host, int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else 0


# ----------------------------------------------------------------------------------------- browsers


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
    """Return the refusal of a request for the API; None if it comes further."""
    reason = foreign_origin(scope["method"], Headers(scope=scope))
    if reason:
        return Refusal(403, "cross_site", reason)
    if not (scope.get("raw_path") or b"").startswith(PREFIX):
        return Refusal(400, "bad_request", f"the path has to begin with {PREFIX.decode()} as it is")
    return None


def foreign_origin(method: str, headers: Mapping[str, str]) -> str:
    """Return the reason why a request counts as one of another site; empty if it does not.

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
    if is_own_page(origin, headers):
        return ""
    return f"a page of another site has asked for this (Origin: {origin})"


def is_own_page(origin: str, headers: Mapping[str, str]) -> bool:
    """True if the page's origin is the host that the request is for."""
    try:
        host = urlsplit(origin).netloc
    except ValueError:
        return False
    return bool(host) and host == headers.get("host")


# ----------------------------------------------------------------------------------------- the stop


_REASON: Final = "the broker is stopping; look after its next start whether this was done"


class Stopping:
    """Answers 503 to a cancelled request that has no answer yet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        has_answer = False

        async def send_on(message: Message) -> None:
            nonlocal has_answer
            has_answer = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except asyncio.CancelledError:
            if has_answer or scope["type"] != "http":
                raise
            await Refusal(503, "stopping", _REASON).answer()(scope, receive, send)


# ------------------------------------------------------------------------ rights that are asked for


#: More rights than any request needs, but for a list of thousands of virtual hosts.
ROUNDS_MAX: Final = 10_000


class PendingRights:
    """Waits for the rights that a request needs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request, as often as it takes until all rights that it needs are known."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(receive, send)
        for _ in range(ROUNDS_MAX):
            try:
                await self._app(dict(scope), request.receive, request.send)
            except RightsPending as pending:
                if request.has_begun_answer:
                    raise
                await _decided(pending)
                request.start_again()
            else:
                return
        refusal = Refusal(503, "unavailable", "answers about rights are forgotten too quickly")
        await refusal.answer()(scope, receive, send)


class _Request:
    """The parts of a request that came, to be received again, and if its answer has begun."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._received: list[Message] = []
        self._again: deque[Message] = deque()
        self.has_begun_answer = False

    def start_again(self) -> None:
        self._again = deque(self._received)

    async def receive(self) -> Message:
        if self._again:
            return self._again.popleft()
        message = await self._receive()
        if not self.has_begun_answer:
            self._received.append(message)
        return message

    async def send(self, message: Message) -> None:
        self.has_begun_answer = True
        self._received.clear()
        await self._send(message)


async def _decided(pending: RightsPending) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done() -> None:
        if not future.done():
            future.set_result(None)

    pending.when_decided(done)
    await future


# -------------------------------------------------------------------------------------------- paths


class RawPaths:
    """Has paths below ``/api/`` matched as they came, before ``%2F`` becomes a slash.

    The default exchange may have its empty name. A slash at the end of a path means nothing, as in
    RabbitMQ's API, and a HEAD is a GET whose body stays away; not for streams, whose bodies another
    process writes.
    """

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
