"""Forms of an administrator: policies, users, permissions, virtual hosts, limits, definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.steps import (
    confirm,
    dialog,
    fill_argument,
    open_queue,
    section,
    setting,
    toast,
)
from tests.support.api_broker import OTHER, ApiBroker
from tests.support.browser_scene import Scene
from tests.support.web_browser import WebUi

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Route

pytestmark = pytest.mark.acceptance


def row(ui: WebUi, text: str) -> Locator:
    return ui.page.locator("main tbody tr", has_text=text)


def test_a_policy_is_set_decides_is_changed_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    broker.ask("PUT", "/queues/%2F/by.policy", json={"durable": True})
    ui.go("policies")
    section(ui, "Policies").get_by_role("button", name="Add", exact=True).click()
    form = dialog(ui)
    form.get_by_label("Name", exact=True).fill("short")
    form.get_by_label("Pattern").fill("^by\\.policy$")
    form.get_by_role("button", name="Add", exact=True).click()
    assert "at least one key" in form.get_by_role("alert").inner_text()
    form.get_by_label("Maximum messages", exact=True).fill("42")
    form.get_by_role("button", name="Which queues would this match?").click()
    effect = form.locator("tbody tr", has_text="by.policy")
    effect.get_by_text("x-max-length").wait_for()
    assert "not set → 42" in effect.inner_text()
    assert ui.violations() == []
    form.get_by_role("button", name="Add", exact=True).click()
    toast(ui, "is set")
    open_queue(ui, "by.policy", "settings")
    setting(ui, "x-max-length").get_by_text("policy short").wait_for()
    assert "42" in setting(ui, "x-max-length").inner_text()
    ui.go("policies")
    row(ui, "short").get_by_role("button", name="short", exact=True).click()
    dialog(ui).get_by_label("Maximum messages", exact=True).fill("43")
    dialog(ui).get_by_label("Priority").fill("5")
    dialog(ui).get_by_role("button", name="Save").click()
    toast(ui, "is set")
    policy = broker.get("/policies/%2F/short")
    assert (policy["priority"], policy["definition"]) == (5, {"max-length": 43})
    row(ui, "short").get_by_role("button", name="Delete").click()
    confirm(ui, "Delete")
    toast(ui, "Deleted.")
    assert [each["name"] for each in broker.get("/policies/%2F")] == [Scene.policy]


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_every_key_of_a_policy_can_be_set(ui: WebUi, broker: ApiBroker, kind: str) -> None:
    """That the broker takes each of these values, tests/management/api says."""
    sent: dict[str, Any] = {}

    def answer(route: Route) -> None:
        body = route.request.post_data_json
        assert body is not None
        sent.update(body)
        route.fulfill(status=400, json={"error": "bad_request", "reason": "only looked at"})

    ui.page.route(f"**/api/{kind}/%2F/all.keys", answer)
    ui.go("policies")
    title = "Policies" if kind == "policies" else "Operator policies"
    section(ui, title).get_by_role("button", name="Add", exact=True).click()
    form = dialog(ui)
    form.get_by_label("Name", exact=True).fill("all.keys")
    form.get_by_label("Pattern").fill("^all")
    form.evaluate("form => form.querySelectorAll('details').forEach(each => each.open = true)")
    keys = [
        each
        for each in broker.get("/hareline/queue-arguments")["policy_keys"]
        if kind == "policies" or each["is_operator"]
    ]
    for each in keys:
        fill_argument(form, each)
    form.get_by_role("button", name="Add", exact=True).click()
    form.get_by_role("alert").get_by_text("only looked at").wait_for()
    assert sent["definition"] == {each["name"]: each["example"] for each in keys}
    assert len(keys) > 3
    ui.page.unroute_all()


def test_a_policy_says_for_which_names_its_pattern_is_too_slow(
    ui: WebUi, broker: ApiBroker
) -> None:
    names = ("abcd" * 60 + "!", "abcde")
    policy = {"pattern": "^(abcd|abcdabcd)+e$", "definition": {"max-length": 1}}
    assert broker.ask("PUT", "/policies/%2F/slow", json=policy).status_code == 201
    for name in names:
        broker.ask("PUT", f"/queues/%2F/{name}", json={"durable": True})
    ui.go("policies")
    told = row(ui, "too slow for 1").inner_text()
    assert names[0][:40] in told
    assert ui.violations() == []
    for name in names:
        broker.ask("DELETE", f"/queues/%2F/{name}")
    broker.ask("DELETE", "/policies/%2F/slow")


def test_an_operator_policy_is_set_changed_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("policies")
    section(ui, "Operator policies").get_by_role("button", name="Add", exact=True).click()
    form = dialog(ui)
    form.get_by_label("Name", exact=True).fill("bounds")
    form.get_by_label("Pattern").fill("(")
    form.get_by_label("Message TTL", exact=True).fill("60")
    form.get_by_label("Unit of Message TTL").select_option("1000")
    form.get_by_role("button", name="Add", exact=True).click()
    form.get_by_role("alert").wait_for()
    form.get_by_label("Pattern").fill("^limited")
    form.get_by_role("button", name="Add", exact=True).click()
    toast(ui, "is set")
    assert broker.get("/operator-policies/%2F/bounds")["definition"] == {"message-ttl": 60_000}
    row(ui, "bounds").get_by_role("button", name="bounds", exact=True).click()
    dialog(ui).get_by_label("Message TTL", exact=True).fill("2")
    dialog(ui).get_by_role("button", name="Save").click()
    toast(ui, "is set")
    changed = broker.get("/operator-policies/%2F/bounds")["definition"]
    assert changed == {"message-ttl": 120_000}  # the form shows it in minutes
    row(ui, "bounds").get_by_role("button", name="Delete").click()
    confirm(ui, "Delete")
    toast(ui, "Deleted.")


def test_a_user_is_added_changed_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("users")
    ui.page.get_by_role("button", name="Add a user").click()
    form = dialog(ui)
    assert ui.violations() == []
    form.get_by_label("Name", exact=True).fill("grace")
    form.get_by_label("Password", exact=True).fill("hopper")
    form.get_by_label("Password again").fill("hoppr")
    form.get_by_role("button", name="Add", exact=True).click()
    assert "differ" in form.get_by_role("alert").inner_text()
    form.get_by_label("Password again").fill("hopper")
    form.get_by_role("button", name="Add", exact=True).click()
    toast(ui, "is set")
    before = broker.get("/users/grace")
    assert before["tags"] == ["management"]
    ui.go("users/grace")
    ui.page.get_by_role("button", name="Edit …").click()
    dialog(ui).get_by_label("monitoring").check()
    dialog(ui).get_by_role("button", name="Save").click()
    toast(ui, "is set")
    after = broker.get("/users/grace")
    assert sorted(after["tags"]) == ["management", "monitoring"]
    assert after["password_hash"] == before["password_hash"]
    ui.page.get_by_role("button", name="Edit …").click()
    dialog(ui).get_by_label("New password").fill("another")
    dialog(ui).get_by_label("Password again").fill("another")
    dialog(ui).get_by_role("button", name="Save").click()
    toast(ui, "is set")
    assert broker.http.ask("GET", "/api/whoami", auth=("grace", "another")).status_code == 200
    limits = section(ui, "Limits")
    limits.get_by_label("Most connections").fill("3")
    limits.get_by_role("button", name="Set").first.click()
    toast(ui, "The limit is set.")
    assert broker.get("/user-limits/grace")[0]["value"] == {"max-connections": 3}
    ui.page.get_by_role("button", name="Delete …").click()
    assert dialog(ui).get_by_role("button", name="Delete", exact=True).is_disabled()
    dialog(ui).get_by_label("Type").fill("grace")
    confirm(ui, "Delete")
    toast(ui, "is deleted")
    assert broker.refused("/users/grace")[0] == 404


def test_permissions_are_given_and_taken_away(ui: WebUi, broker: ApiBroker) -> None:
    broker.ask("PUT", "/users/ada", json={"password": "x", "tags": "management"})
    ui.go("users/ada")
    ui.page.get_by_text("The user may not enter any virtual host.").wait_for()
    permissions, topics = section(ui, "Permissions"), section(ui, "Topic permissions")
    permissions.get_by_label("Virtual host").select_option(OTHER)
    permissions.get_by_label("configure").fill("^own\\.")
    permissions.get_by_label("write").fill("")
    permissions.get_by_role("button", name="Set", exact=True).click()
    toast(ui, "The permission is set.")
    (given,) = broker.get("/users/ada/permissions")
    assert (given["vhost"], given["configure"], given["write"], given["read"]) == (
        OTHER,
        "^own\\.",
        "",
        ".*",
    )
    permissions.get_by_role("button", name="Change").click()
    assert permissions.get_by_label("configure").input_value() == "^own\\."
    permissions.get_by_label("read").fill("^all\\.")
    permissions.get_by_role("button", name="Set", exact=True).click()
    toast(ui, "The permission is set.")
    (changed,) = broker.get("/users/ada/permissions")
    assert (changed["configure"], changed["read"]) == ("^own\\.", "^all\\.")
    topics.get_by_label("Virtual host").select_option(OTHER)
    topics.get_by_label("exchange").fill("amq.topic")
    topics.get_by_label("write").fill("^a\\.")
    topics.get_by_role("button", name="Set", exact=True).click()
    toast(ui, "The topic permission is set.")
    (topic,) = broker.get("/users/ada/topic-permissions")
    assert (topic["exchange"], topic["write"]) == ("amq.topic", "^a\\.")
    assert ui.violations() == []
    for card, path in ((topics, "topic-permissions"), (permissions, "permissions")):
        card.get_by_role("button", name="Take away").click()
        confirm(ui, "Take away")
        toast(ui, "Taken away.")
        assert broker.get(f"/users/ada/{path}") == []
    permissions.get_by_label("read").fill("(")
    permissions.get_by_role("button", name="Set", exact=True).click()
    permissions.get_by_role("alert").wait_for()


def test_what_the_settings_name_is_changed_there(ui: WebUi) -> None:
    ui.go("users/manager")
    ui.page.get_by_text("The settings file names this user").wait_for()
    assert ui.page.get_by_role("button", name="Edit …").count() == 0
    ui.go(f"vhosts/{OTHER}")
    assert ui.page.get_by_role("button", name="Delete …").is_disabled()


def test_a_virtual_host_is_added_changed_limited_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("vhosts")
    ui.page.get_by_role("button", name="Add a virtual host").click()
    form = dialog(ui)
    assert ui.violations() == []
    form.get_by_label("Name", exact=True).fill("made/here")
    form.get_by_role("button", name="Add", exact=True).click()
    toast(ui, "is set")
    ui.go("vhosts/made%2Fhere")
    ui.page.get_by_role("button", name="Edit …").click()
    dialog(ui).get_by_label("Description").fill("of the tests")
    dialog(ui).get_by_label("Tags").fill("one, two")
    dialog(ui).get_by_label("Default queue type").select_option("quorum")
    dialog(ui).get_by_label("Tracing").check()
    dialog(ui).get_by_label("Protected").check()
    dialog(ui).get_by_role("button", name="Save").click()
    toast(ui, "is set")
    vhost = broker.get("/vhosts/made%2Fhere")
    assert (vhost["description"], vhost["tags"]) == ("of the tests", ["one", "two"])
    assert (vhost["default_queue_type"], vhost["tracing"]) == ("quorum", True)
    assert ui.page.get_by_role("button", name="Delete …").is_disabled()
    ui.page.get_by_role("button", name="Edit …").click()
    dialog(ui).get_by_label("Protected").uncheck()
    dialog(ui).get_by_role("button", name="Save").click()
    toast(ui, "is set")
    form = ui.page.locator("form", has=ui.page.get_by_label("Most queues"))
    for text, expected in (("5", {"max-queues": 5}), ("", {})):
        form.get_by_label("Most queues").fill(text)
        form.get_by_role("button", name="Set").click()
        toast(ui, "limit")
        found = broker.get("/vhost-limits/made%2Fhere")
        assert (found[0]["value"] if found else {}) == expected
    ui.page.get_by_role("button", name="Delete …").click()
    dialog(ui).get_by_label("Type").fill("made/here")
    confirm(ui, "Delete")
    toast(ui, "is deleted")


def test_definitions_are_exported_and_imported(
    ui: WebUi, broker: ApiBroker, tmp_path: Path
) -> None:
    ui.go("definitions")
    with ui.page.expect_download() as download:
        ui.page.get_by_role("button", name="Export as a file").click()
    assert download.value.suggested_filename == "hareline-definitions.json"
    file = tmp_path / "definitions.json"
    download.value.save_as(file)
    assert "queues" in json.loads(file.read_text())
    queue = {
        "name": "imported",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "arguments": {"x-max-length-bytes": 2**60 + 1},
    }
    unknown = {**queue, "name": "lost", "vhost": "not there"}
    file.write_text(json.dumps({"queues": [queue, unknown]}))
    ui.page.get_by_label("File").set_input_files(file)
    ui.page.get_by_text("2 entries").wait_for()
    ui.page.get_by_role("button", name="Import").click()
    ui.page.get_by_text("Imported, but not all of it.").wait_for()
    assert "1 queues" in ui.page.locator("main .notice").inner_text()
    row(ui, "lost").wait_for()
    assert ui.violations() == []
    made = broker.get("/queues/%2F/imported")
    assert made["arguments"] == {"x-max-length-bytes": 2**60 + 1}
    broken = tmp_path / "broken.json"
    broken.write_text("[1, 2")
    ui.page.get_by_label("File").set_input_files(broken)
    ui.page.get_by_text("is not a file of definitions").wait_for()
    assert ui.page.get_by_role("button", name="Import").is_disabled()
