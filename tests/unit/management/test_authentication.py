"""Who may ask over HTTP: the broker's own users, by the rules of a login over AMQP."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.requests import Request

from hareline import events
from hareline.auth import backends
from hareline.auth.backends import AuthChain, InternalBackend
from hareline.auth.passwords import hash_password
from hareline.auth.users import User, UserRegistry
from hareline.management.answers import Refusal
from hareline.management.authentication import Authenticator
from hareline.management.listener import TRANSPORT
from tests.support.login_work import AtOnce
from tests.support.slow_backend import SlowBackend

LOOPBACK, ELSEWHERE = ("127.0.0.1", 4), ("192.0.2.7", 4)


def basic(login: str) -> str:
    return "Basic " + base64.b64encode(login.encode()).decode()


def request(authorization: str | None, client: tuple[str, int] | None = LOOPBACK) -> Request:
    headers = [] if authorization is None else [(b"authorization", authorization.encode())]
    return Request({"type": "http", "headers": headers, "client": client})


class Stand:
    def __init__(self) -> None:
        self.reports: list[tuple[events.Event, dict[str, object]]] = []
        self.has_reported = asyncio.Event()
        self.delay_s = 0.0
        self.needs_tls = False
        password_hash = hash_password("pässword:1")
        administrator = frozenset({"administrator"})
        users = UserRegistry(
            [
                User("ann", password_hash, tags=administrator),
                User("guest", password_hash, tags=administrator),
                User("bob", password_hash, tags=frozenset({"monitoring"})),
            ]
        )
        self.logins = AuthChain([InternalBackend(users, AtOnce())], users)
        self.authenticator = Authenticator(
            self.logins,
            lambda: self.delay_s,
            self._report,
            lambda peer: not self.needs_tls or peer.is_tls or peer.is_loopback,
        )

    def _report(self, event: events.Event, **fields: object) -> None:
        self.reports.append((event, fields))
        self.has_reported.set()

    async def refusal(self, request: Request) -> Refusal:
        with pytest.raises(Refusal) as refused:
            await self.authenticator.administrator(request)
        return refused.value


@pytest.mark.parametrize("client", [LOOPBACK, ELSEWHERE, ("::1", 4), None])
@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
async def test_an_administrator_may(client: tuple[str, int] | None, scheme: str) -> None:
    stand = Stand()
    header = basic("ann:pässword:1").replace("Basic", scheme)
    user = await stand.authenticator.administrator(request(header, client))
    assert user.name == "ann"
    assert stand.reports == []


async def test_another_user_may_not_and_hears_which_tag_is_missing() -> None:
    refusal = await Stand().refusal(request(basic("bob:pässword:1")))
    assert (refusal.status, refusal.error) == (403, "access_refused")
    assert refusal.reason == "user 'bob' has no tag 'administrator'"


@pytest.mark.parametrize("login", ["ann:wrong", "nobody:pässword:1", "ann:", ":"])
async def test_a_wrong_login_is_401_with_a_challenge_and_a_line_in_the_log(login: str) -> None:
    stand = Stand()
    refusal = await stand.refusal(request(basic(login)))
    assert (refusal.status, refusal.reason) == (401, "wrong user or password")
    assert refusal.headers["WWW-Authenticate"].startswith('Basic realm="Hareline"')
    name = login.partition(":")[0]
    assert stand.reports == [
        (
            events.CONNECTION_REFUSED,
            {"peer": "127.0.0.1:4", "reason": f"HTTP login of user '{name}' failed"},
        )
    ]


@pytest.mark.parametrize("client", [ELSEWHERE, ("fe80::1%eth0", 4), ("no address", 4), None])
async def test_a_loopback_user_may_not_come_from_elsewhere(
    client: tuple[str, int] | None,
) -> None:
    refusal = await Stand().refusal(request(basic("guest:pässword:1"), client))
    assert refusal.status == 401


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
async def test_a_loopback_user_may_come_from_this_machine(host: str) -> None:
    header = basic("guest:pässword:1")
    user = await Stand().authenticator.administrator(request(header, (host, 4)))
    assert user.name == "guest"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_request_waits_for_a_backend_that_takes_its_time(scheme: str) -> None:
    stand, backend = Stand(), SlowBackend()
    stand.logins.backends = (backend,)
    asked = request(basic("eve:token"), ELSEWHERE)
    asked.scope["scheme"] = scheme
    waiting = asyncio.ensure_future(stand.authenticator.user(asked))
    await asyncio.sleep(0)  # as far as the backend
    ((credentials, peer),) = backend.asked
    assert (credentials.name, credentials.password) == ("eve", "token")
    assert (peer.host, peer.is_loopback, peer.is_tls) == ("192.0.2.7", False, scheme == "https")
    eve = User("eve", "", backend="slow")
    backend.answer(eve)
    assert await waiting is eve


async def test_a_backend_can_see_that_the_client_has_left() -> None:
    stand = Stand()
    backend = SlowBackend()
    stand.logins.backends = (backend,)
    asked = request(basic("bob:x"))
    asked.scope["state"] = {TRANSPORT: Mock(spec=asyncio.Transport)}
    asked.scope["state"][TRANSPORT].is_closing.return_value = True
    waiting = asyncio.ensure_future(stand.authenticator.user(asked))
    await asyncio.sleep(0)  # as far as the backend
    ((_, peer),) = backend.asked
    assert peer.is_gone()
    waiting.cancel()


async def test_a_request_that_is_given_up_meanwhile_does_not_mind_the_answer() -> None:
    stand, backend = Stand(), SlowBackend()
    stand.logins.backends = (backend,)
    waiting = asyncio.ensure_future(stand.authenticator.user(request(basic("eve:token"))))
    await asyncio.sleep(0)  # as far as the backend
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    backend.answer(backends.Refusal())
    assert stand.reports == []


async def test_the_reason_of_a_backend_is_in_the_log_alone() -> None:
    stand, backend = Stand(), SlowBackend()
    stand.logins.backends = (backend,)
    waiting = asyncio.ensure_future(stand.refusal(request(basic("eve:token"))))
    await asyncio.sleep(0)  # as far as the backend
    backend.answer(backends.Refusal("token expired"))
    assert (await waiting).reason == "wrong user or password"
    ((_, fields),) = stand.reports
    assert fields["reason"] == "HTTP login of user 'eve' failed: slow: token expired"


async def test_a_password_may_need_tls_but_from_this_machine() -> None:
    stand = Stand()
    stand.needs_tls = True
    header = basic("ann:pässword:1")
    refusal = await stand.refusal(request(header, ELSEWHERE))
    assert (refusal.status, refusal.error) == (403, "tls_required")
    assert "https" in refusal.reason
    assert (await stand.authenticator.user(request(header))).name == "ann"
    asked = request(header, ELSEWHERE)
    asked.scope["scheme"] = "https"
    assert (await stand.authenticator.user(asked)).name == "ann"


async def test_a_failure_costs_the_delay_that_is_in_force_then() -> None:
    stand = Stand()
    stand.delay_s = 3600.0
    waiting = asyncio.ensure_future(stand.refusal(request(basic("ann:wrong"))))
    await stand.has_reported.wait()
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, "log in with a user of the broker, by HTTP basic authentication"),
        ("Bearer x", "Authorization: scheme 'Bearer' is not Basic"),
        ("Basic", "Authorization: no colon between user and password"),
        ("Basic !!!!", "Authorization: not the base64 of user:password in UTF-8"),
        ("Basic /////w==", "Authorization: not the base64 of user:password in UTF-8"),
        (basic("ann"), "Authorization: no colon between user and password"),
    ],
)
async def test_what_is_no_login_is_401_and_says_why(header: str | None, reason: str) -> None:
    refusal = await Stand().refusal(request(header))
    assert (refusal.status, refusal.error, refusal.reason) == (401, "not_authorized", reason)


def test_an_answer_has_error_and_reason_whatever_a_name_is_made_of() -> None:
    refusal = Refusal(418, "teapot", "queue 'caf\udce9'", headers={"X": "y"}, details={"n": 1})
    answer = refusal.answer()
    assert (answer.status_code, answer.headers["x"]) == (418, "y")
    body: dict[str, Any] = json.loads(bytes(answer.body))
    assert body == {"error": "teapot", "reason": "queue 'caf?'", "n": 1}
