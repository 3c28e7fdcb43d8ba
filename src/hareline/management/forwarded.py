"""The client of a request that a reverse proxy has forwarded, by its header ``X-Forwarded-For``.

``management.api.app`` puts ``ForwardedFor`` before everything that asks who the client is (limits
on logins, users of loopback, the record of changes). Only proxies that ``management.forwarded_by``
names are believed.

Invariant: a client elsewhere whose proxy sends the header never counts as one of this machine,
neither because the header says so nor because that proxy is on this machine and is not named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from hareline.auth.peer import Networks, address_of, is_loopback

Headers = Iterable[tuple[bytes, bytes]]
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


def client_of(peer: ClientAddress, headers: Headers, proxies: Networks) -> ClientAddress:
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


def scheme_of(scheme: str, peer: ClientAddress, headers: Headers, proxies: Networks) -> str:
    """How the client came: ``scheme``, unless ``peer`` is a trusted proxy that says otherwise.

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
