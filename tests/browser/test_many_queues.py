"""10,000 queues: a page of them is as quick as one of fifty."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.api_broker import ApiBroker
from tests.support.web_browser import WebUi

QUEUES = 10_000


@pytest.fixture(scope="module")
def crowded(broker: ApiBroker) -> ApiBroker:
    connection = broker.connect()
    channel = connection.channel()
    for number in range(QUEUES):
        channel.queue_declare(f"many.{number:05}")
    return broker


def test_ten_thousand_queues_are_paged_filtered_and_sorted_by_the_broker(
    crowded: ApiBroker, open_ui: Callable[..., WebUi]
) -> None:
    ui = open_ui()
    ui.go("queues")
    assert "10,000 queues" in ui.page.locator(".pages-count").inner_text()
    assert ui.page.locator("main tbody tr").count() == 50
    ui.page.get_by_role("button", name="Next page").click()
    ui.page.get_by_role("link", name="many.00050").wait_for()
    ui.page.get_by_role("searchbox").fill("many.0777")
    ui.page.get_by_text("10 queues of 10,000").wait_for()
    assert ui.page.locator("main tbody tr").count() == 10
    ui.page.get_by_role("searchbox").fill("")
    ui.page.get_by_role("button", name="Queue", exact=True).click()
    ui.page.get_by_role("link", name="many.09999").wait_for()
    assert ui.page.evaluate("() => document.querySelectorAll('*').length") < 4_000


def test_search_finds_one_of_ten_thousand(
    crowded: ApiBroker, open_ui: Callable[..., WebUi]
) -> None:
    ui = open_ui()
    ui.page.keyboard.press("Control+k")
    ui.page.get_by_role("combobox", name="Search queues").fill("many.04242")
    ui.page.get_by_role("option", name="queue many.04242").click()
    ui.page.get_by_role("heading", name="many.04242", level=1).wait_for()
