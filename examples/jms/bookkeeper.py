"""The Python part of the example: reads the warehouse's notes, and places an order.

AMQP_URL names the broker, or else BROKER_HOST and BROKER_PORT, as for the Java programs, which
must have run on it before.
"""

from __future__ import annotations

import os

import pika
import pika.exceptions

HOST, PORT = os.environ.get("BROKER_HOST", "127.0.0.1"), os.environ.get("BROKER_PORT", "5672")
URL = os.environ.get("AMQP_URL", f"amqp://guest:guest@{HOST}:{PORT}/%2F")


def main() -> None:
    with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
        channel = connection.channel()
        while True:
            method, properties, body = channel.basic_get("dispatched")
            if method is None:
                break
            print(f"{body.decode()}: {properties.headers['total']}, by {properties.user_id}")
            channel.basic_ack(method.delivery_tag)

        # Without the content type it would be a BytesMessage.
        order = pika.BasicProperties(
            content_type="text/plain", delivery_mode=2, headers={"total": 500}
        )
        channel.basic_publish("amq.topic", "orders", b"250 hedgehogs", order)


if __name__ == "__main__":
    try:
        main()
    except pika.exceptions.AMQPConnectionError:
        raise SystemExit(f"no broker at {HOST}:{PORT}; BROKER_PORT or AMQP_URL names it") from None
