"""Pages of the documentation, and nothing but pages."""

from __future__ import annotations

import pytest

from hareline.management.api.documentation import pages
from hareline.queues.declare.table import ROWS
from tests.support.api_broker import ApiBroker


@pytest.mark.acceptance
def test_a_page_is_markdown(broker: ApiBroker) -> None:
    page = broker.get("/hareline/docs/queue-arguments", "manager")
    assert page["name"] == "queue-arguments"
    assert page["text"].startswith("# Queue arguments")


@pytest.mark.acceptance
def test_the_list_has_titles_and_every_page_of_it_is_there(broker: ApiBroker) -> None:
    items = broker.get("/hareline/docs", "manager")["items"]
    titles = [each["title"] for each in items]
    assert titles == sorted(titles, key=str.lower)
    assert {"name": "queue-arguments", "title": "Queue arguments"} in items
    for each in items:
        text = broker.get(f"/hareline/docs/{each['name']}")["text"]
        assert text.startswith(f"# {each['title']}")


def test_pages_that_explain_arguments_are_shown_to_users() -> None:
    assert {row.page.partition("#")[0] for row in ROWS} <= set(pages())


def test_pages_for_developers_are_not_shown(broker: ApiBroker) -> None:
    assert broker.refused("/hareline/docs/architecture")[0] == 404


@pytest.mark.parametrize(
    "name", ["nothing", "..%2Fpyproject", "%2Fetc%2Fpasswd", "decisions%2F0001-dependencies", "a.b"]
)
def test_whatever_else_is_asked_for_is_404(broker: ApiBroker, name: str) -> None:
    status, body = broker.refused(f"/hareline/docs/{name}")
    assert status == 404
    assert "documentation" in body["reason"]
