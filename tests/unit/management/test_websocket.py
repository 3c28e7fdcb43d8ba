"""Which requests for AMQP over WebSocket are let through, and what the others are told."""

from __future__ import annotations

import asyncio

import pytest

from hareline.auth.peer import Networks
from hareline.management.listener import UpgradeRequest, WebSocketDoor

GOOD = {
    "host": "broker:15672",
    "upgrade": "WebSocket",
    "connection": "Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class Stand:
    def __init__(self, *origins: str, is_open: bool = True) -> None:
        self.requests: list[UpgradeRequest] = []
        self.door = WebSocketDoor(
            self.requests.append, lambda: is_open, lambda: origins, Networks(["10.0.0.5"])
        )

    def status(self, **changes: str | None) -> int:
        """Of the refusal; 101 without one. None leaves a header out."""
        given = {key.replace("_", "-"): value for key, value in changes.items()}
        headers = {key: value for key, value in {**GOOD, **given}.items() if value is not None}
        refusal = self.door.refusal(headers)
        return 101 if refusal is None else refusal.status


@pytest.mark.parametrize("protocol", [None, "amqp", "mqtt, amqp", "amqp,mqtt"])
def test_a_good_request_is_let_through(protocol: str | None) -> None:
    assert Stand().status(sec_websocket_protocol=protocol) == 101


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"upgrade": None}, 426),
        ({"upgrade": "h2c"}, 426),
        ({"sec_websocket_version": "8"}, 426),
        ({"sec_websocket_version": None}, 426),
        ({"sec_websocket_key": None}, 400),
        ({"sec_websocket_key": "short"}, 400),
        ({"sec_websocket_key": "AAAA"}, 400),
        ({"sec_websocket_protocol": "mqtt"}, 400),
        ({"sec_websocket_protocol": ""}, 400),
        ({"origin": "https://evil.example"}, 403),
    ],
)
def test_another_is_refused(changes: dict[str, str | None], status: int) -> None:
    assert Stand().status(**changes) == status


def test_nobody_connects_before_the_broker_is_there() -> None:
    assert Stand(is_open=False).status() == 503


@pytest.mark.parametrize(
    ("origins", "origin", "status"),
    [
        ((), "http://broker:15672", 101),
        ((), "http://broker", 403),
        (("https://shop.example",), "https://shop.example", 101),
        (("https://shop.example",), "http://shop.example", 403),
        (("https://shop.example",), "https://shop.example:8443", 403),
        (("https://shop.example",), "https://shop.example.evil.example", 403),
        (("*",), "https://evil.example", 101),
    ],
)
def test_pages_are_told_apart_by_their_whole_origin(
    origins: tuple[str, ...], origin: str, status: int
) -> None:
    assert Stand(*origins).status(origin=origin) == status


@pytest.mark.parametrize(
    ("method", "path", "is_accepted"),
    [("GET", "/ws/amqp", True), ("POST", "/ws/amqp", False), ("GET", "/api/whoami", False)],
)
def test_only_one_path_is_for_connections(method: str, path: str, is_accepted: bool) -> None:
    headers = [(key.encode(), value.encode()) for key, value in GOOD.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    assert Stand().door.accepts(scope) is is_accepted


@pytest.mark.parametrize(
    ("peer", "client", "is_tls"),
    [
        (("10.0.0.5", 9), ("192.0.2.7", 0), True),
        (("10.0.0.6", 9), ("10.0.0.6", 9), False),
        (None, ("", 0), False),
    ],
)
def test_the_client_is_whom_a_proxy_of_ours_names(
    peer: tuple[str, int] | None, client: tuple[str, int], is_tls: bool
) -> None:
    stand, transport = Stand(), asyncio.Transport()
    headers = [(b"x-forwarded-for", b"192.0.2.7"), (b"x-forwarded-proto", b"https")]
    scope = {
        "headers": headers,
        "client": peer,
        "server": ("192.0.2.1", 443),
        "scheme": "http",
    }
    stand.door.upgrade(transport, scope, b"/ws/amqp")
    assert stand.requests == [
        UpgradeRequest(
            *(transport, headers, b"/ws/amqp", client, ("192.0.2.1", 443), is_tls),
            is_forwarded=peer is not None and client != peer,
        )
    ]
