"""What tests of forms do again and again: open a page or a form, confirm, and read the answer."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.support.api_broker import segment
from tests.support.web_browser import WebUi

if TYPE_CHECKING:
    from playwright.sync_api import Locator


def toast(ui: WebUi, text: str) -> None:
    """Wait until the page has said this, and take it away."""
    found = ui.page.locator(".toasts .toast", has_text=text).first
    found.wait_for()
    found.get_by_role("button", name="Dismiss").click()


def dialog(ui: WebUi) -> Locator:
    return ui.page.get_by_role("dialog")


def field(ui: WebUi, label: str) -> Locator:
    """The input of the dialog whose label begins with this; a hint may follow."""
    return dialog(ui).get_by_label(re.compile(f"^{label}"))


def confirm(ui: WebUi, action: str) -> None:
    """Press the button that does what the dialog asks."""
    dialog(ui).get_by_role("button", name=action, exact=True).click()


def open_queue(ui: WebUi, name: str, tab: str) -> None:
    ui.go(f"queues/%2F/{segment(name)}?tab={tab}")


def open_exchange(ui: WebUi, name: str, tab: str) -> None:
    ui.go(f"exchanges/%2F/{segment(name)}?tab={tab}")


def setting(ui: WebUi, name: str) -> Locator:
    """The row of an argument among the settings of a queue."""
    return ui.page.locator("main tbody tr", has=ui.page.get_by_text(name, exact=True))


def section(ui: WebUi, title: str) -> Locator:
    """The card of this title."""
    return ui.page.locator("section", has=ui.page.get_by_role("heading", name=title, exact=True))


def fill_argument(form: Locator, described: dict[str, Any]) -> None:
    """Give an argument the value of its example, by whatever input the form has for it."""
    title, example, kind = described["title"], described["example"], described["input"]
    value = form.get_by_label(title, exact=True)
    if kind in ("duration_ms", "bytes"):
        form.get_by_label(f"Unit of {title}", exact=True).select_option("1")
        value.fill(str(example))
    elif kind == "flag":
        value.select_option("true" if example else "false")
    elif kind == "choice":
        value.select_option(str(example))
    elif kind == "list":
        for each in example:
            value.locator("label", has_text=each).get_by_role("checkbox").check()
    elif kind == "json":
        value.fill(json.dumps(example))
    else:
        value.fill(str(example))
