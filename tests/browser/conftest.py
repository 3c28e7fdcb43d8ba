"""One broker with queues, messages and clients, and one Chromium, for all browser tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api_broker import PASSWORD, ApiBroker, api_broker
from tests.support.browser_scene import Scene
from tests.support.web_browser import WebUi, chromium_path, web_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def missing() -> str:
    """What a browser test needs and does not find here; empty if all is there."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed (pip install 'playwright>=1.49,<2')"
    if chromium_path() is None:
        return "there is no Chromium (apt-get install chromium)"
    return ""


@pytest.fixture(scope="module")  # no longer: playwright's event loop runs as long as this
def browser() -> Iterator[Browser]:
    if missing():
        pytest.skip(missing())
    with web_browser() as made:
        yield made


@pytest.fixture(scope="module")
def broker(browser: Browser) -> Iterator[ApiBroker]:
    with api_broker() as made:
        yield made


@pytest.fixture(scope="module")
def scene(broker: ApiBroker) -> Iterator[Scene]:
    """Queues in every state that a page shows."""
    made = Scene(broker)
    yield made
    made.close()


@pytest.fixture
def open_ui(browser: Browser, broker: ApiBroker) -> Iterator[Callable[..., WebUi]]:
    """Opens the UI as a user who is logged in; at the end nothing may have gone wrong in it."""
    opened: list[WebUi] = []

    def open_one(user: str = "admin", **options: Any) -> WebUi:
        ui = WebUi(browser, broker.url, **options)
        opened.append(ui)
        if user:
            ui.login(user, PASSWORD)
            ui.settle()
        return ui

    yield open_one
    for ui in opened:
        ui.close()
    assert [fault for ui in opened for fault in ui.faults()] == []


@pytest.fixture(scope="module")
def window(browser: Browser, broker: ApiBroker, scene: Scene) -> Iterator[WebUi]:
    made = WebUi(browser, broker.url)
    made.login("admin", PASSWORD)
    yield made
    made.close()


@pytest.fixture
def ui(window: WebUi) -> Iterator[WebUi]:
    """The UI of an administrator on the scene, at the overview. The tests of a module share it."""
    window.reset()
    yield window
    assert window.faults() == []
