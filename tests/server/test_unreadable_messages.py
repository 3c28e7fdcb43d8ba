"""A message whose octets on disk have changed costs itself, whatever its consumers ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.waiting import wait_for

COUNT = 400
BODY_BYTES = 131_072  # so many of them are more than what a queue keeps in memory
DAMAGED = 350
DEADLINE_S = 60.0

TTL = {"x-message-ttl": 3_600_000}


def body_of(number: int) -> bytes:
    return b"message %05d " % number + bytes(BODY_BYTES)


def number_of(body: bytes) -> int:
    return int(body.split(b" ", 2)[1])


def damage(data_dir: Path, number: int) -> None:
    """Change one octet of the message's body, in whichever segment it stands."""
    wanted = b"message %05d " % number
    for path in sorted((data_dir / "journal").iterdir()):
        octets = path.read_bytes()
        at = octets.find(wanted)
        if at >= 0:
            with path.open("r+b") as segment:
                segment.seek(at + len(wanted) + 100)
                segment.write(b"\xff")
            return
    raise AssertionError(f"no segment has message {number}")


def fill(daemon: BrokerProcess, connection: pika.BlockingConnection, arguments: Any) -> None:
    """COUNT messages on disk, of which one cannot be read."""
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(COUNT):
        channel.basic_publish("", "q", body_of(number), persistent)
    damage(daemon.data_dir, DAMAGED)


@pytest.mark.acceptance
@pytest.mark.parametrize("arguments", [TTL, {}], ids=["times-to-live", "plain"])
@pytest.mark.parametrize(
    ("prefetch", "is_global", "consumers"),
    [(1, False, 1), (7, False, 3), (5, True, 2)],
    ids=["prefetch", "round", "channel-wide"],
)
def test_consumers_with_a_prefetch_get_all_the_others(
    start_daemon: StartDaemon,
    arguments: dict[str, int],
    prefetch: int,
    is_global: bool,
    consumers: int,
) -> None:
    daemon = start_daemon('[limits]\nlarge_message_bytes = "1MiB"\n')
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    try:
        fill(daemon, connection, arguments)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=prefetch, global_qos=is_global)
        received: list[int] = []
        unacked: dict[str, int] = {}
        most: dict[str, int] = {}

        def receive(receiver: Any, method: Any, _: Any, body: bytes) -> None:
            tag = method.consumer_tag
            unacked[tag] = unacked.get(tag, 0) + 1
            most[tag] = max(most.get(tag, 0), unacked[tag])
            received.append(number_of(body))
            pending.append((tag, method.delivery_tag))
            if len(pending) == prefetch or len(received) >= COUNT - 2 * prefetch * consumers:
                for owner, delivery_tag in pending:
                    unacked[owner] -= 1
                    receiver.basic_ack(delivery_tag)
                pending.clear()

        pending: list[tuple[str, int]] = []
        for _ in range(consumers):
            channel.basic_consume("q", receive)

        def is_done() -> bool:
            connection.process_data_events(0.05)
            return len(received) >= COUNT - 1

        wait_for(is_done, DEADLINE_S, f"{COUNT - 1} deliveries")
        assert sorted(received) == [number for number in range(COUNT) if number != DAMAGED]
        assert max(most.values()) <= prefetch
    finally:
        connection.close()


@pytest.mark.acceptance
def test_get_passes_over_it(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("")
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    try:
        fill(daemon, connection, TTL)
        channel = connection.channel()
        received: list[int] = []
        while (got := channel.basic_get("q", auto_ack=True))[2] is not None:
            received.append(number_of(got[2]))
        assert received == [number for number in range(COUNT) if number != DAMAGED]
    finally:
        connection.close()
