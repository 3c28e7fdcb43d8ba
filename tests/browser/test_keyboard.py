"""Search, shortcuts, and all that has to work without a mouse."""

from __future__ import annotations

import pytest

from tests.support.api_broker import ApiBroker
from tests.support.browser_scene import Scene
from tests.support.web_browser import WebUi

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("keys", ["Control+k", "/"])
def test_search_finds_everything_by_keyboard(ui: WebUi, keys: str) -> None:
    ui.page.keyboard.press(keys)
    box = ui.page.get_by_role("combobox", name="Search queues")
    box.fill("orders.inc")
    ui.page.get_by_role("option", name="queue orders.incoming").wait_for()
    assert ui.violations() == []
    ui.page.keyboard.press("Enter")
    ui.page.get_by_role("heading", name=Scene.deep, level=1).wait_for()


@pytest.mark.parametrize(
    ("text", "kind", "heading"),
    [
        ("orders.dlx", "exchange", "orders.dlx"),
        ("orders.log", "stream", "orders.log"),
        ("127.0.0.1", "connection", "127.0.0.1"),
        ("elsewhere", "user", "elsewhere"),
        ("near a", "page", "Near a limit"),
        ("queue arguments", "page", "Queue arguments"),
    ],
)
def test_search_leads_to_objects_and_pages(ui: WebUi, text: str, kind: str, heading: str) -> None:
    ui.page.keyboard.press("Control+k")
    ui.page.get_by_role("combobox", name="Search queues").fill(text)
    ui.page.get_by_role("option", name=kind).first.wait_for()
    ui.page.keyboard.press("Enter")
    ui.page.get_by_role("heading", name=heading, level=1).first.wait_for()


def test_search_says_that_nothing_is_found(ui: WebUi) -> None:
    ui.page.keyboard.press("Control+k")
    ui.page.get_by_role("combobox", name="Search queues").fill("no such thing")
    ui.page.get_by_text("Nothing has this in its name.").wait_for()
    ui.page.keyboard.press("Escape")
    ui.page.get_by_role("dialog").wait_for(state="detached")


def test_shortcuts_go_to_pages_and_lists_are_walked(ui: WebUi) -> None:
    ui.page.keyboard.press("g")
    ui.page.keyboard.press("q")
    ui.page.get_by_role("heading", name="Queues", level=1).wait_for()
    ui.page.keyboard.press("?")
    help_dialog = ui.page.get_by_role("dialog")
    help_dialog.get_by_text("search everything").wait_for()
    assert ui.violations() == []
    ui.page.keyboard.press("Escape")
    first = ui.page.locator("main tbody a").first
    first.focus()
    ui.page.keyboard.press("j")
    assert ui.page.evaluate("() => document.activeElement.closest('tr').rowIndex") == 2
    ui.page.keyboard.press("ArrowUp")
    assert ui.page.evaluate("() => document.activeElement.closest('tr').rowIndex") == 1
    name = first.inner_text()
    ui.page.keyboard.press("Enter")
    ui.page.get_by_role("heading", name=name, level=1).wait_for()


def test_a_dialog_keeps_the_focus_and_gives_it_back(ui: WebUi) -> None:
    ui.go("queues")
    button = ui.page.get_by_role("button", name="Add a queue")
    button.focus()
    ui.page.keyboard.press("Enter")
    ui.page.get_by_role("dialog").get_by_label("Name", exact=True).wait_for()
    assert ui.page.evaluate("() => document.activeElement.closest('dialog') !== null")
    ui.page.keyboard.press("Escape")
    ui.page.get_by_role("dialog").wait_for(state="detached")
    assert ui.page.evaluate("() => document.activeElement.textContent") == "Add a queue"


def test_a_queue_is_declared_without_a_mouse(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("queues")
    ui.page.get_by_role("button", name="Add a queue").focus()
    ui.page.keyboard.press("Enter")
    ui.page.get_by_role("dialog").get_by_label("Name", exact=True).wait_for()
    ui.page.keyboard.type("typed")
    ui.page.keyboard.press("Enter")
    ui.page.get_by_role("heading", name="typed", level=1).wait_for()
    assert broker.get("/queues/%2F/typed")["durable"]


def test_tabs_are_walked_with_arrows(ui: WebUi) -> None:
    ui.go(f"queues/%2F/{Scene.deep}")
    ui.page.get_by_role("tab", name="Overview").focus()
    ui.page.keyboard.press("ArrowRight")
    assert ui.page.get_by_role("tab", name="Messages").get_attribute("aria-selected") == "true"
    ui.page.keyboard.press("End")
    assert ui.page.get_by_role("tab", name="Settings").get_attribute("aria-selected") == "true"
    assert ui.page.evaluate("() => document.activeElement.getAttribute('aria-selected')") == "true"


def test_the_first_stop_of_tab_skips_to_the_content(ui: WebUi) -> None:
    ui.page.keyboard.press("Tab")
    ui.page.keyboard.press("Enter")
    assert ui.page.evaluate("() => document.activeElement.tagName") == "H1"
