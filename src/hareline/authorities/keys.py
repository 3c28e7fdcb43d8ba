"""The keys that tokens are checked with, as they are now: from a file, or from a URL.

``authorities.oauth`` uses ``current``, and calls ``renew`` when a token names a key that is not
there, which is how keys are rotated. They are read again every ``refresh_s`` as well, so that a key
which was withdrawn is not trusted for ever. One request is under way at most, and not before
``COOLDOWN_S`` after the last: a client with made-up keys cannot have the server asked all the time.

Invariant: where no set of keys could be read, those that were there stay in force; where one was
read, its keys alone are, even if it has none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hareline import events
from hareline.auth.signing_keys import SigningKeys, keys_of, read_keys
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
