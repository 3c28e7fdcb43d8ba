"""Logins over HTTP: basic authentication with the broker's users, and what their tags allow.

The same backends decide as over AMQP (``auth.backends``), at each request, so that a change of a
password holds for the next one. Each failure is answered after ``auth.failure_delay_s``, or at once
with 429 while logins are locked out after too many of them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Final

from starlette.requests import Request

from hareline import events
from hareline.auth import backends
from hareline.auth.backends import BEARER, Answer, AuthChain, Credentials, Done
from hareline.auth.peer import Peer, is_loopback
from hareline.auth.users import User
from hareline.broker.change_recorder import Doer
from hareline.events import Report
from hareline.management.answers import Refusal
from hareline.management.change_log import CALLER
from hareline.management.listener import HAS_USER, TRANSPORT

ADMINISTRATOR: Final = "administrator"
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Hareline", charset="UTF-8"'}


class Authenticator:
    """``failure_delay_s`` is called each time, because a reload may change it.

    ``takes_passwords``: whether a peer may send one as it is.
    """

    def __init__(
        self,
        logins: AuthChain,
        failure_delay_s: Callable[[], float],
        report: Report,
        takes_passwords: Callable[[Peer], bool] = lambda _: True,
    ) -> None:
        self._logins = logins
        self._failure_delay_s = failure_delay_s
        self._report = report
        self._takes_passwords = takes_passwords

    async def administrator(self, request: Request) -> User:
        """The user of a request. Raises Refusal: 401 without a valid login, 403 without the tag."""
        user = await self.user(request)
        if ADMINISTRATOR not in user.tags:
            raise Refusal(403, "access_refused", f"user '{user.name}' has no tag '{ADMINISTRATOR}'")
        return user

    async def user(self, request: Request) -> User:
        """The user of a request. Raises Refusal: 401 without a valid login, 429 after too many."""
        try:
            credentials, is_bearer = _credentials(
                request.headers.get("Authorization"), takes_bearer=self._logins.takes_bearer
            )
        except ValueError as problem:
            raise _unauthorized(request, str(problem)) from None
        name = credentials.name
        host, port = request.client or ("", 0)
        is_tls = request.scope.get("scheme") == "https"
        peer = Peer(host, is_loopback(host), is_tls)
        state = request.scope.setdefault("state", {})
        if TRANSPORT in state:
            peer = peer._replace(is_gone=state[TRANSPORT].is_closing)
        if not self._takes_passwords(peer):
            raise Refusal(403, "tls_required", "passwords are not taken without TLS; use https")
        begin = self._begin_bearer if is_bearer else self._logins.begin
        state[HAS_USER] = True  # it may be one, and is not to be hurried while that is asked
        answer = await _answer(begin, credentials, peer)
        if isinstance(answer, backends.Refusal):
            del state[HAS_USER]
            reason = f"HTTP login of user '{name}' failed"
            self._report(
                events.CONNECTION_REFUSED,
                peer=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                reason=f"{reason}: {answer.reason}" if answer.reason else reason,
            )
            if answer.wait_s:
                headers = {"Retry-After": str(answer.wait_s)}
                raise Refusal(429, "too_many_requests", answer.reason, headers=headers)
            await asyncio.sleep(self._failure_delay_s())
            raise _unauthorized(request, "wrong user or password")
        address = f"{host}:{port}" if host else ""
        CALLER.set(Doer("http", answer.name, address, answer.backend))
        return answer

    def _begin_bearer(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        self._logins.begin_bearer(credentials.password or "", peer, done)


async def _answer(
    begin: Callable[[Credentials, Peer, Done], None], credentials: Credentials, peer: Peer
) -> Answer:
    """Await the decision of the backends; a request that was given up meanwhile does not mind."""
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def done(answer: Answer) -> None:
        if not future.done():
            future.set_result(answer)

    begin(credentials, peer, done)
    return await future


def _credentials(header: str | None, *, takes_bearer: bool = False) -> tuple[Credentials, bool]:
    """Read an Authorization header: user and password (RFC 7617), or a token (RFC 6750).

    The second value says whether it is a token. Raises ValueError.
    """
    if header is None:
        raise ValueError("log in with a user of the broker, by HTTP basic authentication")
    scheme, _, encoded = header.partition(" ")
    if takes_bearer and scheme.lower() == "bearer":
        return Credentials(BEARER, encoded.strip()), True
    if scheme.lower() != "basic":
        known = "Basic or Bearer" if takes_bearer else "Basic"
        raise ValueError(f"Authorization: scheme '{scheme}' is not {known}")
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("Authorization: not the base64 of user:password in UTF-8") from None
    name, colon, password = decoded.partition(":")
    if not colon:
        raise ValueError("Authorization: no colon between user and password")
    return Credentials(name, password), False


def _unauthorized(request: Request, reason: str) -> Refusal:
    """401. A script of a page gets no challenge: its browser would ask the user by itself."""
    is_script = request.headers.get("Sec-Fetch-Dest") == "empty"
    return Refusal(401, "not_authorized", reason, headers={} if is_script else _CHALLENGE)
