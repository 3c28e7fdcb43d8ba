"""10,000 queues, each of them a dead-letter queue, at its limit and a stream or with a consumer.

Each page that lists per queue shows one page of them, and asks for no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.steps import dialog, field
from tests.support.api_broker import PASSWORD, ApiBroker
from tests.support.web_browser import WebUi

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Response

pytestmark = pytest.mark.acceptance

QUEUES = 10_000
STREAMS = 700
CONSUMERS = 600
CONSUMERS_OF_A_CHANNEL = 300
EXCHANGE = "all.of.them"
ELEMENTS_MAX = 5_000
ANSWER_MAX_BYTES = 700_000


def definitions() -> dict[str, object]:
    """Queues that are bound to one exchange, and streams."""
    place = {"vhost": "/", "durable": True, "auto_delete": False}
    names = [f"many.{number:05}" for number in range(QUEUES)]
    queues = [
        {
            **place,
            "name": name,
            "arguments": {
                "x-max-length": 1,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": dead,
            },
        }
        for name, dead in zip(names, [*names[1:], names[0]], strict=True)
    ]
    streams = [
        {**place, "name": f"stream.{number:03}", "arguments": {"x-queue-type": "stream"}}
        for number in range(STREAMS)
    ]
    bindings = [
        {
            "vhost": "/",
            "source": EXCHANGE,
            "destination": name,
            "destination_type": "queue",
            "routing_key": "",
            "arguments": {},
        }
        for name in names
    ]
    exchange = {**place, "name": EXCHANGE, "type": "fanout", "internal": False, "arguments": {}}
    return {"queues": [*queues, *streams], "exchanges": [exchange], "bindings": bindings}


@pytest.fixture(scope="module")
def crowded(broker: ApiBroker) -> ApiBroker:
    answer = broker.ask("POST", "/definitions", json=definitions())
    assert answer.status_code == 204, answer.text
    connection = broker.connect()
    channel = connection.channel()
    for first in range(0, CONSUMERS, CONSUMERS_OF_A_CHANNEL):
        consuming = connection.channel()
        for number in range(first, first + CONSUMERS_OF_A_CHANNEL):
            consuming.basic_consume(f"many.{number:05}", lambda *_: None)
    channel.basic_publish(EXCHANGE, "", b"x")
    connection.process_data_events(0)
    return broker


@pytest.fixture(scope="module")
def many(crowded: ApiBroker, browser: Browser) -> Iterator[WebUi]:
    made = WebUi(browser, crowded.url)
    made.login("admin", PASSWORD)
    yield made
    made.close()


@pytest.fixture
def ui(many: WebUi) -> Iterator[WebUi]:
    many.reset()
    yield many
    assert many.faults() == []


def count_text(ui: WebUi) -> str:
    return ui.page.locator(".pages-count").last.inner_text()


def test_queues_are_paged_filtered_and_sorted_by_the_broker(ui: WebUi) -> None:
    ui.go("queues")
    assert "10,700 queues" in count_text(ui)
    assert ui.page.locator("main tbody tr").count() == 50
    ui.page.keyboard.press("]")
    ui.page.get_by_role("link", name="many.00050").wait_for()
    ui.page.keyboard.press("[")
    ui.page.get_by_role("link", name="many.00000").wait_for()
    ui.page.get_by_role("searchbox").fill("many.0777")
    ui.page.get_by_text("10 queues of 10,700").wait_for()
    assert ui.page.locator("main tbody tr").count() == 10
    ui.page.get_by_role("searchbox").fill("^many\\.0(00|99)99$")
    ui.page.get_by_label("Regular expression").check()
    ui.page.get_by_text("2 queues of 10,700").wait_for()
    ui.page.get_by_role("button", name="Queue", exact=True).click()
    ui.page.locator("main tbody tr").first.get_by_text("many.09999").wait_for()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("queues", "10,700 queues"),
        ("queues?sort=messages_details.rate&reverse=1", "10,700 queues"),
        ("streams", "700 streams"),
        ("consumers?by=stuck", "600 consumers"),
        ("exchanges/%2F/all.of.them?tab=bindings", "10,000 bindings"),
        ("exchanges/%2F/~?tab=bindings", "10,700 bindings"),
        ("dead-letters", "of 10,000 dead-letter queues"),
        ("near-limits", "that are nearest"),
        ("overview", "10,700"),
        ("vhosts/%2F", ""),
        ("changes", ""),
    ],
)
def test_a_list_per_queue_stays_small(ui: WebUi, address: str, expected: str) -> None:
    ui.go("docs")
    sizes: dict[str, int] = {}

    def note(response: Response) -> None:
        if "/api/" in response.url and response.ok:
            sizes[response.url] = int(response.headers.get("content-length", 0))

    ui.page.on("response", note)
    ui.go(address)
    ui.page.locator("main").get_by_text(expected).locator("visible=true").first.wait_for()
    ui.page.remove_listener("response", note)
    assert ui.page.evaluate("() => document.querySelectorAll('*').length") < ELEMENTS_MAX
    assert sizes
    assert {url: size for url, size in sizes.items() if size > ANSWER_MAX_BYTES} == {}


def test_streams_beyond_the_first_page_are_reached(ui: WebUi) -> None:
    ui.go("streams?page=14")
    ui.page.get_by_role("link", name="stream.699").wait_for()
    ui.page.get_by_role("searchbox").fill("stream.123")
    ui.page.get_by_text("1 stream of 700").wait_for()


def test_search_finds_one_of_ten_thousand(ui: WebUi) -> None:
    ui.page.keyboard.press("Control+k")
    ui.page.get_by_role("combobox", name="Search queues").fill("many.04242")
    ui.page.get_by_role("option", name="queue many.04242").click()
    ui.page.get_by_role("heading", name="many.04242", level=1).wait_for()


def test_names_are_suggested_as_one_types(ui: WebUi) -> None:
    ui.go("queues/%2F/many.05000?tab=messages")
    ui.page.get_by_role("button", name="Copy …").click()
    field(ui, "Queue").fill("many.0999")
    suggested = dialog(ui).locator("datalist option")
    suggested.nth(9).wait_for(state="attached")
    assert suggested.count() == 10
