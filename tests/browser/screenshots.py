"""Take the pictures of docs/web-ui.md again: `python -m tests.browser.screenshots`.

They are of a broker of its own with the scene of the browser tests, while a client publishes.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from tests.support.api_broker import PASSWORD, api_broker
from tests.support.browser_scene import Scene
from tests.support.web_browser import PHONE, WebUi, web_browser

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SECONDS = 30


def main() -> None:
    with api_broker() as broker, web_browser() as browser:
        scene = Scene(broker)
        scene.broker.ask("DELETE", f"/queues/%2F/{quote(scene.evil, safe='')}")
        ui = WebUi(browser, broker.url, viewport={"width": 1280, "height": 860})
        ui.login("admin", PASSWORD)
        ui.page.locator(".top").get_by_label("Refresh").select_option("2000")
        for second in range(SECONDS):
            for number in range(5 + second % 7):
                scene.publish(scene.deep, f'{{"order": {number}, "customer": "Ada"}}')
            scene.connection.process_data_events(0)
            ui.page.wait_for_timeout(1_000)
        for name, address in (
            ("overview", "overview"),
            ("queues", "queues?sort=messages_details.rate&reverse=1"),
            ("messages", f"queues/%2F/{scene.deep}?tab=messages"),
            ("route", f"queues/%2F/{scene.bound}?tab=bindings"),
        ):
            ui.go(address)
            ui.page.wait_for_timeout(2_500)
            if name == "messages":
                ui.page.locator("details.message summary").first.click()
            ui.page.screenshot(path=IMAGES / f"web-ui-{name}.png")
        ui.go("route-tester")
        ui.page.get_by_label("Exchange").fill(scene.exchange)
        ui.page.get_by_label("Routing key").fill("order.eu.new")
        ui.page.get_by_role("button", name="Test the route").click()
        ui.page.locator("ol.steps").wait_for()
        ui.page.screenshot(path=IMAGES / "web-ui-route-tester.png", full_page=True)
        ui.page.emulate_media(color_scheme="dark")
        ui.go("overview")
        ui.page.wait_for_timeout(2_500)
        ui.page.screenshot(path=IMAGES / "web-ui-dark.png")
        ui.close()
        phone = WebUi(browser, broker.url, viewport=PHONE, is_mobile=True, has_touch=True)
        phone.login("admin", PASSWORD)
        phone.go("queues")
        phone.page.screenshot(path=IMAGES / "web-ui-phone.png")
        phone.close()
        scene.close()


if __name__ == "__main__":
    main()
