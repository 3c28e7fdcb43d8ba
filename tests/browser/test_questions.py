"""Ten questions of an operator, each answered within three clicks from the first page."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.steps import setting
from tests.support.api_broker import ApiBroker
from tests.support.browser_scene import HOUR_MS, MINUTE_MS, Scene
from tests.support.web_browser import WebUi

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.acceptance


COUNT_CLICKS = """() => {
    window.clicks = 0;
    if (!window.counts) addEventListener('click', () => { window.clicks += 1 }, true);
    window.counts = true;
}"""
CLICKS_MAX = 3


class Clicks:
    """Clicks from the overview on, counted by the page itself."""

    def __init__(self, ui: WebUi) -> None:
        self.ui = ui
        ui.page.evaluate(COUNT_CLICKS)

    @property
    def count(self) -> int:
        return int(self.ui.page.evaluate("() => window.clicks"))

    def click(self, what: Locator) -> None:
        what.click()
        self.ui.settle()

    def ask(self, question: str) -> None:
        self.click(self.ui.page.get_by_role("link", name=re.compile(f"^{re.escape(question)}")))

    def link(self, name: str) -> None:
        self.click(self.ui.page.locator("main").get_by_role("link", name=name, exact=True).first)


@pytest.fixture
def clicks(ui: WebUi) -> Iterator[Clicks]:
    """Counts from the overview on; at the end there may have been three."""
    made = Clicks(ui)
    yield made
    assert 1 <= made.count <= CLICKS_MAX


def row(ui: WebUi, text: str) -> Locator:
    found = ui.page.locator("main tbody tr", has_text=text).first
    found.wait_for()
    return found


def test_which_queue_grows_and_why(ui: WebUi, clicks: Clicks, scene: Scene) -> None:
    ui.page.locator(".top").get_by_label("Refresh").select_option("2000")
    clicks.ask("Which queue grows, and why?")
    grown = ui.page.locator("main tbody tr", has_text=scene.deep)
    why = grown.get_by_text("nothing takes them out")
    deadline = time.monotonic() + 60
    while why.count() == 0 and time.monotonic() < deadline:
        scene.publish(scene.deep, "more")
        ui.page.wait_for_timeout(250)
    assert why.count() == 1


def test_which_consumer_is_stuck_since_when_with_what(
    ui: WebUi, clicks: Clicks, scene: Scene
) -> None:
    clicks.ask("Which consumer is stuck?")
    found = row(ui, "sleepy")
    assert "3" in found.locator("td[data-label=Holds]").inner_text()
    found.locator("td[data-label='Oldest unacked']", has_text=re.compile(r"\d")).wait_for()
    clicks.click(found.locator("td[data-label=Holds]").get_by_role("link"))
    assert ui.heading() == scene.stuck
    held = ui.page.get_by_role("list", name="Unacknowledged messages").locator("details.message")
    held.nth(2).wait_for()
    assert held.count() == 3
    clicks.click(held.first.locator("summary"))
    inside = held.first.locator(".inside")
    assert inside.get_by_label("Message body").inner_text() == "held 0"
    assert "sleepy of admin" in inside.inner_text()


def test_why_is_this_publisher_blocked(
    ui: WebUi, clicks: Clicks, scene: Scene, broker: ApiBroker
) -> None:
    clicks.ask("Why is this publisher blocked?")
    ui.page.get_by_text("No connection is blocked or slowed down").wait_for()
    alarms = broker.thread.ask(lambda each: each.context.alarms)
    broker.thread.ask(lambda _: alarms.set("memory"))
    try:
        scene.publish(scene.deep, "blocks")
        found = row(ui, "scene")
        found.get_by_text("The memory alarm is on").wait_for()
    finally:
        broker.thread.ask(lambda _: alarms.clear("memory"))


def test_why_does_this_publisher_wait_for_a_queue(
    ui: WebUi, clicks: Clicks, broker: ApiBroker
) -> None:
    channel = broker.connect(name="waits for room").channel()
    channel.queue_declare("brim", arguments={"x-max-length": 1, "x-overflow": "flow-control"})
    try:
        for _ in range(2):
            channel.basic_publish("", "brim", b"m")
        clicks.ask("Why is this publisher blocked?")
        found = row(ui, "waits for room")
        found.get_by_text("Queue 'brim' in vhost '/' is full").wait_for()
        clicks.click(found.get_by_role("link", name="brim", exact=True))
        assert ui.heading() == "brim"
    finally:
        broker.ask("DELETE", "/queues/%2F/brim")


def test_where_did_my_message_go(ui: WebUi, clicks: Clicks) -> None:
    clicks.ask("Where did my message go?")
    ui.page.get_by_label("Exchange").fill(Scene.exchange)
    ui.page.get_by_label("Routing key").fill("order.asia.new")
    clicks.click(ui.page.get_by_role("button", name="Test the route"))
    ui.page.get_by_text("1 queue gets the message").wait_for()
    steps = ui.page.locator("ol.steps")
    assert "as alternate of orders" in steps.inner_text()
    assert "its pattern 'order.eu.*' does not match 'order.asia.new'" in steps.inner_text()
    assert "but not its selector size > 10" in steps.inner_text()


def test_what_is_at_the_head_of_this_queue(ui: WebUi, clicks: Clicks, scene: Scene) -> None:
    clicks.ask("What is at the head of a queue?")
    clicks.link(scene.deep)
    clicks.click(ui.page.get_by_role("tab", name=re.compile("Messages")))
    first = ui.page.locator("details.message").first
    assert '"order": 0' in first.inner_text()


def test_who_is_connected_from_this_address_and_what_do_they_do(ui: WebUi, clicks: Clicks) -> None:
    clicks.ask("Who is connected from this address?")
    ui.page.get_by_role("searchbox").fill("127.0.0.1")
    found = row(ui, "scene")
    clicks.click(found.get_by_role("link").first)
    assert "admin" in ui.page.locator("main").inner_text()
    assert row(ui, "(1)").locator("td[data-label=Consumers]").inner_text() == "2"


def test_why_are_these_dead_and_send_them_back(ui: WebUi, clicks: Clicks, scene: Scene) -> None:
    clicks.ask("Why are these dead? Send them back")
    found = row(ui, "the queue was full")
    assert scene.dying in found.inner_text()
    clicks.click(found.get_by_role("button", name="Send back …"))
    clicks.click(ui.page.get_by_role("dialog").get_by_role("button", name="Send back"))
    ui.page.locator(".toast", has_text="retried").wait_for()


def test_which_policy_or_argument_decides_this(ui: WebUi, clicks: Clicks, scene: Scene) -> None:
    clicks.ask("Which policy or argument decides this?")
    clicks.link(scene.decided)
    clicks.click(ui.page.get_by_role("tab", name="Settings"))
    found = setting(ui, "x-message-ttl")
    said = found.inner_text()
    in_force, overruled = said.split("overruled")
    assert "in force" in in_force
    assert f"policy {scene.policy}" in in_force
    assert str(MINUTE_MS) in in_force
    assert "argument" in overruled
    assert str(HOUR_MS) in overruled
    assert "of two limits the smaller one counts" in overruled


def test_what_is_near_a_limit(ui: WebUi, clicks: Clicks, scene: Scene) -> None:
    clicks.ask("What is near a limit?")
    found = row(ui, scene.limited)
    assert "90 %" in found.inner_text()
    assert "new messages are refused" in found.inner_text()


def test_what_changed_today(ui: WebUi, clicks: Clicks, scene: Scene) -> None:
    scene.channel.queue_declare("made.today", durable=True)
    clicks.ask("What changed today?")
    made = ui.page.locator("main li", has_text="made.today")
    made.get_by_text("queue.created").wait_for()
    assert "admin over AMQP from 127.0.0.1:" in made.inner_text()
