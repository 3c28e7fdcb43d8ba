"""Take the pictures of docs/web-ui.md again: ``make screenshots``.

They are of a broker of its own with the scene of the browser tests, while a client publishes and
another one consumes. They are written with few colours, which a third of the size is enough for.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

from hareline.settings import Management
from tests.support.api_broker import PASSWORD, api_broker, api_settings, segment
from tests.support.browser_scene import Scene
from tests.support.web_browser import PHONE, WebUi, web_browser

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SECONDS = 30
COLOURS = 200
SIZE = {"width": 1280, "height": 820}

#: Name of the picture -> address, and what is pressed before it is taken.
PICTURES = {
    "overview": ("overview", ""),
    "queues": ("queues?sort=messages_details.rate&reverse=1", ""),
    "messages": (f"queues/%2F/{Scene.deep}?tab=messages", "details.message summary"),
    "route": (f"queues/%2F/{Scene.bound}?tab=bindings", ""),
    "settings": (f"queues/%2F/{Scene.bound}?tab=settings", ""),
    "dead-letters": ("dead-letters", ""),
}


def save(ui: WebUi, name: str, *, is_whole: bool = False) -> None:
    """Write what the window shows as a picture of few colours."""
    taken = Image.open(io.BytesIO(ui.page.screenshot(full_page=is_whole)))
    # the thin lines of charts keep their colours, though they cover little
    few = taken.convert("RGB").quantize(
        COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    few.save(IMAGES / f"web-ui-{name}.png", optimize=True)


def work(scene: Scene, ui: WebUi, seconds: int) -> None:
    """Some orders a second, most of which a consumer takes."""
    for second in range(seconds):
        for number in range(12 + second % 9):
            scene.publish(scene.deep, f'{{"order": {number}, "customer": "Ada"}}')
            scene.publish_to(scene.exchange, "order.eu.new", "{}", {"size": number})
        for _ in range(8 + second % 5):
            method, _, _ = scene.channel.basic_get(scene.bound)
            if method is not None:
                scene.channel.basic_ack(method.delivery_tag)
        scene.connection.process_data_events(0)
        ui.page.wait_for_timeout(1_000)


def prepare(scene: Scene) -> None:
    """What only the tests need is taken away, and policies say something."""
    broker = scene.broker
    for name in (scene.evil, scene.long):
        broker.ask("DELETE", f"/queues/%2F/{segment(name)}")
    for kind, name, definition in (
        ("policies", "orders", {"message-ttl": 7_200_000, "max-length": 100_000}),
        ("operator-policies", "bounds", {"max-length": 50_000}),
    ):
        body = {"pattern": "^orders\\.eu", "definition": definition, "apply-to": "queues"}
        assert broker.ask("PUT", f"/{kind}/%2F/{name}", json=body).is_success


def main() -> None:
    """Take all pictures, or those whose names are given."""
    wanted = set(sys.argv[1:])
    settings = api_settings(management=Management(sample_interval_s=2))
    with api_broker(settings) as broker, web_browser() as browser:
        scene = Scene(broker)
        prepare(scene)
        ui = WebUi(browser, broker.url, viewport=SIZE)
        ui.login("admin", PASSWORD)
        ui.page.locator(".top").get_by_label("Refresh").select_option("2000")
        work(scene, ui, SECONDS)
        for name, (address, press) in PICTURES.items():
            if wanted and name not in wanted:
                continue
            ui.go(address)
            if name == "queues":
                work(scene, ui, 6)
            if press:
                ui.page.locator(press).first.click()
            ui.page.wait_for_timeout(1_000)
            save(ui, name)
        if not wanted or "route-tester" in wanted:
            ui.go("route-tester")
            ui.page.get_by_label("Exchange").fill(scene.exchange)
            ui.page.get_by_label("Routing key").fill("order.eu.new")
            ui.page.get_by_role("button", name="Test the route").click()
            ui.page.locator("ol.steps").wait_for()
            save(ui, "route-tester", is_whole=True)
        if not wanted or "dark" in wanted:
            ui.page.emulate_media(color_scheme="dark")
            ui.go("overview")
            work(scene, ui, 3)
            save(ui, "dark")
        ui.close()
        if not wanted or "phone" in wanted:
            phone = WebUi(browser, broker.url, viewport=PHONE, is_mobile=True, has_touch=True)
            phone.login("admin", PASSWORD)
            phone.go("queues?sort=messages&reverse=1")
            save(phone, "phone")
            phone.close()
        scene.close()


if __name__ == "__main__":
    main()
