"""What the tests of Spark say to a broker: where it is in the words of source and sink, and by pika
what is in its queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pika

from hareline.spark.shared.options import CONNECTION_OPTIONS, Connection, OptionReader
from tests.support.broker_process import BrokerProcess


def options_for(broker: BrokerProcess, **options: str) -> dict[str, str]:
    """Options of a write to this broker, as a user of Spark gives them."""
    return {"url": f"amqp://{broker.host}:{broker.port}", "user": broker.username, **options}


def source_options_for(broker: BrokerProcess, **options: str) -> dict[str, str]:
    """Options of a read from this broker."""
    management = {"httpUrl": f"http://{broker.host}:{broker.management_port}"}
    return {**options_for(broker), **management, **options}


def connection_to(broker: BrokerProcess, **options: str) -> Connection:
    return OptionReader(options_for(broker, **options), CONNECTION_OPTIONS, {}).connection()


def connection_at(port: int) -> Connection:
    """A connection to a port of this machine where there need not be a broker."""
    given = {"url": f"amqp://127.0.0.1:{port}", "user": "guest"}
    return OptionReader(given, CONNECTION_OPTIONS, {}).connection()


@contextmanager
def channel_of(broker: BrokerProcess) -> Iterator[Any]:
    """A channel of pika's, which shares no code of ours."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        yield connection.channel()
    finally:
        connection.close()


def declare(
    broker: BrokerProcess,
    queue: str,
    arguments: Mapping[str, object] | None = None,
    *,
    durable: bool = False,
) -> None:
    with channel_of(broker) as channel:
        channel.queue_declare(queue, durable=durable, arguments=arguments)


def take_all(broker: BrokerProcess, queue: str) -> list[tuple[Any, Any, bytes]]:
    """All messages of a queue with the method and the properties they came with."""
    taken: list[tuple[Any, Any, bytes]] = []
    with channel_of(broker) as channel:
        count = channel.queue_declare(queue, passive=True).method.message_count
        if count:
            for got in channel.consume(queue, auto_ack=True):
                taken.append(got)
                if len(taken) == count:
                    break
            channel.cancel()
    return taken


def bodies_in(broker: BrokerProcess, queue: str) -> list[bytes]:
    return [body for _, _, body in take_all(broker, queue)]
