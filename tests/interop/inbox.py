"""A consumer of pika on a channel of its own, and what it got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pika

from tests.support.pika_calls import serve_until

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

SELECTOR: Final = "x-filter-jms-selector"


class Inbox:
    """One consumer on a channel of its own."""

    def __init__(
        self,
        connection: pika.BlockingConnection,
        queue: str,
        selector: str | None = None,
        *,
        prefetch_count: int = 0,
        **options: Any,
    ) -> None:
        self.channel = connection.channel()
        self.bodies: list[bytes] = []
        self.redelivered: list[bool] = []
        self.tags: list[int] = []
        self.channel.basic_qos(prefetch_count=prefetch_count)
        arguments = {} if selector is None else {SELECTOR: selector}
        self.tag = self.channel.basic_consume(
            queue,
            self._on_message,
            arguments={**arguments, **options.pop("arguments", {})},
            **options,
        )

    def _on_message(self, _: Any, method: Any, __: Any, body: bytes) -> None:
        self.bodies.append(body)
        self.redelivered.append(method.redelivered)
        self.tags.append(method.delivery_tag)

    def wait(self, *bodies: bytes) -> None:
        """Until it has as many, which must be these, and no more are on the way."""
        connection = self.channel.connection
        serve_until(connection, lambda: len(self.bodies) >= len(bodies), f"{len(bodies)} bodies")
        self.channel.basic_qos(prefetch_count=0)  # its answer comes behind what is on the way
        connection.process_data_events(0)
        assert self.bodies == list(bodies)


def put(channel: BlockingChannel, queue: str, body: bytes, **properties: Any) -> None:
    channel.basic_publish("", queue, body, pika.BasicProperties(**properties))
