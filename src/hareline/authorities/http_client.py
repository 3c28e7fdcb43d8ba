"""Questions to web servers: one answer for each, of bounded size, in bounded time.

A call on the event loop ends within ``timeout_s`` with the text of an answer or with AskingFailed,
and holds at most ``ANSWER_MAX_BYTES``. httpx is imported when the first client is made, so a broker
that asks no server does without it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ANSWER_MAX_BYTES: Final = 1_048_576
SUCCESS: Final = frozenset({200, 201})


class AskingFailed(Exception):
    """There is no answer; the text says why, and names no secret."""


class HttpClient:
    """Needs a running event loop. ``ca_file``: trusted authorities; None: the system's.

    ``connections``: how many may be open at once; further questions wait for one of them.
    """

    def __init__(
        self, timeout_s: float, ca_file: Path | None = None, connections: int = 20
    ) -> None:
        """Raises OSError if ``ca_file`` cannot be read, ValueError if it has no certificate."""
        import httpx

        try:
            trust = ssl.create_default_context(cafile=ca_file)
        except ssl.SSLError:
            raise ValueError(f"{ca_file} has no certificate in PEM") from None
        trust.minimum_version = ssl.TLSVersion.TLSv1_2
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(
            verify=trust,
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=connections, keepalive_expiry=30),
            headers={"Accept-Encoding": "identity"},
            trust_env=False,
            follow_redirects=False,
        )

    async def get(self, url: str, fields: Mapping[str, str] | None = None) -> str:
        """The text at a URL, with the fields in its query. Raises AskingFailed."""
        return await self._ask("GET", url, params=fields)

    async def post(self, url: str, fields: Mapping[str, str]) -> str:
        """The text of the answer to a form. Raises AskingFailed."""
        return await self._ask("POST", url, data=fields)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> str:
        import httpx

        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(method, url, params=params, data=data) as answer,
            ):
                if answer.status_code not in SUCCESS:
                    raise AskingFailed(f"{url} answered with status {answer.status_code}")
                if answer.headers.get("Content-Encoding", "identity") != "identity":
                    raise AskingFailed(f"{url} sent a compressed answer, which was not asked for")
                octets = bytearray()
                async for piece in answer.aiter_raw():
                    octets += piece
                    if len(octets) > ANSWER_MAX_BYTES:
                        raise AskingFailed(f"{url} sent more than {ANSWER_MAX_BYTES} octets")
        except TimeoutError:
            raise AskingFailed(f"{url} did not answer within {self._timeout_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as problem:
            why = str(problem) or type(problem).__name__
            raise AskingFailed(f"{url} cannot be asked: {why}") from None
        return octets.decode("utf-8", "replace")
