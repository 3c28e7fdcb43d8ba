"""Pages of the documentation, and nothing but pages."""

from __future__ import annotations

import pytest

from tests.support.api_broker import ApiBroker


def test_a_page_is_markdown(broker: ApiBroker) -> None:
    page = broker.get("/hareline/docs/queue-arguments", "manager")
    assert page["name"] == "queue-arguments"
    assert page["text"].startswith("# Queue arguments")


@pytest.mark.parametrize(
    "name", ["nothing", "..%2Fpyproject", "%2Fetc%2Fpasswd", "decisions%2F0001-dependencies", "a.b"]
)
def test_whatever_else_is_asked_for_is_404(broker: ApiBroker, name: str) -> None:
    status, body = broker.refused(f"/hareline/docs/{name}")
    assert status == 404
    assert "documentation" in body["reason"]
