"""Forms of queues, exchanges and bindings: each is filled, sent, and says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.steps import (
    confirm,
    dialog,
    field,
    fill_argument,
    open_exchange,
    open_queue,
    section,
    setting,
    toast,
)
from tests.support.api_broker import ApiBroker, segment
from tests.support.browser_scene import Scene
from tests.support.web_browser import WebUi

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = pytest.mark.acceptance


def declare(broker: ApiBroker, name: str, arguments: dict[str, Any] | None = None) -> None:
    body = {"durable": True, "arguments": arguments or {}}
    assert broker.ask("PUT", f"/queues/%2F/{segment(name)}", json=body).status_code in (201, 204)


def arguments_of(broker: ApiBroker, name: str) -> dict[str, Any]:
    found: dict[str, Any] = broker.get(f"/queues/%2F/{segment(name)}")["arguments"]
    return found


def test_a_queue_with_arguments_is_declared_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("queues")
    ui.page.get_by_role("button", name="Add a queue").click()
    form = dialog(ui)
    assert ui.violations() == []
    form.get_by_label("Name", exact=True).fill("from.form")
    form.get_by_label("Maximum messages", exact=True).fill("7")
    form.get_by_label("On overflow").select_option("reject-publish")
    form.get_by_label("Message TTL", exact=True).fill("2")
    form.get_by_label("Unit of Message TTL").select_option("60000")
    form.get_by_role("button", name="Declare").click()
    ui.page.get_by_role("heading", name="from.form", level=1).wait_for()
    assert arguments_of(broker, "from.form") == {
        "x-max-length": 7,
        "x-overflow": "reject-publish",
        "x-message-ttl": 120_000,
    }
    ui.page.get_by_role("button", name="Delete …").click()
    confirm(ui, "Delete")
    toast(ui, "is deleted")
    assert broker.refused("/queues/%2F/from.form")[0] == 404


def test_a_refused_declaration_says_why(ui: WebUi) -> None:
    ui.go("queues")
    ui.page.get_by_role("button", name="Add a queue").click()
    dialog(ui).get_by_label("Name", exact=True).fill("amq.mine")
    dialog(ui).get_by_role("button", name="Declare").click()
    alert = dialog(ui).get_by_role("alert")
    alert.wait_for()
    assert "amq." in alert.inner_text()


def test_every_argument_of_every_type_of_queue_can_be_set(ui: WebUi, broker: ApiBroker) -> None:
    """That the broker takes each of these values, tests/management/api says."""
    sent: dict[str, Any] = {}

    def answer(route: Route) -> None:
        body = route.request.post_data_json
        assert body is not None
        sent.update(body["arguments"])
        route.fulfill(status=400, json={"error": "bad_request", "reason": "only looked at"})

    ui.page.route("**/api/queues/%2F/all.arguments", answer)
    described = broker.get("/hareline/queue-arguments")["arguments"]
    done: set[str] = set()
    for kind in ("classic", "quorum", "stream"):
        sent.clear()
        ui.go("queues")
        ui.page.get_by_role("button", name="Add a queue").click()
        form = dialog(ui)
        form.get_by_label("Name", exact=True).fill("all.arguments")
        field(ui, "Type").select_option(kind)
        form.evaluate("form => form.querySelectorAll('details').forEach(each => each.open = true)")
        chosen = [
            each
            for each in described
            if kind in each["queue_types"] and each["name"] not in done | {"x-queue-type"}
        ]
        for each in chosen:
            fill_argument(form, each)
        form.get_by_role("button", name="Declare").click()
        form.get_by_role("alert").get_by_text("only looked at").wait_for()
        expected = {each["name"]: each["example"] for each in chosen}
        if kind != "classic":
            expected["x-queue-type"] = kind
        assert sent == expected
        done |= set(expected)
        ui.page.keyboard.press("Escape")
    assert done == {each["name"] for each in described}
    ui.page.unroute_all()


def test_an_exchange_is_declared_bound_and_deleted(ui: WebUi, broker: ApiBroker) -> None:
    ui.go("exchanges")
    ui.page.get_by_role("button", name="Add an exchange").click()
    dialog(ui).get_by_label("Name", exact=True).fill("made.exchange")
    dialog(ui).get_by_label("Type").select_option("headers")
    dialog(ui).get_by_label("Alternate exchange").fill(Scene.unrouted)
    assert ui.violations() == []
    dialog(ui).get_by_role("button", name="Declare").click()
    ui.page.get_by_role("heading", name="made.exchange", level=1).wait_for()
    assert broker.get("/exchanges/%2F/made.exchange")["arguments"] == {
        "alternate-exchange": Scene.unrouted
    }
    open_exchange(ui, "made.exchange", "bindings")
    form = section(ui, "Add a binding")
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
    confirm(ui, "Remove")
    toast(ui, "The binding is removed.")
    assert broker.get("/exchanges/%2F/made.exchange/bindings/source") == []
    ui.page.get_by_role("button", name="Delete …").click()
    confirm(ui, "Delete")
    toast(ui, "is deleted")


def test_the_form_of_an_exchange_asks_for_what_its_type_needs(ui: WebUi, broker: ApiBroker) -> None:
    for name, kind, label, value, argument in (
        ("made.hash", "x-consistent-hash", "Hash the header", "customer", "hash-header"),
        ("made.delay", "x-delayed-message", "Routes as", "topic", "x-delayed-type"),
    ):
        ui.go("exchanges")
        ui.page.get_by_role("button", name="Add an exchange").click()
        dialog(ui).get_by_label("Name", exact=True).fill(name)
        field(ui, "Type").select_option(kind)
        needed = field(ui, label)
        if argument == "hash-header":
            needed.fill(value)
        else:
            needed.select_option(value)
        dialog(ui).get_by_role("button", name="Declare").click()
        ui.page.get_by_role("heading", name=name, level=1).wait_for()
        made = broker.get(f"/exchanges/%2F/{name}")
        assert (made["type"], made["arguments"]) == (kind, {argument: value})


def test_a_binding_is_made_from_the_page_of_its_queue(ui: WebUi, broker: ApiBroker) -> None:
    declare(broker, "bound.here")
    open_queue(ui, "bound.here", "bindings")
    form = section(ui, "Add a binding")
    form.get_by_label("From exchange").fill("amq.top")
    form.locator("datalist option[value='amq.topic']").wait_for(state="attached")
    form.get_by_label("From exchange").fill("amq.topic")
    form.get_by_label("Routing key").fill("a.#")
    form.get_by_role("button", name="Bind").click()
    toast(ui, "Bound.")
    ui.page.locator("main tbody tr", has_text="a.#").get_by_role("button", name="Remove").click()
    confirm(ui, "Remove")
    toast(ui, "The binding is removed.")
    assert len(broker.get("/queues/%2F/bound.here/bindings")) == 1


def test_arguments_change_while_the_queue_works(ui: WebUi, broker: ApiBroker) -> None:
    declare(broker, "live", {"x-max-length": 10})
    open_queue(ui, "live", "settings")
    form = section(ui, "Change while it runs")
    form.get_by_label("Maximum messages", exact=True).fill("20")
    form.get_by_label("On overflow").select_option("reject-publish")
    form.get_by_role("button", name="Change", exact=True).click()
    toast(ui, "Changed.")
    in_force = broker.get("/queues/%2F/live/arguments")
    assert in_force["changes"] == {"x-max-length": 20, "x-overflow": "reject-publish"}
    found = setting(ui, "x-max-length")
    found.get_by_text("changed while it runs").wait_for()
    found.get_by_role("button", name="take away …").click()
    confirm(ui, "Take away")
    found.get_by_role("button", name="take away …").wait_for(state="detached")
    assert "x-max-length" not in broker.get("/queues/%2F/live/arguments")["effective"]
    form.get_by_label("Maximum messages", exact=True).fill("-3")
    form.get_by_role("button", name="Change", exact=True).click()
    invalid = form.get_by_label("Maximum messages", exact=True)
    assert not invalid.evaluate("field => field.validity.valid")


def test_a_queue_is_paused_and_resumed(ui: WebUi) -> None:
    open_queue(ui, Scene.deep, "overview")
    ui.page.get_by_role("button", name="Pause").click()
    toast(ui, "Paused")
    ui.page.get_by_text("It is paused, so nothing is delivered.").wait_for()
    ui.page.get_by_role("button", name="Resume").click()
    toast(ui, "delivers again")


def test_groups_are_set_free(ui: WebUi, broker: ApiBroker, scene: Scene) -> None:
    open_queue(ui, scene.groups, "groups")
    found = ui.page.locator("main tbody tr", has_text="Ada")
    assert "worker" in found.inner_text()
    found.get_by_role("button", name="Set free …").click()
    confirm(ui, "Set free")
    toast(ui, "1 group set free.")
    ui.page.get_by_role("button", name="Set all free …").click()
    confirm(ui, "Set free")
    toast(ui, "No group had an owner any more.")
    groups = broker.get(f"/queues/%2F/{scene.groups}/groups")
    assert {each["owner"] for each in groups} == {None}


def test_a_reader_of_a_stream_is_removed(ui: WebUi, broker: ApiBroker, scene: Scene) -> None:
    scene.put_reader("gone", 2)
    ui.go("streams")
    found = ui.page.locator("main tbody tr", has_text=scene.stream)
    assert "3 readers" in found.inner_text()
    assert "4 behind" in found.inner_text()
    found.get_by_role("link", name="3 readers").click()
    reader = ui.page.locator("main tbody tr", has_text="gone")
    assert "3 behind" in reader.inner_text()
    reader.get_by_role("button", name="Remove …").click()
    confirm(ui, "Remove")
    toast(ui, "The reader is forgotten.")
    reader.wait_for(state="detached")
    names = {each["name"] for each in broker.get(f"/queues/%2F/{scene.stream}/readers")}
    assert names == {"billing", "reports"}


def test_a_connection_is_closed_with_a_reason(ui: WebUi, broker: ApiBroker) -> None:
    doomed = broker.connect(name="doomed")
    ui.go(f"connections/{segment(broker.name_of(doomed))}")
    ui.page.get_by_role("button", name="Close …").click()
    ui.page.get_by_label("Reason").fill("maintenance")
    confirm(ui, "Close it")
    toast(ui, "The connection is closed.")
    with pytest.raises(Exception, match="maintenance"):
        doomed.process_data_events(5)


def test_the_route_tester_takes_headers_and_properties(ui: WebUi) -> None:
    ui.go("route-tester")
    ui.page.get_by_label("Exchange").fill(Scene.exchange)
    ui.page.get_by_label("Routing key").fill("order.asia.new")
    ui.page.get_by_role("button", name="Add a header").click()
    ui.page.get_by_label("Headers: name 1").fill("size")
    ui.page.get_by_label("Headers: value 1").fill("much")
    ui.page.get_by_label("Headers: type 1").select_option("number")
    ui.page.get_by_role("button", name="Test the route").click()
    assert "much is not a number" in ui.page.get_by_role("alert").inner_text()
    ui.page.get_by_label("Headers: value 1").fill("11")
    ui.page.get_by_label("With further properties").check()
    ui.page.get_by_label("Properties: name 1").fill("priority")
    ui.page.get_by_label("Properties: value 1").fill("4")
    ui.page.get_by_label("Properties: type 1").select_option("number")
    ui.page.get_by_role("button", name="Test the route").click()
    ui.page.get_by_text("1 queue gets the message").wait_for()
    assert ui.page.locator("svg.route .node.queue").count() == 1
    assert ui.violations() == []
