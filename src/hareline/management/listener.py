"""HTTP ports inside the broker's event loop, on sockets that ``server`` has bound, by uvicorn.

A front before its protocol may learn from a proxy who the client is. A connection whose user has
not logged in ends if the body of a request takes long, or some time after its client has stopped
taking an answer; any ends if the head of a request does.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

import anyio
import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol

from hareline.auth.peer import Networks
from hareline.management.answers import Refusal
from hareline.management.middleware import client_of, is_own_page, scheme_of
from hareline.management.routes import Route


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without signal handlers: the broker decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


#: Where a request has its transport: ``request.scope["state"][TRANSPORT]``.
TRANSPORT: Final = "transport"
#: True there once the request's user has logged in: such a one may read and send slowly, as a job
#: that works on what it reads does.
HAS_USER: Final = "has_user"


SocketAddress = tuple[str, int]


class Ends(NamedTuple):
    """As a proxy names them: the client's address, the one it came to, and whether by TLS."""

    client: SocketAddress
    local: SocketAddress
    is_tls: bool


#: The first protocol of a connection, given what makes that of HTTP; None: the socket's own ends.
Front = Callable[[Callable[[Ends | None], asyncio.BaseProtocol]], asyncio.BaseProtocol]


class _Port(NamedTuple):
    """The state that connections of a port share; see ``ManagementListener``."""

    release: Callable[[asyncio.Transport], None]
    door: WebSocketDoor | None
    timeout_s: Callable[[], float]


#: Octets of further requests that a client may have sent before it has an answer.
PIPELINED_MAX_BYTES: Final = 16_384
_BACKLOG: Final = 2048
_ACCEPTED_AT_ONCE: Final = 64
_PAUSE_S: Final = 1.0  # after an accept that failed, for want of descriptors
_REQUEST_TIMEOUT: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)
#: Makes the protocol of a socket: one that speaks TLS before the one that it is given.
Wrap = Callable[[Callable[[], asyncio.BaseProtocol]], asyncio.BaseProtocol]


class _Protocol(H11Protocol):
    """uvicorn's protocol; each request has the transport it came by. ``ends``: see ``Ends``.

    ``port``: what all connections of it share.
    """

    def __init__(self, ends: Ends | None, port: _Port, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._ends = ends
        self._port = port
        self._awaited: tuple[object, ...] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT: transport}
        if self._ends is not None:
            self.client, self.server = self._ends.client, self._ends.local
            self.scheme = "https" if self._ends.is_tls else self.scheme
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.flow.read_paused and len(self.conn.trailing_data[0]) > PIPELINED_MAX_BYTES:
            self.cycle.keep_alive = False
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch()

    def shutdown(self) -> None:
        super().shutdown()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watching()

    def _what_is_awaited(self) -> tuple[object, ...] | None:
        """Return the client's next act, and how far it is with it; None if the broker is next."""
        unsent = self.transport.get_write_buffer_size()
        scope = cast("Scope | None", self.scope)  # None before the first request
        has_user = scope is not None and HAS_USER in scope["state"]
        if unsent and not has_user:
            return "to read", unsent
        if self.conn.their_state is h11.IDLE:
            return ("head",)  # the whole of it in time, however often something comes
        is_its_turn = not (self.flow.read_paused or self.conn.they_are_waiting_for_100_continue)
        if self.conn.their_state is h11.SEND_BODY and is_its_turn and not has_user:
            return ("body",)
        return None

    def _watch(self) -> None:
        """Have a timer while something is awaited, which begins anew when the client goes on."""
        awaited = self._what_is_awaited()
        if awaited == self._awaited:
            return
        self._stop_watching()
        if awaited is not None:
            self._awaited = awaited
            self._deadline = self.loop.call_later(self._port.timeout_s(), self._on_late)

    def _stop_watching(self) -> None:
        self._awaited = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_late(self) -> None:
        """End the connection if the client did not go on, with an answer if that makes sense."""
        late, self._awaited, self._deadline = self._awaited, None, None
        if self._what_is_awaited() != late:
            self._watch()
        elif self.transport.get_write_buffer_size() or self.transport.is_closing():
            self.transport.abort()
        else:
            is_begun = self.conn.trailing_data[0] or self.conn.their_state is h11.SEND_BODY
            is_answered = self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE)
            if is_begun and not is_answered:
                self.transport.write(_REQUEST_TIMEOUT)
            self.transport.close()
            self._watch()

    def _should_upgrade(self) -> bool:
        """True if the request that has just come is to leave HTTP; uvicorn's hook."""
        names = {name for name, _ in self.headers}
        if b"transfer-encoding" in names and b"content-length" in names:
            # what is between here and the client may see two requests (RFC 9112, 6.1)
            self.headers.append(CLOSE_HEADER)
        return (
            self._port.door is not None
            and self._get_upgrade() == b"websocket"
            and self.scope["http_version"] == "1.1"
            and not self.transport.get_write_buffer_size()
            and self._port.door.accepts(cast("Scope", self.scope))
        )

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the transport over; uvicorn calls it if ``_should_upgrade``."""
        assert self._port.door is not None
        self._stop_watching()
        self.connections.discard(self)
        self._port.release(self.transport)
        self._port.door.upgrade(self.transport, cast("Scope", self.scope), event.target)


def _first_protocol(
    front: Front | None, wrap: Wrap | None, port: _Port, **uvicorns: Any
) -> asyncio.BaseProtocol:
    """The protocol that a new connection begins with."""

    def behind(ends: Ends | None) -> asyncio.BaseProtocol:
        if wrap is None:
            return _Protocol(ends, port, **uvicorns)
        return wrap(lambda: _Protocol(ends, port, **uvicorns))

    return behind(None) if front is None else front(behind)


class ManagementListener:
    """One port of HTTP; with ``wrap`` its clients speak TLS.

    ``timeout_s``: how long a client may take for the head of a request, and without a login for its
    body and to take some of an answer, in seconds; a reload may change it.
    ``admit``: whether a socket may come in; ``release``: told of one that leaves HTTP. ``front``:
    what a connection begins with, before TLS too; None: nothing else. ``door``: where upgrades to
    WebSocket go; None: nowhere.
    """

    def __init__(
        self,
        app: ASGIApp,
        timeout_s: Callable[[], float],
        *,
        admit: Callable[[socket.socket, SocketAddress], bool],
        release: Callable[[asyncio.Transport], None],
        wrap: Wrap | None = None,
        front: Front | None = None,
        door: WebSocketDoor | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # management.middleware does it
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = _EmbeddedServer(config)
        self._admit = admit
        self._make = partial(
            _first_protocol,
            front,
            wrap,
            _Port(release, door, timeout_s),
            config=config,
            server_state=self._server.server_state,
            app_state={},
        )
        self._listening: list[socket.socket] = []
        self._beginning: set[asyncio.Task[Any]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self, sockets: Sequence[socket.socket]) -> tuple[str, int]:
        """Serve on bound sockets; returns host and port. Raises OSError when it cannot listen."""
        anyio.get_cancelled_exc_class()  # has it load what the first long answer would wait for
        for each in sockets:
            each.listen(_BACKLOG)
            each.setblocking(False)
        host, port = sockets[0].getsockname()[:2]
        self._listening = list(sockets)
        self._task = asyncio.create_task(self._server.serve(sockets=[]))
        for each in sockets:
            self._accept_on(each)
        return host, port

    def _accept_on(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Take sockets that the system has ready; uvicorn would take them all, and know of none."""
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                loop.remove_reader(listening)
                loop.call_later(_PAUSE_S, self._accept_on, listening)
                return
            if not self._admit(accepted, address[:2]):
                accepted.close()
                continue
            accepted.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(self._make, accepted))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def stop(self) -> None:
        listening, self._listening = self._listening, []
        for each in listening:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        if self._task is not None:
            self._server.should_exit = True
            await self._task
            self._task = None


# ------------------------------------------------------------------------------ AMQP over WebSocket


PATH: Final = "/ws/amqp"
SUBPROTOCOL: Final = "amqp"
EVERY_ORIGIN: Final = "*"
VERSION: Final = "13"  # of RFC 6455
KEY_OCTETS: Final = 16
UNKNOWN: Final = ("", 0)  # the peer was gone before it could be asked for


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
        """Return the refusal of a request for ``PATH``; None if it becomes a connection."""
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
        """Return the reason why a page may not connect; empty if it may, or a program connects."""
        origin = headers.get("origin")
        if origin is None:
            return ""
        allowed = self._origins()
        if EVERY_ORIGIN in allowed or origin.lower() in [each.lower() for each in allowed]:
            return ""
        if is_own_page(origin, headers):
            return ""
        return f"websocket.origins does not name the page's origin: {origin}"


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_OCTETS
    except (binascii.Error, ValueError):
        return False
