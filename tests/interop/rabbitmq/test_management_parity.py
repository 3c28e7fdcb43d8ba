"""The same calls of the management API to RabbitMQ 3.10 and to this broker, and what differs.

Statuses, headers and bodies of refusals are compared as they are, answers by their keys and by the
values that are the same for both (``tests.support.answer_shapes``). Needs Debian's rabbitmq-server,
which is started here as a node of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from scripts.management_differences import unlisted, unshown
from tests.support.answer_shapes import differences
from tests.support.broker_process import BrokerProcess
from tests.support.rabbitmq_management import managed_rabbitmq

from .management_walk import BEFORE_TRAFFIC, UNDER_TRAFFIC, Side, take

pytestmark = pytest.mark.acceptance

CONFIG = """
[auth]
failure_delay_s = 0
[management]
sample_interval_s = 1
"""
ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
ROUTE = re.compile(r"/api/[^\s<]*")
METHODS = ("GET", "PUT", "DELETE", "POST")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """This broker, and RabbitMQ."""
    with managed_rabbitmq() as node:
        broker = BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG)
        broker.start()
        ours = Side(f"http://127.0.0.1:{broker.management_port}", broker.url)
        theirs = Side(node.http_url, node.url)
        try:
            yield ours, theirs
            ours.close()
            broker.stop()
        finally:
            theirs.close()
            broker.kill()


@pytest.fixture(scope="module")
def lines(sides: tuple[Side, Side]) -> list[str]:
    """Every difference of the walk in a line."""
    found = [
        f"{label}: {each}"
        for label, answers in take(*sides).items()
        for ours, theirs in answers
        for each in differences(ours, theirs)
    ]
    return sorted(set(found))


def test_every_difference_is_listed(lines: list[str]) -> None:
    new = unlisted(lines)
    assert not new, "\n".join(["not in scripts/management_differences.py:", *new])


def test_every_listed_difference_is_there(lines: list[str]) -> None:
    gone = unshown(lines)
    assert not gone, (
        f"no longer there, so to be taken from scripts/management_differences.py: {gone}"
    )


def test_the_walk_takes_every_route_of_rabbitmq(sides: tuple[Side, Side]) -> None:
    steps = [(step.method, step.path.partition("?")[0]) for step in BEFORE_TRAFFIC + UNDER_TRAFFIC]
    left_out = []
    routes = list(routes_of(sides[1].page_of_routes()))
    assert len(routes) > 80
    for method, route in routes:
        fits = re.compile(re.sub(r"\{\}", "[^/]+", route))
        if not any(asked == method and fits.fullmatch(path) for asked, path in steps):
            left_out.append(f"{method} {route}")
    assert not left_out


def routes_of(page: str) -> Iterator[tuple[str, str]]:
    """Method and path of each route that RabbitMQ describes, with {} for names."""
    for row in ROW.findall(page):
        cells = CELL.findall(row)
        if len(cells) < len(METHODS) + 1:
            continue
        text = re.sub(r"<i>.*?</i>", "{}", cells[len(METHODS)])
        for path in ROUTE.findall(text):
            for method, mark in zip(METHODS, cells, strict=False):
                if mark.strip():
                    yield method, path.rstrip("/")
