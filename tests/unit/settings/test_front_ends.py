"""Networks of proxies and origins of pages, as the settings take them."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.settings import Settings
from tests.support.settings import problems_of


@pytest.mark.parametrize("origin", ["https://shop.example", "http://[::1]:8080", "*", "app://x"])
def test_an_origin_is_taken(origin: str) -> None:
    settings = Settings.model_validate({"websocket": {"origins": [origin]}})
    assert settings.websocket.origins == (origin,)


@pytest.mark.parametrize("origin", ["shop.example", "https://shop.example/", "", "https://", "**"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    ((place, message),) = problems_of(websocket={"origins": [origin]})
    assert place == "websocket.origins"
    assert "should be an origin such as" in message


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"listener": {"proxy_protocol_from": ["10.0.0.1/8"]}}, "listener.proxy_protocol_from"),
        ({"management": {"proxy_protocol_from": ["lb"]}}, "management.proxy_protocol_from"),
        ({"management": {"forwarded_by": [""]}}, "management.forwarded_by"),
        (
            {"listeners": [{"port": 1, "proxy_protocol_from": ["10.0.0"]}]},
            "listeners.0.proxy_protocol_from",
        ),
    ],
)
def test_what_is_no_network_is_refused(table: dict[str, Any], place: str) -> None:
    ((found, message),) = problems_of(**table)
    assert found == place
    assert "should be an address or a network such as 10.0.0.0/8" in message
