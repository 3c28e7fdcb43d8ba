"""What browser tests look at: queues that grow, wait, die and are bound, and clients that hold.

All names are made here, so a test says ``scene.deep`` and not a text of its own.
"""

from __future__ import annotations

import pika

from .api_broker import ApiBroker

MARKUP = "<img src=x onerror=alert(1)>"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Scene:
    """Made once for a module; tests add to it and take nothing that another one needs."""

    deep = "orders.incoming"
    bound = "orders.eu"
    dead = "orders.dead"
    dying = "orders.short"
    limited = "orders.limited"
    stuck = "orders.stuck"
    stream = "orders.log"
    held = "orders.later"
    groups = "orders.grouped"
    delayed = "orders.delayed"
    decided = "orders.decided"
    policy = "brief"
    long = "orders." + "a-name-that-goes-on-and-on." * 8
    exchange = "orders"
    unrouted = "orders.unrouted"
    evil = MARKUP

    def __init__(self, broker: ApiBroker) -> None:
        self.broker = broker
        self.connection = broker.connect(name="scene")
        channel = self.channel = self.connection.channel()
        channel.exchange_declare(self.unrouted, "fanout", durable=True)
        channel.exchange_declare(
            self.exchange, "topic", durable=True, arguments={"alternate-exchange": self.unrouted}
        )
        channel.exchange_declare("orders.dlx", "fanout", durable=True)
        dead_to = {"x-dead-letter-exchange": "orders.dlx"}
        self._declare(self.deep)
        self._declare(self.bound, {"x-max-priority": 5, "x-message-ttl": 3_600_000})
        self._declare(self.dead)
        self._declare(self.dying, {**dead_to, "x-max-length": 1})
        self._declare(self.limited, {"x-max-length": 10, "x-overflow": "reject-publish"})
        self._declare(self.stuck)
        self._declare(self.stream, {"x-queue-type": "stream"})
        self._declare(self.evil)
        self._declare(self.long)
        self._declare(self.held, {"x-hold-on-publish": True})
        self._declare(self.groups, {"x-message-group-key": "customer"})
        self._declare(self.decided, {"x-message-ttl": HOUR_MS})
        self.put_policy(self.policy, f"^{self.decided}$", {"message-ttl": MINUTE_MS})
        channel.exchange_declare(
            self.delayed, "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}
        )
        channel.queue_bind(self.bound, self.delayed, "later")
        channel.queue_bind(self.dead, "orders.dlx")
        channel.queue_bind(self.bound, self.exchange, "order.eu.*")
        channel.queue_bind(
            self.bound, self.exchange, "order.#", {"x-filter-jms-selector": "size > 10"}
        )
        channel.queue_bind(self.deep, self.unrouted)
        channel.queue_bind(self.evil, self.exchange, MARKUP)
        for number in range(120):
            self.publish(self.deep, f'{{"order": {number}, "customer": "Ada"}}')
        for number in range(9):
            self.publish(self.limited, f"n{number}")
        for number in range(4):
            self.publish(self.dying, f"dies {number}")
        for number in range(3):
            self.publish(self.stuck, f"held {number}")
        self.publish(self.evil, MARKUP, headers={MARKUP: MARKUP})
        for number in range(5):
            self.publish(self.stream, f"kept {number}")
        for number in range(3):
            self.publish(self.held, f"later {number}", {"x-opt-delivery-delay": HOUR_MS + number})
        for customer in ("Ada", "Ada", "Ada", "Ada", "Bob"):
            self.publish(self.groups, f"for {customer}", {"customer": customer})
        for number in range(2):
            self.publish_to(self.delayed, "later", f"after {number}", {"x-delay": HOUR_MS + number})
        channel.basic_qos(prefetch_count=3)
        channel.basic_consume(self.stuck, lambda *_: None, consumer_tag="sleepy")
        channel.basic_consume(self.groups, lambda *_: None, consumer_tag="worker")
        self.connection.process_data_events(0)
        kept = f"/queues/%2F/{self.stream}"
        broker.wait_for(kept, lambda queue: queue["messages"] == 5, "what the stream keeps")
        self.put_reader("billing", 1)
        self.put_reader("reports", 5)

    def _declare(self, name: str, arguments: dict[str, object] | None = None) -> None:
        self.channel.queue_declare(name, durable=True, arguments=arguments or {})

    def publish(self, queue: str, body: str, headers: dict[str, object] | None = None) -> None:
        self.publish_to("", queue, body, headers)

    def publish_to(
        self, exchange: str, key: str, body: str, headers: dict[str, object] | None = None
    ) -> None:
        properties = pika.BasicProperties(
            content_type="application/json", delivery_mode=2, headers=headers
        )
        self.channel.basic_publish(exchange, key, body.encode(), properties)

    def put_reader(self, name: str, offset: int) -> None:
        """Report how far a reader of the stream has come."""
        path = f"/stream/%2F/{self.stream}/readers/{name}"
        answer = self.broker.ask("PUT", path, json={"offset": offset, "pin": True})
        assert answer.status_code == 200, answer.text

    def put_policy(self, name: str, pattern: str, definition: dict[str, object]) -> None:
        """Set a policy for queues."""
        body = {"pattern": pattern, "definition": definition, "apply-to": "queues"}
        answer = self.broker.ask("PUT", f"/policies/%2F/{name}", json=body)
        assert answer.status_code in (201, 204), answer.text

    def close(self) -> None:
        if self.connection.is_open:
            self.connection.close()
