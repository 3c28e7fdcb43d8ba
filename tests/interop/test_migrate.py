"""``hareline migrate`` from a real RabbitMQ 3.10: every message, as it was, in its order."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from hareline.commands.migrate import SourceQueue, exact_properties, login_of, move_all
from tests.support.broker_process import BrokerProcess
from tests.support.http_api import HttpApi
from tests.support.rabbitmq_management import ManagedRabbitMQ, managed_rabbitmq
from tests.support.waiting import wait_for

COUNT = 1_700
PROGRAM = "import typer; from hareline.commands.migrate import migrate; typer.run(migrate)"


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[ManagedRabbitMQ]:
    with managed_rabbitmq() as node:
        yield node


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path)
    made.start()
    yield made
    made.stop()


def connected(url: str) -> Any:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    return connection, connection.channel()


def command(rabbitmq: ManagedRabbitMQ, broker: BrokerProcess, *more: str) -> list[str]:
    return [
        *(sys.executable, "-c", PROGRAM, f"http://127.0.0.1:{rabbitmq.http_port}"),
        *("--source-amqp", rabbitmq.url.rstrip("/")),
        *("--target", f"http://127.0.0.1:{broker.management_port}"),
        *("--target-amqp", f"amqp://127.0.0.1:{broker.port}"),
        *more,
    ]


def fill(rabbitmq: ManagedRabbitMQ, queue: str, count: int) -> list[bytes]:
    """Messages with properties and headers of many types, some with CC; returns their bodies."""
    connection, channel = connected(rabbitmq.url)
    channel.queue_declare(queue, durable=True)
    channel.queue_declare("other", durable=True)
    channel.exchange_declare("e", "topic", durable=True)
    channel.queue_bind(queue, "e", "#")
    bodies = []
    for number in range(count):
        headers = {
            "n": number,
            "big": 1 << 40,
            "d": Decimal("1.5"),
            "list": [1, "x"],
            "t": {"a": None},
        }
        if number == 0:
            headers["CC"] = ["other-key"]
        properties = pika.BasicProperties(
            headers=headers,
            delivery_mode=2,
            priority=3,
            message_id=f"m{number}",
            correlation_id="c",
            timestamp=1_700_000_000,
            type="kind",
        )
        bodies.append(f"body {number}".encode())
        channel.basic_publish("e", f"key.{number}", bodies[-1], properties)
    connection.close()
    wait_for(
        lambda: rabbitmq.api.get(f"/api/queues/%2F/{queue}").get("messages") == count,
        60,
        "RabbitMQ's count of messages",
    )
    return bodies


def taken(url: str, queue: str) -> list[tuple[str, bytes, bytes]]:
    """All messages of a queue: routing key, properties octet by octet, body."""
    found = []
    with exact_properties():
        connection, channel = connected(url)
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                break
            found.append((method.routing_key, properties.octets, body))
        connection.close()
    return found


def test_everything_comes_over(rabbitmq: ManagedRabbitMQ, broker: BrokerProcess) -> None:
    bodies = fill(rabbitmq, "whole", COUNT)
    first_key, first_octets = _first(rabbitmq, "whole")
    done = subprocess.run(
        command(rabbitmq, broker), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} messages moved" in done.stdout
    found = taken(broker.url, "whole")
    assert [body for _, _, body in found] == bodies
    assert [key for key, _, _ in found] == [f"key.{number}" for number in range(COUNT)]
    assert (found[0][0], found[0][1]) == (first_key, first_octets)
    assert taken(broker.url, "other") == []
    assert taken(rabbitmq.url, "whole") == []
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    exchanges = {each["name"] for each in api.get("/api/definitions")["exchanges"]}
    assert exchanges == {"e"}


def _first(rabbitmq: ManagedRabbitMQ, queue: str) -> tuple[str, bytes]:
    with exact_properties():
        connection, channel = connected(rabbitmq.url)
        method, properties, _ = channel.basic_get(queue)
        found = method.routing_key, properties.octets
        connection.close()
    return found


def test_what_is_broken_off_goes_on(rabbitmq: ManagedRabbitMQ, broker: BrokerProcess) -> None:
    bodies = fill(rabbitmq, "part", COUNT)
    process = subprocess.Popen(
        command(rabbitmq, broker), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    for line in process.stderr:
        if b"moving messages: " in line:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    again = subprocess.run(
        command(rabbitmq, broker), capture_output=True, text=True, timeout=300, check=False
    )
    assert again.returncode == 0, again.stdout + again.stderr
    found = [body for _, _, body in taken(broker.url, "part")]
    assert list(dict.fromkeys(found)) == bodies  # none lost, in order
    assert len(found) - len(bodies) <= 500  # only one batch may come twice
    assert taken(rabbitmq.url, "part") == []


def test_a_queue_that_is_not_there_is_named_and_others_go_on(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess
) -> None:
    fill(rabbitmq, "lonely", 1)
    fill(rabbitmq, "together", 1)
    connection, channel = connected(broker.url)
    channel.queue_declare("together", durable=True)
    connection.close()

    class Silent:
        def show_count(self, done: int, total: int) -> None:
            assert 0 < done <= total

    moved, failures = move_all(
        [SourceQueue("/", "lonely", 1), SourceQueue("/", "together", 1)],
        login_of(rabbitmq.url.rstrip("/"), ("amqp",), 5672),
        login_of(f"amqp://127.0.0.1:{broker.port}", ("amqp",), 5672),
        Silent(),  # type: ignore[arg-type]
    )
    assert moved == 1
    assert list(failures) == ["/ lonely"]
    assert "no queue 'lonely'" in failures["/ lonely"]
    assert taken(rabbitmq.url, "lonely")[0][2] == b"body 0"
