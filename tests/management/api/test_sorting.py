"""Lists are sorted by what their rows show, also where no row is described for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.management.pages import offered_sorts
from tests.support.api_broker import ApiBroker

LISTS = ("queues", "consumers", "channels", "connections", "exchanges")


@pytest.fixture(scope="module")
def busy(running: ApiBroker) -> Iterator[ApiBroker]:
    """Queues, consumers and channels that differ in all that lists are sorted by."""
    publisher = running.connect()
    channel = publisher.channel()
    confirming = publisher.channel()
    confirming.confirm_delivery()
    confirming.basic_qos(prefetch_count=9)
    channel.exchange_declare("sorted", "fanout")
    for number in range(4):
        name = f"sorted-{number}"
        arguments = {"x-single-active-consumer": True} if number == 3 else None
        channel.queue_declare(name, arguments=arguments)
        channel.queue_bind(name, "sorted")
        for _ in range(number * 3 % 4):
            channel.basic_publish("", name, b"x" * (10 - number))
    channel.basic_publish("sorted", "", b"to all")
    consuming = running.connect("monitor")
    for number, prefetch in ((1, 2), (2, 1), (3, 5)):
        taking = consuming.channel()
        taking.basic_qos(prefetch_count=prefetch)
        for tag in range(2):
            taking.basic_consume(f"sorted-{number}", lambda *_: None, consumer_tag=f"c{tag}")
    running.connect("manager").channel().basic_consume("sorted-0", lambda *_: None, auto_ack=True)
    assert running.ask("POST", "/queues/%2F/sorted-2/pause").status_code < 300
    running.wait_for(
        "/queues/%2F/sorted-0",
        lambda row: row.get("message_stats", {}).get("deliver_no_ack"),
        "a sample of the counters",
    )
    yield running
    running.disconnect()


def value_at(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def key_of(value: Any) -> tuple[int, Any]:
    """As ``listing`` sorts what rows show; nothing, and a rate of 0, come first."""
    if value is None or value == 0:
        return (0, 0)
    return (2, value) if isinstance(value, str) else (1, value)


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("name", "sort"), [(name, sort) for name in LISTS for sort in offered_sorts(name)]
)
def test_a_list_is_in_the_order_of_what_its_rows_show(
    busy: ApiBroker, name: str, sort: str
) -> None:
    for is_reversed in ("false", "true"):
        query = f"page=1&page_size=100&sort={sort}&sort_reverse={is_reversed}"

        def is_sorted(answer: Any, is_reversed: bool = is_reversed == "true") -> bool:
            shown = [key_of(value_at(row, sort)) for row in answer["items"]]
            assert len(shown) >= 3
            return shown == sorted(shown, reverse=is_reversed)

        # a sample that comes while the answer is made changes its rates
        busy.wait_for(f"/{name}?{query}", is_sorted, f"{name} by {sort}")
