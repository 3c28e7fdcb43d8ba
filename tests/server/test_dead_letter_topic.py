"""All dead messages of a virtual host as a topic, with pika, over a restart."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from tests.support.broker_process import StartDaemon
from tests.support.pika_calls import channel_to
from tests.support.waiting import wait_for

pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")

DEADLINE_S: Final = 60.0
COPIES: Final = """
[[vhosts]]
name = "/"
default_dead_letter_exchange = "amq.dead"
dead_letter_copies = true
"""
OWN: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "own"}


def next_of(channel: Any, queue: str) -> tuple[str, dict[str, Any], bytes]:
    """Routing key, headers and body of the next message, when it comes."""
    found: list[Any] = []

    def is_there() -> bool:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append((method.routing_key, properties.headers, body))
        return bool(found)

    wait_for(is_there, DEADLINE_S, f"a message in {queue}")
    (one,) = found
    return one  # type: ignore[no-any-return]


@pytest.mark.row("E8")
@pytest.mark.acceptance
def test_patterns_of_queue_and_reason_lead_to_all_dead_messages(start_daemon: StartDaemon) -> None:
    broker = start_daemon(COPIES)
    with channel_to(broker.url) as channel:
        for queue in ("own", "all", "expired", "of-orders"):
            channel.queue_declare(queue, durable=True)
        channel.queue_bind("all", "amq.dead", "#")
        channel.queue_bind("expired", "amq.dead", "#.expired")
        channel.queue_bind("of-orders", "amq.dead", "shop.orders.*")
        channel.queue_declare("shop.orders", durable=True, arguments=OWN)
        channel.queue_declare("mail", durable=True, arguments={"x-message-ttl": 0})
    broker.stop()
    broker.start()
    with channel_to(broker.url) as channel:
        user = pika.BasicProperties(user_id="guest", delivery_mode=2)
        begun = datetime.now(UTC).replace(microsecond=0)
        channel.basic_publish("", "shop.orders", b"bad", user)
        method, _, _ = channel.basic_get("shop.orders")
        channel.basic_reject(method.delivery_tag, requeue=False)
        _, headers, body = next_of(channel, "own")
        assert (body, "x-dead-queue" in headers) == (b"bad", False)
        key, headers, body = next_of(channel, "of-orders")
        assert (key, body) == ("shop.orders.rejected", b"bad")
        assert headers["x-dead-queue"] == headers["x-first-death-queue"] == "shop.orders"
        assert begun <= headers["x-dead-arrival"] <= headers["x-death"][0]["time"]
        channel.basic_publish("", "mail", b"late")
        key, headers, _ = next_of(channel, "expired")
        assert (key, headers["x-dead-text"]) == ("mail.expired", "its time to live has passed")
        assert [next_of(channel, "all")[0] for _ in range(2)] == [
            "shop.orders.rejected",
            "mail.expired",
        ]
        for queue in ("own", "all", "expired", "of-orders"):
            assert channel.basic_get(queue)[0] is None
