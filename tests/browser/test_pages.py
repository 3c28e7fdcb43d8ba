"""Every page: it is there, without an error, readable in both colours, on a phone, and to axe."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.support.browser_scene import Scene
from tests.support.web_browser import PHONE, WebUi

Open = Callable[..., WebUi]


def queue(name: str, tab: str = "overview") -> str:
    return f"queues/%2F/{quote(name, safe='')}?tab={tab}"


#: Address -> what its first heading says.
PAGES = {
    "overview": None,
    "queues": "Queues",
    queue(Scene.deep): Scene.deep,
    queue(Scene.deep, "messages"): Scene.deep,
    queue(Scene.deep, "publish"): Scene.deep,
    queue(Scene.stuck, "consumers"): Scene.stuck,
    queue(Scene.bound, "bindings"): Scene.bound,
    queue(Scene.bound, "settings"): Scene.bound,
    "exchanges": "Exchanges",
    "exchanges/%2F/orders": "orders",
    "exchanges/%2F/orders?tab=bindings": "orders",
    "exchanges/%2F/orders?tab=test": "orders",
    "exchanges/%2F/~": "(default)",
    "streams": "Streams",
    "dead-letters": "Dead letters",
    "connections": "Connections",
    "connections?only=blocked": "Connections",
    "channels": "Channels",
    "consumers": "Consumers",
    "route-tester": "Route tester",
    "near-limits": "Near a limit",
    "changes": "What changed today",
    "vhosts": "Virtual hosts",
    "vhosts/%2F": "/",
    "users": "Users",
    "users/manager": "manager",
    "policies": "Policies",
    "definitions": "Definitions",
    "docs/queue-arguments": "Queue arguments",
}


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_there_and_clean(ui: WebUi, address: str) -> None:
    ui.go(address)
    expected = PAGES[address]
    if expected is not None:
        assert ui.heading() == expected
    assert ui.page.locator("main .notice.danger").count() == 0
    assert ui.violations() == []


def test_the_dark_colours_have_contrast_too(open_ui: Open, scene: Scene) -> None:
    ui = open_ui(color_scheme="dark")
    assert ui.page.evaluate("() => getComputedStyle(document.body).backgroundColor") == (
        "rgb(14, 19, 24)"
    )
    for address in ("overview", "queues", queue(Scene.bound, "settings"), "dead-letters"):
        ui.go(address)
        assert ui.violations() == []


def test_the_switch_overrules_the_colours_of_the_system(ui: WebUi) -> None:
    def background() -> str:
        return str(ui.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))

    light = background()
    ui.page.locator(".top").get_by_label("Colours").select_option("dark")
    assert background() != light
    ui.page.reload()
    ui.settle()
    assert background() != light


@pytest.mark.parametrize("address", PAGES)
def test_on_a_phone_nothing_is_cut_off(open_ui: Open, scene: Scene, address: str) -> None:
    ui = open_ui(viewport=PHONE, has_touch=True, is_mobile=True)
    ui.go(address)
    assert not ui.is_wider_than_screen()


def test_the_phone_has_a_menu_and_is_clean(open_ui: Open, scene: Scene) -> None:
    ui = open_ui(viewport=PHONE, has_touch=True, is_mobile=True)
    ui.page.get_by_role("button", name="Open the menu").click()
    ui.page.get_by_role("navigation", name="Main").get_by_role("link", name="Queues").click()
    ui.settle()
    assert ui.heading() == "Queues"
    assert ui.violations() == []


def test_names_of_clients_are_text(ui: WebUi) -> None:
    for address in (
        "queues",
        queue(Scene.evil, "messages"),
        queue(Scene.evil, "bindings"),
        "exchanges/%2F/orders?tab=bindings",
    ):
        ui.go(address)
        assert ui.page.locator("main img").count() == 0
    ui.go(queue(Scene.evil, "messages"))
    ui.page.locator("details.message summary").first.click()
    assert ui.page.locator("pre", has_text=Scene.evil).count() == 1


def test_an_unknown_page_says_so(ui: WebUi) -> None:
    ui.page.evaluate("() => { location.hash = '#/nonsense' }")
    ui.page.get_by_text("There is no such page").wait_for()


def test_a_missing_queue_says_so(ui: WebUi) -> None:
    ui.page.evaluate("() => { location.hash = '#/queues/%2F/nowhere' }")
    ui.page.get_by_text("There is no such queue").wait_for()
