"""An x-delayed-message exchange that is on its way out has no queue any more."""

from __future__ import annotations

import pytest

from hareline.broker.delayed_queues import delay_queue_name
from tests.support.api_broker import ApiBroker


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("method", "operation"), [("GET", ""), ("POST", "/cancel"), ("POST", "/fire")]
)
def test_delayed_messages_of_an_exchange_without_its_queue(
    broker: ApiBroker, method: str, operation: str
) -> None:
    body = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "fanout"}}
    broker.ask("PUT", "/exchanges/%2F/late", json=body)
    queue = broker.thread.ask(
        lambda made: made.context.vhosts["/"].queues.pop(delay_queue_name("late"))
    )
    try:
        answer = broker.ask(method, f"/exchanges/%2F/late/delayed{operation}", json={"all": True})
    finally:
        broker.thread.ask(lambda made: made.context.vhosts["/"].queues.update({queue.name: queue}))
    assert answer.status_code == 404
    assert answer.json()["reason"] == (
        "exchange 'late' has no delayed messages any more: it is being deleted"
    )
