"""What is done with messages: published, found, moved, copied, retried, fired, saved, read in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.browser.steps import confirm, dialog, field, open_exchange, open_queue, section, toast
from tests.support.api_broker import ApiBroker, segment
from tests.support.browser_scene import HOUR_MS, Scene
from tests.support.web_browser import WebUi

pytestmark = pytest.mark.acceptance


def declare(broker: ApiBroker, name: str, arguments: dict[str, Any] | None = None) -> None:
    body = {"durable": True, "arguments": arguments or {}}
    assert broker.ask("PUT", f"/queues/%2F/{name}", json=body).status_code in (201, 204)


def fill(
    broker: ApiBroker, name: str, count: int, headers: dict[str, object] | None = None
) -> None:
    for number in range(count):
        body = {
            "properties": {"headers": headers or {}, "delivery_mode": 2},
            "routing_key": name,
            "payload": f"m{number}",
            "payload_encoding": "string",
        }
        answer = broker.ask("POST", "/exchanges/%2F/amq.default/publish", json=body)
        assert answer.json() == {"routed": True}


def count_in(broker: ApiBroker, name: str) -> int:
    found: int = broker.get(f"/queues/%2F/{segment(name)}")["messages"]
    return found


def bodies_in(broker: ApiBroker, name: str) -> list[str]:
    answer = broker.ask("POST", f"/queues/%2F/{segment(name)}/browse", json={}).json()
    return [each["payload"] for each in answer["messages"]]


def choose(ui: WebUi, *bodies: str) -> None:
    for body in bodies:
        message = ui.page.locator("[role=listitem]", has=ui.page.get_by_text(body, exact=True))
        message.get_by_role("checkbox").check()


def test_a_message_is_published_shown_copied_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    declare(broker, "shown")
    declare(broker, "shown.copy")
    open_queue(ui, "shown", "publish")
    ui.page.get_by_label("Body", exact=True).fill('{"hello": "wörld"}')
    ui.page.get_by_role("button", name="Add a header").click()
    ui.page.get_by_label("Headers: name 1").fill("colour")
    ui.page.get_by_label("Headers: value 1").fill("red")
    ui.page.get_by_role("button", name="Publish", exact=True).click()
    toast(ui, "Published")
    open_queue(ui, "shown", "messages")
    message = ui.page.locator("details.message")
    message.locator("summary").click()
    assert '"hello": "wörld"' in message.locator("pre").inner_text()
    assert "colour" in message.inner_text()
    message.get_by_role("button", name="Hex").click()
    assert "7b 22 68 65" in message.locator("pre").inner_text()
    assert ui.violations() == []
    ui.page.get_by_label("Choose message").check()
    ui.page.get_by_role("button", name="Copy …").click()
    assert ui.violations() == []
    field(ui, "Queue").fill("shown.copy")
    confirm(ui, "Copy")
    toast(ui, "1 message copied.")
    assert count_in(broker, "shown.copy") == 1
    ui.page.get_by_label("Choose message").check()
    ui.page.get_by_role("group", name="With 1 message").get_by_role("button", name="Delete").click()
    confirm(ui, "Delete")
    toast(ui, "1 message deleted.")
    assert count_in(broker, "shown") == 0


def test_a_message_is_published_to_an_exchange_with_properties(
    ui: WebUi, broker: ApiBroker
) -> None:
    declare(broker, "published")
    broker.ask("POST", "/bindings/%2F/e/amq.topic/q/published", json={"routing_key": "p.*"})
    open_exchange(ui, "amq.topic", "publish")
    ui.page.get_by_label("Routing key").fill("nowhere")
    ui.page.get_by_role("button", name="Publish", exact=True).click()
    ui.page.get_by_text("No binding matched").wait_for()
    ui.page.get_by_label("Routing key").fill("p.one")
    ui.page.get_by_label("Body is").select_option("base64")
    ui.page.get_by_label("Body", exact=True).fill("AP8=")
    ui.page.get_by_label("Persistent").uncheck()
    ui.page.get_by_text("Properties", exact=True).click()
    ui.page.get_by_label("Priority").fill("3")
    ui.page.get_by_label("Content type").fill("application/octet-stream")
    ui.page.get_by_label("Message id").fill("id-1")
    ui.page.get_by_role("button", name="Publish", exact=True).click()
    toast(ui, "Published, and routed to a queue.")
    answer = broker.ask("POST", "/queues/%2F/published/browse", json={}).json()
    (message,) = answer["messages"]
    assert (message["payload"], message["payload_encoding"]) == ("AP8=", "base64")
    properties = message["properties"]
    assert (properties["priority"], properties["delivery_mode"]) == (3, 1)
    assert properties["message_id"] == "id-1"
    open_queue(ui, "published", "messages")
    ui.page.locator("details.message summary").click()
    assert "00 ff" in ui.page.locator("details.message pre").inner_text()


def test_messages_are_found_by_selector_and_a_wrong_one_is_explained(ui: WebUi) -> None:
    open_queue(ui, Scene.deep, "messages")
    ui.page.get_by_label("Where (JMS selector)").fill("colour = 'none of them'")
    ui.page.get_by_role("button", name="Show", exact=True).click()
    ui.page.get_by_text("No message matches the selector here").wait_for()
    ui.page.get_by_label("Where (JMS selector)").fill("colour = ")
    ui.page.get_by_role("button", name="Show", exact=True).click()
    ui.page.locator("main .notice.danger", has_text="selector").wait_for()


def test_the_browser_turns_pages_from_both_ends(ui: WebUi) -> None:
    open_queue(ui, Scene.deep, "messages")
    first = ui.page.locator("details.message").first
    assert '"order": 0' in first.inner_text()
    ui.page.get_by_role("button", name="More").click()
    ui.page.locator("details.message", has_text='"order": 25').wait_for()
    ui.page.get_by_label("From").select_option("end")
    ui.page.locator("details.message", has_text='"order": 119').wait_for()
    assert '"order": 0,' not in ui.page.locator(".messages").inner_text()


def test_get_puts_back_what_it_showed_or_takes_it(ui: WebUi, broker: ApiBroker) -> None:
    declare(broker, "got")
    fill(broker, "got", 3)
    open_queue(ui, "got", "messages")
    form = section(ui, "Get")
    form.get_by_role("button", name="Get", exact=True).click()
    form.locator("details.message", has_text="m0").wait_for()
    assert count_in(broker, "got") == 3
    form.get_by_label("How many").fill("2")
    form.get_by_label("And then").select_option("ack_requeue_false")
    form.get_by_role("button", name="Get", exact=True).click()
    confirm(ui, "Take")
    form.locator("details.message", has_text="m1").wait_for()
    assert count_in(broker, "got") == 1


def test_messages_move_to_a_queue_and_through_an_exchange(ui: WebUi, broker: ApiBroker) -> None:
    for name in ("from.here", "to.here", "by.exchange"):
        declare(broker, name)
    broker.ask("POST", "/bindings/%2F/e/amq.direct/q/by.exchange", json={"routing_key": "moved"})
    fill(broker, "from.here", 5)
    open_queue(ui, "from.here", "messages")
    choose(ui, "m1", "m3")
    ui.page.get_by_role("button", name="Move …").click()
    field(ui, "Queue").fill("not.there")
    confirm(ui, "Move")
    assert "not.there" in dialog(ui).get_by_role("alert").inner_text()
    field(ui, "Queue").fill("to.her")
    dialog(ui).locator("datalist option[value='to.here']").wait_for(state="attached")
    field(ui, "Queue").fill("to.here")
    confirm(ui, "Move")
    toast(ui, "2 messages moved.")
    assert bodies_in(broker, "to.here") == ["m1", "m3"]
    ui.page.get_by_role("button", name="Move …").click()
    dialog(ui).get_by_label("To a").select_option("exchange")
    field(ui, "Exchange").fill("amq.direct")
    confirm(ui, "Move")
    toast(ui, "3 stayed")
    ui.page.get_by_role("button", name="Move …").click()
    dialog(ui).get_by_label("To a").select_option("exchange")
    field(ui, "Exchange").fill("amq.direct")
    dialog(ui).get_by_label("Each message keeps its routing key").uncheck()
    field(ui, "Routing key").fill("moved")
    confirm(ui, "Move")
    toast(ui, "3 messages moved.")
    assert bodies_in(broker, "by.exchange") == ["m0", "m2", "m4"]
    assert count_in(broker, "from.here") == 0


def test_the_first_messages_are_purged_or_all(ui: WebUi, broker: ApiBroker) -> None:
    declare(broker, "purged")
    fill(broker, "purged", 5)
    open_queue(ui, "purged", "overview")
    ui.page.get_by_role("button", name="Purge …").click()
    confirm(ui, "Cancel")
    assert count_in(broker, "purged") == 5
    ui.page.get_by_role("button", name="Purge …").click()
    assert ui.violations() == []
    dialog(ui).get_by_label("Remove").select_option("first")
    dialog(ui).get_by_label("How many").fill("2")
    confirm(ui, "Purge")
    toast(ui, "2 messages deleted.")
    assert bodies_in(broker, "purged") == ["m2", "m3", "m4"]
    ui.page.get_by_role("button", name="Purge …").click()
    confirm(ui, "Purge")
    toast(ui, "Purged.")
    assert count_in(broker, "purged") == 0


def test_messages_go_to_a_file_and_back(ui: WebUi, broker: ApiBroker, tmp_path: Path) -> None:
    declare(broker, "saved")
    declare(broker, "read.in")
    fill(broker, "saved", 4, {"size": 7})
    open_queue(ui, "saved", "messages")
    choose(ui, "m0", "m2")
    with ui.page.expect_download() as download:
        ui.page.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename == "saved.messages.jsonl"
    file = tmp_path / "messages.jsonl"
    download.value.save_as(file)
    toast(ui, "2 messages exported.")
    assert len(file.read_text().splitlines()) == 4
    open_queue(ui, "read.in", "messages")
    ui.page.get_by_role("button", name="Import …").click()
    assert ui.violations() == []
    dialog(ui).get_by_label("File").set_input_files(file)
    confirm(ui, "Import")
    toast(ui, "2 messages imported.")
    assert bodies_in(broker, "read.in") == ["m0", "m2"]
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    ui.page.get_by_role("button", name="Import …").click()
    dialog(ui).get_by_label("File").set_input_files(cut)
    confirm(ui, "Import")
    said = dialog(ui).get_by_role("alert")
    said.wait_for()
    assert "cut off" in said.inner_text()
    assert "1 message before that is in the queue" in said.inner_text()
    assert count_in(broker, "read.in") == 3


def test_held_messages_are_fired_and_cancelled(ui: WebUi, broker: ApiBroker) -> None:
    declare(broker, "holding", {"x-hold-on-publish": True})
    fill(broker, "holding", 3, {"x-opt-delivery-delay": HOUR_MS})
    open_queue(ui, "holding", "held")
    messages = ui.page.get_by_role("list", name="Messages that wait")
    messages.get_by_role("listitem").nth(2).wait_for()
    assert "in 59 min" in messages.inner_text()
    choose(ui, "m1")
    ui.page.get_by_role("button", name="Fire now").click()
    toast(ui, "1 message fired.")
    facts = broker.get("/queues/%2F/holding")
    assert (facts["messages_ready"], facts["messages_held"]) == (1, 2)
    ui.page.get_by_role("button", name="Cancel …").click()
    confirm(ui, "Delete")
    toast(ui, "2 messages cancelled.")
    ui.page.get_by_text("No message waits for its time").wait_for()
    assert bodies_in(broker, "holding") == ["m1"]


def test_delayed_messages_of_an_exchange_are_fired(ui: WebUi, broker: ApiBroker) -> None:
    arguments = {"x-delayed-type": "fanout"}
    body = {"type": "x-delayed-message", "durable": True, "arguments": arguments}
    broker.ask("PUT", "/exchanges/%2F/delays", json=body)
    declare(broker, "after.delay")
    broker.ask("POST", "/bindings/%2F/e/delays/q/after.delay", json={})
    for name in ("one", "two"):
        message = {
            "properties": {"headers": {"x-delay": HOUR_MS}},
            "routing_key": "",
            "payload": name,
            "payload_encoding": "string",
        }
        broker.ask("POST", "/exchanges/%2F/delays/publish", json=message)
    open_exchange(ui, "delays", "delayed")
    choose(ui, "two")
    ui.page.get_by_role("button", name="Fire now").click()
    toast(ui, "1 message fired.")
    broker.wait_for(
        "/queues/%2F/after.delay", lambda queue: queue["messages"] == 1, "the fired one"
    )
    ui.page.get_by_role("button", name="Cancel …").click()
    confirm(ui, "Delete")
    toast(ui, "1 message cancelled.")
    assert bodies_in(broker, "after.delay") == ["two"]


def test_dead_letters_go_back_by_reason(ui: WebUi, broker: ApiBroker) -> None:
    to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"}
    declare(broker, "graves")
    declare(broker, "too.full", {**to, "x-max-length": 1})
    declare(broker, "it's over", {**to})
    fill(broker, "too.full", 3)
    fill(broker, "it's over", 2)
    taken = {"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"}
    broker.ask("POST", "/queues/%2F/it's over/get", json=taken)
    broker.ask("PATCH", "/queues/%2F/too.full", json={"arguments": {"x-max-length": 100}})
    assert count_in(broker, "graves") == 4
    ui.go("dead-letters")
    graves = ui.page.locator("section", has=ui.page.get_by_role("link", name="graves", exact=True))
    row = graves.locator("tbody tr", has_text="a consumer refused them")
    assert "it's over" in row.inner_text()
    row.get_by_role("button", name="Send back …").click()
    confirm(ui, "Send back")
    toast(ui, "2 messages retried.")
    row.wait_for(state="detached")
    assert count_in(broker, "it's over") == 2
    assert count_in(broker, "graves") == 2
    graves.get_by_role("button", name="Send all back …").click()
    confirm(ui, "Send back")
    toast(ui, "2 messages retried.")
    assert count_in(broker, "too.full") == 3


def test_messages_that_did_not_die_stay_and_the_page_says_why(ui: WebUi, broker: ApiBroker) -> None:
    declare(broker, "alive")
    fill(broker, "alive", 1)
    open_queue(ui, "alive", "messages")
    ui.page.get_by_role("button", name="Retry dead letters").click()
    confirm(ui, "Send back")
    toast(ui, "0 messages retried. 1 stayed")


def test_a_long_operation_shows_its_progress_and_can_be_stopped(
    ui: WebUi, broker: ApiBroker
) -> None:
    declare(broker, "much")
    fill(broker, "much", 2)
    line = {"deleted": 1234, "offsets": [], "refused": {}, "left": 0, "complete": False}
    ui.page.evaluate(
        """line => {
            const real = window.fetch;
            window.fetch = (url, init) => String(url).includes('/much/delete')
                ? Promise.resolve(new Response(new ReadableStream({
                    start(controller) {
                        controller.enqueue(new TextEncoder().encode(line + '\\n'));
                        init.signal.addEventListener('abort', () => controller.error(
                            new DOMException('stopped', 'AbortError')));
                    }})))
                : real(url, init);
        }""",
        json.dumps(line),
    )
    open_queue(ui, "much", "messages")
    choose(ui, "m0")
    ui.page.get_by_role("group", name="With 1 message").get_by_role("button", name="Delete").click()
    confirm(ui, "Delete")
    work = ui.page.locator(".works .toast")
    work.get_by_text("Delete: 1,234 deleted").wait_for()
    assert ui.violations() == []
    work.get_by_role("button", name="Stop").click()
    toast(ui, "Delete: stopped.")
    work.wait_for(state="detached")
