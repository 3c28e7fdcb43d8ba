"""The first administrator in the UI: RabbitMQ's order of steps, and what is said about guest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hareline.settings import Settings
from tests.browser.steps import confirm, dialog, section, toast
from tests.support.api_broker import api_broker
from tests.support.web_browser import WebUi

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.acceptance


def test_an_administrator_is_added_and_guest_is_removed(browser: Browser) -> None:
    with api_broker(Settings()) as broker:
        ui = WebUi(browser, broker.url)
        ui.login("guest", "guest")
        ui.page.get_by_text("Add another administrator").wait_for()
        ui.go("users")
        ui.page.get_by_role("button", name="Add a user").click()
        for label in ("Name", "Password"):
            dialog(ui).get_by_label(label, exact=True).fill("ops")
        dialog(ui).get_by_label("Password again").fill("ops")
        dialog(ui).get_by_role("button", name="Add", exact=True).click()
        toast(ui, "is set")
        ui.go("users/ops")
        ui.page.get_by_role("button", name="Edit …").click()
        dialog(ui).get_by_label("administrator").check()
        dialog(ui).get_by_role("button", name="Save").click()
        toast(ui, "is set")
        section(ui, "Permissions").get_by_role("button", name="Set", exact=True).click()
        toast(ui, "The permission is set.")
        ui.go("users")
        ui.page.get_by_text("hareline user delete guest").wait_for()
        assert ui.violations() == []
        ui.page.get_by_role("button", name="Log out").click()
        ui.login("ops", "ops")
        ui.page.get_by_role("link", name="Delete it").click()
        ui.page.get_by_role("button", name="Delete …").click()
        dialog(ui).get_by_label("Type").fill("guest")
        confirm(ui, "Delete")
        toast(ui, "is deleted")
        ui.settle()
        assert ui.page.get_by_text("everybody knows").count() == 0
        assert ui.faults() == []
        ui.close()
