"""What changed on a busy day: more than one page of it, and who did it."""

from __future__ import annotations

from tests.support.api_broker import ApiBroker
from tests.support.web_browser import WebUi

PAGE = 300


def test_the_morning_of_a_day_with_many_changes(ui: WebUi, broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("made.early", durable=True)
    channel.queue_declare("bound.often", durable=True)
    for number in range(PAGE):
        channel.queue_bind("bound.often", "amq.topic", f"key.{number}")
    ui.go("changes")
    entries = ui.page.locator("main ul.changes li")
    entries.nth(PAGE - 1).wait_for()
    assert entries.count() == PAGE
    early = ui.page.locator("main li", has_text="made.early")
    assert early.count() == 0
    older = ui.page.get_by_role("button", name="Show older changes")
    older.click()
    early.get_by_text("queue.created").wait_for()
    assert "admin over AMQP" in early.inner_text()
    older.wait_for(state="detached")
    assert entries.count() > PAGE
    channel.queue_declare("made.late", durable=True)  # comes with the next answer, before the rest
    ui.page.locator("main li", has_text="made.late").wait_for()
    assert early.count() == 1
