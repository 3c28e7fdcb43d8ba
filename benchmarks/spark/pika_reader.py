"""A reader with pika, as a program without the source would have it; called by ``scenarios``."""

from __future__ import annotations

import time
from typing import Final

import pika

PREFETCH: Final = 1_000


def seconds_to_read(url: str, queue: str, count: int) -> float:
    """How long it takes to read the first ``count`` messages of a stream as Python tuples."""
    rows: list[tuple[int, int | None, str, bytes]] = []
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)

        def on_message(
            channel: pika.adapters.blocking_connection.BlockingChannel,
            method: pika.spec.Basic.Deliver,
            properties: pika.BasicProperties,
            body: bytes,
        ) -> None:
            headers = properties.headers or {}
            rows.append(
                (headers["x-stream-offset"], properties.timestamp, method.routing_key, body)
            )
            if len(rows) % (PREFETCH // 2) == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if len(rows) >= count:
                channel.stop_consuming()

        begun = time.perf_counter()
        channel.basic_consume(queue, on_message, arguments={"x-stream-offset": "first"})
        channel.start_consuming()
        return time.perf_counter() - begun
