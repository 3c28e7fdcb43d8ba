"""What browser tests look at: queues that grow, wait, die and are bound, and clients that hold.

All names are made here, so a test says ``scene.deep`` and not a text of its own.
"""

from __future__ import annotations

import pika

from .api_broker import ApiBroker

MARKUP = "<img src=x onerror=alert(1)>"


class Scene:
    """Made once for a module; tests add to it and take nothing that another one needs."""

    deep = "orders.incoming"
    bound = "orders.eu"
    dead = "orders.dead"
    dying = "orders.short"
    limited = "orders.limited"
    stuck = "orders.stuck"
    stream = "orders.log"
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
        self.publish(self.stream, "kept")
        channel.basic_qos(prefetch_count=3)
        channel.basic_consume(self.stuck, lambda *_: None, consumer_tag="sleepy")
        self.connection.process_data_events(0)

    def _declare(self, name: str, arguments: dict[str, object] | None = None) -> None:
        self.channel.queue_declare(name, durable=True, arguments=arguments or {})

    def publish(self, queue: str, body: str, headers: dict[str, object] | None = None) -> None:
        properties = pika.BasicProperties(
            content_type="application/json", delivery_mode=2, headers=headers
        )
        self.channel.basic_publish("", queue, body.encode(), properties)

    def close(self) -> None:
        if self.connection.is_open:
            self.connection.close()
