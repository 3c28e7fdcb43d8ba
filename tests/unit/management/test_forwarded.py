"""Which of the addresses in X-Forwarded-For is the client, and when nobody is believed."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from hareline.auth.peer import Networks
from hareline.management.middleware import UNKNOWN, ForwardedFor, client_of

PROXIES = Networks(["10.0.0.0/8", "::1", "127.0.0.1"])
PROXY = ("10.0.0.5", 999)
OURS = ("127.0.0.1", 999)


def headers(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"broker"), *((b"x-forwarded-for", value.encode()) for value in values)]


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        (PROXY, ["192.0.2.7"], ("192.0.2.7", 0)),
        (PROXY, ["192.0.2.7:40000"], ("192.0.2.7", 40000)),
        (PROXY, ["2001:db8::7"], ("2001:db8::7", 0)),
        (PROXY, ["[2001:db8::7]:40000"], ("2001:db8::7", 40000)),
        (PROXY, ["192.0.2.7, 10.0.0.6"], ("192.0.2.7", 0)),  # two proxies of ours
        (PROXY, ["192.0.2.7", "10.0.0.6"], ("192.0.2.7", 0)),
        (PROXY, ["10.0.0.8, 10.0.0.6"], ("10.0.0.8", 0)),  # a client among the proxies
        (PROXY, ["198.51.100.1, 192.0.2.7"], ("192.0.2.7", 0)),  # the first one is a lie, maybe
        (OURS, ["127.0.0.1"], ("127.0.0.1", 0)),
        (OURS, ["192.0.2.7"], ("192.0.2.7", 0)),
    ],
)
def test_the_last_address_that_is_no_proxy_is_the_client(
    peer: tuple[str, int], values: list[str], client: tuple[str, int]
) -> None:
    assert client_of(peer, headers(*values), PROXIES) == client


@pytest.mark.parametrize(
    ("peer", "values"),
    [
        (("192.0.2.1", 4), ["198.51.100.1"]),  # no proxy of ours
        (("192.0.2.1", 4), ["127.0.0.1"]),
        (PROXY, []),
        (PROXY, ["unknown"]),
        (PROXY, [""]),
        (PROXY, ["192.0.2.7, somebody"]),
        (PROXY, ["127.0.0.1"]),  # of another machine
        (PROXY, ["::1"]),
        (PROXY, ["::ffff:127.0.0.1"]),
    ],
)
def test_the_peer_counts_where_nothing_credible_is_said(
    peer: tuple[str, int], values: list[str]
) -> None:
    assert client_of(peer, headers(*values), PROXIES) == peer


@pytest.mark.parametrize("peer", [("127.0.0.1", 9), ("::1", 9)])
def test_behind_a_proxy_of_this_machine_that_is_not_named_nobody_is_known(
    peer: tuple[str, int],
) -> None:
    assert client_of(peer, headers("127.0.0.1"), Networks()) == UNKNOWN
    assert client_of(peer, headers(), Networks()) == peer


def test_a_port_of_any_length_does_no_harm() -> None:
    assert client_of(PROXY, headers("192.0.2.7:" + "9" * 5000), PROXIES) == ("192.0.2.7", 0)


async def through(scope: dict[str, Any]) -> Scope:
    """The scope that the application behind sees."""
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: object) -> Any:
        raise AssertionError

    await ForwardedFor(app, PROXIES)(scope, nothing, nothing)
    return seen[0]


async def test_the_scheme_is_the_client_s_too() -> None:
    given = [*headers("192.0.2.7"), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "client": PROXY, "scheme": "http", "headers": given}
    seen = await through(scope)
    assert (seen["client"], seen["scheme"]) == (("192.0.2.7", 0), "https")


@pytest.mark.parametrize("proto", [b"gopher", b"HTTPS, http", b""])
async def test_a_scheme_that_is_none_is_passed_over(proto: bytes) -> None:
    given = [(b"x-forwarded-proto", proto)]
    scope = {"type": "http", "client": PROXY, "scheme": "http", "headers": given}
    assert (await through(scope))["scheme"] == "http"


@pytest.mark.parametrize("peer", [("192.0.2.1", 4), None])
async def test_others_change_nothing(peer: tuple[str, int] | None) -> None:
    given = [*headers("192.0.2.7"), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "client": peer, "scheme": "http", "headers": given}
    seen = await through(scope)
    assert (seen["client"], seen["scheme"]) == (peer, "http")
