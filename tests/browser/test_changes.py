"""What changed on a busy day: more than one page of it, and who did it."""

from __future__ import annotations

import pytest

from tests.support.api_broker import ApiBroker
from tests.support.web_browser import WebUi

pytestmark = pytest.mark.acceptance

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


@pytest.mark.parametrize(
    ("event", "heading"), [("vhost.limits.set", "limited.here"), ("messages.deleted", "emptied")]
)
def test_changes_lead_to_what_they_are_of(
    ui: WebUi, broker: ApiBroker, event: str, heading: str
) -> None:
    for method, path, body in (
        ("PUT", "/vhosts/limited.here", None),
        ("PUT", "/vhost-limits/limited.here/max-queues", {"value": 3}),
        ("PUT", "/queues/%2F/emptied", {"durable": True}),
        (
            "POST",
            "/exchanges/%2F/amq.default/publish",
            {
                "properties": {},
                "routing_key": "emptied",
                "payload": "m",
                "payload_encoding": "string",
            },
        ),
        ("POST", "/queues/%2F/emptied/delete", {"all": True}),
    ):
        answer = broker.ask(method, path, json=body)
        assert answer.status_code < 300, (path, answer.text)
    ui.go(f"changes?filter={event}")
    ui.page.locator("main ul.changes li").first.get_by_role("link").first.click()
    ui.page.get_by_role("heading", name=heading, level=1).wait_for()
