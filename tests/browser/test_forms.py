"""Every form does what it says, and says what is wrong with its input."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.api_broker import ApiBroker, segment
from tests.support.browser_scene import Scene
from tests.support.web_browser import WebUi


def toast(ui: WebUi, text: str) -> None:
    ui.page.locator(".toast", has_text=text).first.wait_for()


def open_queue(ui: WebUi, name: str, tab: str) -> None:
    ui.go(f"queues/%2F/{quote(name, safe='')}?tab={tab}")


def test_a_queue_with_arguments_is_declared_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("queues")
    ui.page.get_by_role("button", name="Add a queue").click()
    dialog = ui.page.get_by_role("dialog")
    assert ui.violations() == []
    dialog.get_by_label("Name", exact=True).fill("from.form")
    dialog.get_by_label("Maximum messages", exact=True).fill("7")
    dialog.get_by_label("On overflow").select_option("reject-publish")
    dialog.get_by_label("Message TTL", exact=True).fill("2")
    dialog.get_by_label("Unit of Message TTL").select_option("60000")
    dialog.get_by_role("button", name="Declare").click()
    ui.page.get_by_role("heading", name="from.form", level=1).wait_for()
    made = broker.get("/queues/%2F/from.form")
    assert made["arguments"] == {
        "x-max-length": 7,
        "x-overflow": "reject-publish",
        "x-message-ttl": 120_000,
    }
    ui.page.get_by_role("button", name="Delete …").click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    toast(ui, "is deleted")
    assert broker.refused("/queues/%2F/from.form")[0] == 404


def test_a_refused_declaration_says_why(ui: WebUi) -> None:
    ui.go("queues")
    ui.page.get_by_role("button", name="Add a queue").click()
    dialog = ui.page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("amq.mine")
    dialog.get_by_role("button", name="Declare").click()
    dialog.get_by_role("alert").wait_for()
    assert "amq." in dialog.get_by_role("alert").inner_text()


def test_an_exchange_is_declared_bound_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("exchanges")
    ui.page.get_by_role("button", name="Add an exchange").click()
    dialog = ui.page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("made.exchange")
    dialog.get_by_label("Type").select_option("headers")
    dialog.get_by_role("button", name="Declare").click()
    ui.page.get_by_role("heading", name="made.exchange", level=1).wait_for()
    ui.go("exchanges/%2F/made.exchange?tab=bindings")
    form = ui.page.locator("section", has=ui.page.get_by_role("heading", name="Add a binding"))
    form.get_by_label("Name", exact=True).fill(Scene.bound)
    form.get_by_role("button", name="Add a row").click()
    form.get_by_label("Arguments: name 1").fill("size")
    form.get_by_label("Arguments: value 1").fill("3")
    form.get_by_label("Arguments: type 1").select_option("number")
    form.get_by_role("button", name="Bind").click()
    toast(ui, "Bound.")
    (binding,) = broker.get("/exchanges/%2F/made.exchange/bindings/source")
    assert (binding["destination"], binding["arguments"]) == (Scene.bound, {"size": 3})
    ui.page.locator("main tbody tr", has_text=Scene.bound).get_by_role("button").click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    toast(ui, "The binding is removed.")
    assert broker.get("/exchanges/%2F/made.exchange/bindings/source") == []
    ui.page.get_by_role("button", name="Delete …").click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    toast(ui, "is deleted")


def test_a_message_is_published_shown_copied_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    for name in ("shown", "shown.copy"):
        broker.ask("PUT", f"/queues/%2F/{name}", json={"durable": True})
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
    assert ui.violations() == []
    ui.page.get_by_label("Choose message").check()
    ui.page.get_by_role("button", name="Copy …").click()
    ui.page.get_by_label("To queue").fill("shown.copy")
    ui.page.get_by_role("dialog").get_by_role("button", name="Copy").click()
    toast(ui, "1 message copied.")
    assert broker.get("/queues/%2F/shown.copy")["messages"] == 1
    ui.page.get_by_role("button", name="Delete …").last.click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    toast(ui, "1 message deleted.")
    assert broker.get("/queues/%2F/shown")["messages"] == 0


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
    ui.page.locator("details.message").first.wait_for()
    ui.settle()
    assert '"order": 0,' not in ui.page.locator(".messages").inner_text()


def test_get_puts_back_what_it_showed(ui: WebUi, broker: ApiBroker) -> None:
    open_queue(ui, Scene.limited, "messages")
    before = broker.get(f"/queues/%2F/{segment(Scene.limited)}")["messages"]
    ui.page.get_by_role("button", name="Get", exact=True).click()
    ui.page.locator("details.message", has_text="n0").last.wait_for()
    assert broker.get(f"/queues/%2F/{segment(Scene.limited)}")["messages"] == before


def test_a_queue_is_purged_after_a_question(ui: WebUi, broker: ApiBroker) -> None:
    broker.ask("PUT", "/queues/%2F/purged", json={"durable": True})
    body = {"properties": {}, "routing_key": "purged", "payload": "x", "payload_encoding": "string"}
    broker.ask("POST", "/exchanges/%2F/amq.default/publish", json=body)
    open_queue(ui, "purged", "overview")
    ui.page.get_by_role("button", name="Purge …").click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert broker.get("/queues/%2F/purged")["messages"] == 1
    ui.page.get_by_role("button", name="Purge …").click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    toast(ui, "Purged.")
    assert broker.get("/queues/%2F/purged")["messages"] == 0


def test_a_queue_is_paused_and_resumed(ui: WebUi) -> None:
    open_queue(ui, Scene.deep, "overview")
    ui.page.get_by_role("button", name="Pause").click()
    toast(ui, "Paused")
    ui.page.get_by_role("button", name="Resume").click()
    toast(ui, "delivers again")


def test_a_policy_is_set_and_decides(ui: WebUi, broker: ApiBroker) -> None:
    broker.ask("PUT", "/queues/%2F/by.policy", json={"durable": True})
    ui.go("policies")
    ui.page.get_by_role("button", name="Add", exact=True).first.click()
    dialog = ui.page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("short")
    dialog.get_by_label("Pattern").fill("^by\\.policy$")
    dialog.get_by_label("Maximum messages", exact=True).fill("42")
    assert ui.violations() == []
    dialog.get_by_role("button", name="Add", exact=True).click()
    toast(ui, "is set")
    open_queue(ui, "by.policy", "settings")
    found = ui.page.locator("main tbody tr", has_text="x-max-length")
    found.get_by_text("policy short").wait_for()
    assert "42" in found.inner_text()
    ui.go("policies")
    ui.page.locator("main tbody tr", has_text="short").get_by_role("button", name="Delete").click()
    ui.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    toast(ui, "Deleted.")


def test_a_user_is_added_with_permissions(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("users")
    ui.page.get_by_role("button", name="Add a user").click()
    dialog = ui.page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("grace")
    dialog.get_by_label("Password", exact=True).fill("hopper")
    dialog.get_by_label("Password again").fill("hoppr")
    dialog.get_by_role("button", name="Add", exact=True).click()
    assert "differ" in dialog.get_by_role("alert").inner_text()
    dialog.get_by_label("Password again").fill("hopper")
    dialog.get_by_role("button", name="Add", exact=True).click()
    toast(ui, "is set")
    ui.go("users/grace")
    ui.page.get_by_role("button", name="Set", exact=True).first.click()
    toast(ui, "The permission is set.")
    assert broker.get("/users/grace/permissions")[0]["vhost"] == "/"


def test_a_virtual_host_is_added_limited_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("vhosts")
    ui.page.get_by_role("button", name="Add a virtual host").click()
    dialog = ui.page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("made/here")
    dialog.get_by_role("button", name="Add", exact=True).click()
    toast(ui, "is set")
    ui.go("vhosts/made%2Fhere")
    ui.page.get_by_label("Most queues").fill("5")
    ui.page.locator("form", has=ui.page.get_by_label("Most queues")).get_by_role("button").click()
    toast(ui, "The limit is set.")
    assert broker.get("/vhost-limits/made%2Fhere")[0]["value"] == {"max-queues": 5}
    ui.page.get_by_role("button", name="Delete …").click()
    dialog = ui.page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Delete").is_disabled()
    dialog.get_by_label("Type").fill("made/here")
    dialog.get_by_role("button", name="Delete").click()
    toast(ui, "is deleted")


def test_definitions_are_exported(ui: WebUi) -> None:
    ui.go("definitions")
    with ui.page.expect_download() as download:
        ui.page.get_by_role("button", name="Export as a file").click()
    assert download.value.suggested_filename == "hareline-definitions.json"


def test_a_connection_is_closed_with_a_reason(ui: WebUi, broker: ApiBroker) -> None:
    doomed = broker.connect(name="doomed")
    name = broker.name_of(doomed)
    ui.go(f"connections/{quote(name, safe='')}")
    ui.page.get_by_role("button", name="Close …").click()
    ui.page.get_by_label("Reason").fill("maintenance")
    ui.page.get_by_role("dialog").get_by_role("button", name="Close it").click()
    toast(ui, "The connection is closed.")
    with pytest.raises(Exception, match="maintenance"):
        doomed.process_data_events(5)


@pytest.mark.parametrize("keys", ["Control+k", "/"])
def test_search_finds_everything_by_keyboard(ui: WebUi, keys: str) -> None:
    ui.page.keyboard.press(keys)
    box = ui.page.get_by_role("combobox", name="Search queues")
    box.fill("orders.inc")
    ui.page.get_by_role("option", name="queue orders.incoming").wait_for()
    assert ui.violations() == []
    ui.page.keyboard.press("Enter")
    ui.page.get_by_role("heading", name=Scene.deep, level=1).wait_for()


def test_shortcuts_go_to_pages(ui: WebUi) -> None:
    ui.page.keyboard.press("g")
    ui.page.keyboard.press("q")
    ui.page.get_by_role("heading", name="Queues", level=1).wait_for()
    ui.page.keyboard.press("?")
    ui.page.get_by_role("dialog").get_by_text("search everything").wait_for()
    ui.page.keyboard.press("Escape")
    ui.page.locator("main tbody a").first.focus()
    ui.page.keyboard.press("j")
    assert ui.page.evaluate("() => document.activeElement.closest('tr').rowIndex") == 2
