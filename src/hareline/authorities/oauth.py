"""OAuth 2: the keys that tokens are checked with, and logins with a token (``auth.tokens``).

Keys come from a file or a URL and are read every ``refresh_s``, and when a token names an unknown
one, at most once in ``COOLDOWN_S``; such a token is decided after that. If reading fails, the keys
so far stay in force. A password that is not a token is left to the other backends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hareline import events
from hareline.auth.backends import Answer, AuthBackend, Credentials, Done, Refusal
from hareline.auth.peer import Peer
from hareline.auth.signing_keys import SigningKeys, keys_of, read_keys
from hareline.auth.tokens import (
    BACKEND,
    KeyUnknown,
    TokenRefused,
    TokenRules,
    looks_like_a_token,
    read_token,
)
from hareline.authorities.decisions import call_all
from hareline.authorities.http_client import AskingFailed, HttpClient
from hareline.events import Report

COOLDOWN_S: Final = 10.0
_WELL_KNOWN: Final = "/.well-known/openid-configuration"


class TokenKeys:
    """Keys of a file, of ``jwks_url``, or of the URL that ``issuer`` names.

    ``current`` is None until they could be read.
    """

    def __init__(
        self,
        client: HttpClient | None,
        report: Report,
        now_s: Callable[[], float],
        *,
        file: Path | None = None,
        jwks_url: str = "",
        issuer: str = "",
        refresh_s: float = 300.0,
    ) -> None:
        self._client = client
        self._report = report
        self._now_s = now_s
        self._file = file
        self._jwks_url = jwks_url
        self._issuer = issuer
        self._refresh_s = refresh_s
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []
        self._read_s = -COOLDOWN_S
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self.current: SigningKeys | None = None

    def start(self) -> None:
        """Begin to read; needs a running event loop."""
        self._begin()

    def stop(self) -> None:
        """Read no more; those who wait are not called."""
        self._is_stopped = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def renew(self, done: Callable[[], None]) -> None:
        """Read the keys again, unless that was just done, and call back, now or later."""
        if self._task is not None:
            self._waiting.append(done)
        elif self._is_stopped or self._now_s() < self._read_s + COOLDOWN_S:
            done()
        else:
            self._waiting.append(done)
            self._begin()

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._read_s = self._now_s()
        self._task = asyncio.get_running_loop().create_task(self._read())

    def _refresh(self) -> None:
        if self._task is None:
            self._begin()

    async def _read(self) -> None:
        try:
            await self._replace()
        finally:
            self._task = None
            if self._refresh_s and not self._is_stopped:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(self._refresh_s, self._refresh)
            waiting, self._waiting = self._waiting, []
            call_all(waiting)

    async def _replace(self) -> None:
        where = str(self._file or self._jwks_url or self._issuer)
        try:
            keys = await self._fetched()
        except (AskingFailed, OSError, ValueError) as problem:
            self._report(events.TOKEN_KEYS_NOT_READ, where=where, problem=str(problem))
            return
        had, self.current = self.current, keys
        if had is None or keys.names != had.names:
            self._report(events.TOKEN_KEYS_READ, where=where, keys=keys.names)
        if keys.problems and (had is None or keys.problems != had.problems):
            left_out = "; ".join(keys.problems)
            self._report(events.TOKEN_KEYS_LEFT_OUT, where=where, problem=left_out)

    async def _fetched(self) -> SigningKeys:
        """Raises AskingFailed, OSError, or ValueError."""
        if self._file is not None:
            text = await asyncio.to_thread(self._file.read_text, "utf-8")
            return read_keys(text)
        url = self._jwks_url or await self._discovered()
        assert self._client is not None
        return keys_of(_json(await self._client.get(url), url))

    async def _discovered(self) -> str:
        """The URL of the keys, as the issuer's OpenID configuration names it."""
        assert self._client is not None
        url = self._issuer.rstrip("/") + _WELL_KNOWN
        document = _json(await self._client.get(url), url)
        found = document.get("jwks_uri") if isinstance(document, dict) else None
        if not isinstance(found, str) or not found.startswith(("https://", "http://")):
            raise ValueError(f"{url} names no jwks_uri")
        if self._issuer.startswith("https://") and not found.startswith("https://"):
            raise ValueError(f"{url} names a jwks_uri without TLS")
        return found


def _json(text: str, url: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{url} did not answer with JSON") from None


# ------------------------------------------------------------------------------------------- logins


class OAuthBackend(AuthBackend):
    """``now_ms``: wall time in epoch milliseconds."""

    takes_bearer = True

    def __init__(self, keys: TokenKeys, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms

    @property
    def name(self) -> str:
        return BACKEND

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        token = credentials.password
        if token is None or not looks_like_a_token(token):
            done(Refusal())
            return
        try:
            done(self._answer(token))
        except KeyUnknown:
            self._keys.renew(lambda: done(self._final_answer(token)))

    def _final_answer(self, token: str) -> Answer:
        try:
            return self._answer(token)
        except KeyUnknown as problem:
            return Refusal(f"token: {problem}", is_guess=bool(self._keys.current))

    def _answer(self, token: str) -> Answer:
        """The user or the refusal. Raises KeyUnknown if other keys might help."""
        keys = self._keys.current
        if not keys:
            raise KeyUnknown("no keys could be read")
        try:
            return read_token(token, keys, self._rules, self._now_ms())
        except KeyUnknown:
            raise
        except TokenRefused as problem:
            return Refusal(f"token: {problem}", is_guess=problem.is_guess)
