"""Every page: it is there, without an error, readable in both colours, on a phone, and to axe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api_broker import ApiBroker, segment
from tests.support.browser_scene import Scene
from tests.support.web_browser import PHONE, WebUi

pytestmark = pytest.mark.acceptance

Open = Callable[..., WebUi]


def queue(name: str, tab: str = "overview") -> str:
    return f"queues/%2F/{segment(name)}?tab={tab}"


#: Address -> what its first heading says.
PAGES = {
    "overview": None,
    "queues": "Queues",
    "queues?sort=messages_details.rate&reverse=1": "Queues",
    queue(Scene.deep): Scene.deep,
    queue(Scene.deep, "messages"): Scene.deep,
    queue(Scene.deep, "publish"): Scene.deep,
    queue(Scene.held, "held"): Scene.held,
    queue(Scene.groups, "groups"): Scene.groups,
    queue(Scene.stream, "readers"): Scene.stream,
    queue(Scene.stuck, "consumers"): Scene.stuck,
    queue(Scene.stuck, "unacked"): Scene.stuck,
    queue(Scene.bound, "bindings"): Scene.bound,
    queue(Scene.bound, "settings"): Scene.bound,
    queue(Scene.long): Scene.long,
    queue(Scene.long, "bindings"): Scene.long,
    "exchanges": "Exchanges",
    "exchanges/%2F/orders": "orders",
    "exchanges/%2F/orders?tab=bindings": "orders",
    "exchanges/%2F/orders?tab=test": "orders",
    "exchanges/%2F/orders?tab=publish": "orders",
    f"exchanges/%2F/{Scene.delayed}?tab=delayed": Scene.delayed,
    "exchanges/%2F/~": "(default)",
    "streams": "Streams",
    "dead-letters": "Dead letters",
    "connections": "Connections",
    "connections?only=blocked": "Connections",
    "channels": "Channels",
    "consumers?by=stuck": "Consumers",
    "route-tester": "Route tester",
    "near-limits?from=50": "Near a limit",
    "changes": "What changed today",
    "vhosts": "Virtual hosts",
    "vhosts/%2F": "/",
    "users": "Users",
    "users/manager": "manager",
    "policies": "Policies",
    "definitions": "Definitions",
    "docs": "Documentation",
    "docs/queue-arguments": "Queue arguments",
}
#: Of one who comes with a phone, or at night. The structure of a page is the same in both colours.
VARIANTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "light": ({}, ()),
    "dark": ({"color_scheme": "dark"}, ("color-contrast", "link-in-text-block")),
    "phone": ({"viewport": PHONE, "has_touch": True, "is_mobile": True}, ()),
}


def pages(broker: ApiBroker, scene: Scene) -> dict[str, str | None]:
    """All pages, also of the connection and its channel."""
    connection = broker.name_of(scene.connection)
    return {
        **PAGES,
        f"connections/{segment(connection)}": connection,
        f"connections/{segment(connection)}?tab=client": connection,
        f"channels/{segment(f'{connection} (1)')}": f"{connection} (1)",
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_page_is_there_and_clean(
    open_ui: Open, broker: ApiBroker, scene: Scene, variant: str
) -> None:
    options, rules = VARIANTS[variant]
    ui = open_ui(**options)
    found: dict[str, list[str]] = {}
    for address, heading in pages(broker, scene).items():
        ui.go(address)
        problems = ui.violations(rules)
        if heading is not None and ui.heading() != heading:
            problems.append(f"its heading is {ui.heading()!r}")
        problems += ui.page.locator("main .notice.danger").all_inner_texts()
        if ui.is_wider_than_screen():
            problems.append("has to be moved sideways")
        if problems:
            found[address] = problems
    assert found == {}


def test_the_colours_are_those_of_the_system(open_ui: Open) -> None:
    ui = open_ui(color_scheme="dark")
    assert background(ui) == "rgb(14, 19, 24)"


def background(ui: WebUi) -> str:
    return str(ui.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))


def test_the_switch_overrules_the_colours_of_the_system(ui: WebUi) -> None:
    light = background(ui)
    ui.page.locator(".top").get_by_label("Colours").select_option("dark")
    assert background(ui) != light
    ui.page.reload()
    ui.settle()
    assert background(ui) != light


def test_the_phone_has_a_menu(open_ui: Open) -> None:
    ui = open_ui(viewport=PHONE, has_touch=True, is_mobile=True)
    ui.page.get_by_role("button", name="Open the menu").click()
    menu = ui.page.get_by_role("navigation", name="Main")
    assert ui.violations() == []
    menu.get_by_role("link", name="Queues").click()
    ui.settle()
    assert ui.heading() == "Queues"
    assert not menu.is_visible()


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


def test_a_page_of_the_documentation_links_to_pages_that_are_there(ui: WebUi) -> None:
    ui.go(queue(Scene.bound, "settings"))
    ui.page.locator("main").get_by_role("link", name="more", exact=True).first.click()
    ui.page.locator("article.doc-page h1").wait_for()
    ui.page.get_by_role("navigation", name="Where this is").get_by_role("link").click()
    ui.page.get_by_role("heading", name="Documentation", level=1).wait_for()
    names = {
        str(each).partition("?")[0].removeprefix("#/docs/")
        for name in ("queue-arguments", "operations", "web-ui")
        for each in links_of(ui, f"docs/{name}")
    }
    assert len(names) > 10
    for name in names:
        ui.go(f"docs/{name}")
        ui.page.locator("article.doc-page h1").wait_for()


def links_of(ui: WebUi, address: str) -> list[str]:
    """Links to pages of the documentation on a page of it."""
    ui.go(address)
    found: list[str] = ui.page.locator("article.doc-page a").evaluate_all(
        "links => links.map(each => each.getAttribute('href')).filter(each => /^#.docs/.test(each))"
    )
    return found


def test_a_channel_says_which_consumer_is_stuck_and_with_what(
    open_ui: Open, broker: ApiBroker, scene: Scene
) -> None:
    ui = open_ui()
    ui.go(f"channels/{segment(f'{broker.name_of(scene.connection)} (1)')}")
    ui.page.locator(".tile", has_text="Unacknowledged").get_by_text("oldest").wait_for()
    ui.page.locator("main tbody tr", has_text="worker").get_by_text("prefetch full").wait_for()
    held = ui.page.get_by_role("list", name="Unacknowledged messages")
    held.locator("summary", has_text="held 0").wait_for()
