"""How often pages ask again: as the head says, less often where that is enough, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.web_browser import WebUi

pytestmark = pytest.mark.acceptance

Open = Callable[..., WebUi]


@pytest.mark.parametrize(
    ("choice", "page", "path", "seconds", "most"),
    [
        ("2000", "connections", "/api/connections?", 11, 5),
        ("2000", "users", "/api/users", 46, 3),  # every 15 s at most
        ("60000", "users", "/api/users", 46, 0),
        ("0", "users", "/api/users", 600, 0),
        ("0", "connections", "/api/connections?", 600, 0),
    ],
)
def test_the_head_says_how_often(
    open_ui: Open, choice: str, page: str, path: str, seconds: int, most: int
) -> None:
    """The page's clock is moved on; a slow answer makes fewer requests of it, and never more."""
    ui = open_ui()
    ui.page.clock.install()
    ui.page.locator(".top").get_by_label("Refresh").select_option(choice)
    ui.go(page)
    ui.requests.clear()
    for _ in range(seconds):
        ui.page.clock.run_for(1_000)
    ui.settle()
    asked = len([url for url in ui.requests if path in url])
    assert (asked > 0) == (most > 0)
    assert asked <= most
