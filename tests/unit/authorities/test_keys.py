"""Keys are read at the start, when a token names a new one, and now and then; once at a time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hareline import events
from hareline.authorities.http_client import HttpClient
from hareline.authorities.oauth import COOLDOWN_S, TokenKeys
from hareline.clock import ManualClock
from hareline.events import Event
from tests.support.tokens import Signer
from tests.support.web_service import key_server, web_service


class Stand:
    """Keys with a clock that is moved by hand; ``reports`` are those of the log."""

    def __init__(self, client: HttpClient | None = None, **options: object) -> None:
        self.clock = ManualClock()
        self.reports: list[tuple[Event, dict[str, object]]] = []
        self.has_reported = asyncio.Event()
        self.keys = TokenKeys(client, self._report, self.clock.running_s, **options)  # type: ignore[arg-type]

    def _report(self, event: Event, **fields: object) -> None:
        self.reports.append((event, fields))
        self.has_reported.set()

    async def is_told(self, names: list[str]) -> None:
        """Return when the log says that the keys have these names."""
        while not any(fields.get("keys") == names for _, fields in self.reports):
            self.has_reported.clear()
            await self.has_reported.wait()

    async def renewed(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.keys.renew(lambda: future.set_result(None))
        await future

    def names(self) -> list[str]:
        return [] if self.keys.current is None else self.keys.current.names


async def test_keys_of_a_file_are_read_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [Signer("ES256", "a").public()]}))
    stand = Stand(file=file)
    stand.keys.start()
    await stand.renewed()
    assert stand.names() == ["a"]
    file.write_text(json.dumps({"keys": [Signer("ES256", "b").public()]}))
    await stand.renewed()
    assert stand.names() == ["a"], "it was just read"
    stand.clock.advance(int(COOLDOWN_S * 1000))
    await stand.renewed()
    assert stand.names() == ["b"]
    assert [event for event, _ in stand.reports] == [events.TOKEN_KEYS_READ] * 2
    stand.keys.stop()


@pytest.mark.parametrize("text", ["nonsense", "{}", "\udcff"])
async def test_keys_that_cannot_be_read_leave_those_there_were(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(Signer("ES256", "a").pem())
    stand = Stand(file=file)
    await stand.renewed()
    known = stand.keys.current
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    stand.clock.advance(int(COOLDOWN_S * 1000))
    await stand.renewed()
    assert stand.keys.current is known is not None
    event, fields = stand.reports[-1]
    assert event is events.TOKEN_KEYS_NOT_READ
    assert fields["where"] == str(file)
    stand.keys.stop()


async def test_a_key_that_is_withdrawn_is_not_known_though_the_others_are_odd(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [Signer("ES256", "a").public()]}))
    stand = Stand(file=file)
    await stand.renewed()
    file.write_text(json.dumps({"keys": [{"kty": "RSA", "n": "x", "kid": "b"}]}))
    for _ in range(2):
        stand.clock.advance(int(COOLDOWN_S * 1000))
        await stand.renewed()
    assert stand.names() == []
    assert [event for event, _ in stand.reports[1:]] == [
        events.TOKEN_KEYS_READ,
        events.TOKEN_KEYS_LEFT_OUT,
    ], "once"
    assert "keys[0]: it is not a valid key" in str(stand.reports[-1][1]["problem"])
    stand.keys.stop()


async def test_all_who_wait_are_called_after_one_request() -> None:
    with web_service(key_server(Signer("ES256", "a").public())) as service:
        service.gate.clear()
        client = HttpClient(60)
        stand = Stand(client, jwks_url=f"{service.url}/jwks")
        waiting = [asyncio.ensure_future(stand.renewed()) for _ in range(5)]
        await asyncio.sleep(0)
        service.gate.set()
        await asyncio.gather(*waiting)
        assert len(service.asked) == 1
        assert stand.names() == ["a"]
        stand.keys.stop()
        await client.close()


async def test_keys_are_read_again_by_themselves() -> None:
    with web_service(key_server(Signer("ES256", "a").public())) as service:
        client = HttpClient(60)
        stand = Stand(client, jwks_url=f"{service.url}/jwks", refresh_s=0.01)
        stand.keys.start()
        service.answer = key_server(Signer("ES256", "b").public())
        async with asyncio.timeout(60):
            await stand.is_told(["b"])
        stand.keys.stop()
        await client.close()


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("[]", "names no jwks_uri"),
        ('{"jwks_uri": "file:///etc/passwd"}', "names no jwks_uri"),
        ("x", "did not answer with JSON"),
    ],
)
async def test_an_issuer_says_where_its_keys_are(document: str, problem: str) -> None:
    with web_service(lambda _: (200, document)) as service:
        client = HttpClient(60)
        stand = Stand(client, issuer=service.url)
        await stand.renewed()
        assert problem in str(stand.reports[-1][1]["problem"])
        assert service.asked[0].path == "/.well-known/openid-configuration"
        stand.keys.stop()
        await client.close()


async def test_stopped_keys_read_nothing_more(tmp_path: Path) -> None:
    stand = Stand(file=tmp_path / "none")
    stand.keys.stop()
    await stand.renewed()
    assert stand.reports == []
