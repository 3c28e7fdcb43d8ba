"""``hareline migrate`` as a process, from a real RabbitMQ 3.10: every message, as it was, in order.

Where there is none, the tests are skipped; what LavinMQ answers is replayed in
test_migrate_lavinmq.py.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest

from hareline.cli.migrate.exact_properties import exact_properties
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.command_line import CommandLine, Done
from tests.support.http_api import HttpApi
from tests.support.pika_calls import channel_to
from tests.support.rabbitmq_management import ManagedRabbitMQ, managed_rabbitmq
from tests.support.terminal import TerminalProcess
from tests.support.tls import make_certificates, tls_front
from tests.support.waiting import wait_for

pytestmark = pytest.mark.acceptance

DEADLINE_S = 120.0
COUNT = 1_700
BATCH = 500
STREAM = {"x-queue-type": "stream"}
KINDS: Mapping[str, dict[str, Any]] = {
    "classic": {},
    "lazy": {"x-queue-mode": "lazy"},
    "quorum": {"x-queue-type": "quorum"},
}


@pytest.fixture(scope="module")
def running() -> Iterator[ManagedRabbitMQ]:
    with managed_rabbitmq() as node:
        yield node


@pytest.fixture
def rabbitmq(running: ManagedRabbitMQ) -> Iterator[ManagedRabbitMQ]:
    """The node, and nothing is left there for the next test."""
    yield running
    for queue in running.api.get("/api/queues"):
        running.api.done("DELETE", f"/api/queues/%2F/{queue['name']}")


@pytest.fixture
def broker(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon()


def migrating(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess, *arguments: str, **environ: str
) -> tuple[CommandLine, list[str]]:
    """The command line for a migration, and its arguments."""
    source = urlsplit(rabbitmq.url)
    command = CommandLine(
        HARELINE_URL=broker.management_url,
        HARELINE_AMQP_URL=f"amqp://127.0.0.1:{broker.port}",
        HARELINE_SOURCE_AMQP_URL=f"amqp://{source.hostname}:{source.port}",
        HARELINE_SOURCE_URL=rabbitmq.http_url,
        **environ,
    )
    return command, ["migrate", *arguments]


def migrated(rabbitmq: ManagedRabbitMQ, broker: BrokerProcess, *arguments: str) -> Done:
    command, words = migrating(rabbitmq, broker, *arguments)
    return command(*words)


def fill(url: str, queue: str, count: int, arguments: dict[str, Any]) -> list[bytes]:
    """Messages with properties and headers of many types, some with CC; returns their bodies."""
    bodies = [f"{queue} {number}".encode() for number in range(count)]
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments=arguments)
        exchange = f"to.{queue}"
        channel.exchange_declare(exchange, "topic", durable=True)
        channel.queue_bind(queue, exchange, "#")
        for number, body in enumerate(bodies):
            headers: dict[str, Any] = {
                "n": number,
                "big": 1 << 40,
                "d": Decimal("1.5"),
                "list": [1, "x"],
                "t": {"a": None},
            }
            if arguments == STREAM:  # RabbitMQ has no others in streams
                headers = {"n": number, "text": "grün"}
            elif number == 0:
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
            channel.basic_publish(exchange, f"key.{number}", body, properties)
    wait_for(lambda: depth(url, queue) == count, DEADLINE_S, f"{count} messages in {queue}")
    return bodies


def depth(url: str, queue: str) -> int:
    with channel_to(url) as channel:
        return int(channel.queue_declare(queue, passive=True).method.message_count)


def taken(url: str, queue: str) -> list[tuple[str, bytes, bytes]]:
    """All messages of a queue: routing key, properties octet by octet, body."""
    found: list[tuple[str, bytes, bytes]] = []
    with exact_properties(), channel_to(url) as channel:
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return found
            found.append((method.routing_key, properties.octets, body))


def read_stream(url: str, queue: str, count: int) -> list[tuple[str, dict[str, Any], bytes]]:
    """The first so many messages: routing key, headers without the offset, body; no more come."""
    found: list[tuple[str, dict[str, Any], bytes]] = []
    with channel_to(url) as channel:
        channel.basic_qos(prefetch_count=100)
        for method, properties, body in channel.consume(
            queue, arguments={"x-stream-offset": "first"}, inactivity_timeout=1
        ):
            if method is None:
                assert len(found) >= count
                return found
            headers = {k: v for k, v in properties.headers.items() if k != "x-stream-offset"}
            found.append((method.routing_key, headers, body))
            channel.basic_ack(method.delivery_tag)
    raise AssertionError("the consumer was ended")


def test_everything_comes_over(rabbitmq: ManagedRabbitMQ, broker: BrokerProcess) -> None:
    bodies = {kind: fill(rabbitmq.url, kind, COUNT, made) for kind, made in KINDS.items()}
    bodies["empty"] = fill(rabbitmq.url, "empty", 0, {})
    with exact_properties(), channel_to(rabbitmq.url) as channel:
        method, properties, _ = channel.basic_get("classic")
        first = (method.routing_key, properties.octets)
    done = migrated(rabbitmq, broker)
    assert done.status == 0, done
    assert f"{3 * COUNT:,} messages moved" in done.text
    for queue, sent in bodies.items():
        found = taken(broker.url, queue)
        assert [body for _, _, body in found] == sent
        assert [key for key, _, _ in found] == [f"key.{number}" for number in range(len(sent))]
        assert taken(rabbitmq.url, queue) == []
        if queue == "classic":
            assert found[0][:2] == first
    exchanges = HttpApi(broker.management_url).get("/api/definitions")["exchanges"]
    assert {each["name"] for each in exchanges} == {f"to.{queue}" for queue in bodies}
    again = migrated(rabbitmq, broker, "--json").json
    assert (again["moved"], again["queues"]) == (0, [])


def test_what_is_killed_goes_on_and_nothing_is_lost(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess
) -> None:
    bodies = {kind: fill(rabbitmq.url, kind, COUNT, made) for kind, made in KINDS.items()}
    bodies["log"] = fill(rabbitmq.url, "log", COUNT, STREAM)
    killed = 0
    for queue in bodies:  # in the middle of each of them
        command, words = migrating(rabbitmq, broker)
        process = command.start(*words)

        def is_under_way(queue: str = queue, process: Any = process) -> bool:
            try:
                return process.poll() is not None or depth(broker.url, queue) > 0
            except pika.exceptions.ChannelClosedByBroker:
                return False  # not yet declared

        wait_for(is_under_way, DEADLINE_S, f"messages in {queue}")
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert killed
    done = migrated(rabbitmq, broker)
    assert done.status == 0, done
    twice = 0
    for queue in KINDS:
        found = [body for _, _, body in taken(broker.url, queue)]
        assert set(found) == set(bodies[queue])  # none lost
        twice += len(found) - len(bodies[queue])
        assert list(dict.fromkeys(found)) == bodies[queue]
        assert taken(rabbitmq.url, queue) == []
    assert twice <= killed * BATCH  # only the batches that were under way
    # a stream is there once, whole
    assert [body for _, _, body in read_stream(broker.url, "log", COUNT)] == bodies["log"]


def test_a_stream_is_copied_by_offset_and_no_run_copies_twice(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess
) -> None:
    bodies = fill(rabbitmq.url, "log", 700, STREAM)
    first = migrated(rabbitmq, broker, "--json")
    assert first.status == 0, first
    assert first.json["queues"] == [
        {"vhost": "/", "name": "log", "kind": "stream", "moved": 700, "problem": ""}
    ]
    found = read_stream(broker.url, "log", 700)
    assert found == read_stream(rabbitmq.url, "log", 700)  # it is still there too
    assert [body for _, _, body in found] == bodies
    assert migrated(rabbitmq, broker, "--json").json["moved"] == 0
    with channel_to(rabbitmq.url) as channel:
        for number in range(3):
            channel.basic_publish("", "log", b"%d" % number)
    more = migrated(rabbitmq, broker, "--no-definitions", "--json")
    assert more.json["moved"] == 3
    found = read_stream(broker.url, "log", 703)
    assert [body for _, _, body in found] == [*bodies, b"0", b"1", b"2"]
    assert found[-1][1] == {}  # the offset was the only header


def test_a_stream_with_messages_of_its_own_is_refused(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess
) -> None:
    fill(rabbitmq.url, "log", 3, STREAM)
    bodies = fill(rabbitmq.url, "plain", 3, {})
    fill(broker.url, "log", 1, STREAM)
    done = migrated(rabbitmq, broker)
    assert done.status == 1
    assert "stream 'log' in vhost '/': the stream here has messages of its own" in done.err
    assert [body for _, _, body in taken(broker.url, "plain")] == bodies  # others go on
    assert depth(broker.url, "log") == 1


def test_what_cannot_be_emptied_is_named_and_others_go_on(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess
) -> None:
    fill(rabbitmq.url, "held", 5, {})
    fill(rabbitmq.url, "lonely", 1, {})
    together = fill(rabbitmq.url, "together", 1, {})
    with channel_to(broker.url) as channel:
        channel.queue_declare("together", durable=True)
        channel.queue_declare("held", durable=True)
    with channel_to(rabbitmq.url) as channel:
        channel.basic_get("held")  # and keeps it
        done = migrated(rabbitmq, broker, "--no-definitions", "--json")
    assert done.status == 1
    assert done.json["moved"] == 5
    problems = {row["name"]: row["problem"] for row in done.json["queues"]}
    assert "1 message still there: a client has them" in problems["held"]
    assert "no queue 'lonely'" in problems["lonely"]
    assert problems["together"] == ""
    assert "hareline: queue 'lonely' in vhost '/': " in done.err
    assert [body for _, _, body in taken(broker.url, "together")] == together
    assert depth(rabbitmq.url, "lonely") == 1


def test_both_ends_speak_tls_with_an_authority_of_their_own(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess, tmp_path: Path
) -> None:
    bodies = fill(rabbitmq.url, "sealed", 3, {})
    folder = tmp_path / "certificates"
    folder.mkdir()
    certificates = make_certificates(folder)
    source = urlsplit(rabbitmq.url).port
    assert source is not None
    assert broker.management_port is not None
    with (
        tls_front(certificates, rabbitmq.http_port) as source_http,
        tls_front(certificates, source) as source_amqp,
        tls_front(certificates, broker.management_port) as target_http,
        tls_front(certificates, broker.port) as target_amqp,
    ):
        config = tmp_path / "client.toml"
        config.write_text(
            f'[targets.new]\nurl = "https://127.0.0.1:{target_http}"\n'
            f'amqp_url = "amqps://127.0.0.1:{target_amqp}"\n'
            f'ca_file = "{certificates.authority}"\n'
        )
        command = CommandLine(HARELINE_CLIENT_CONFIG=str(config))
        words = ["migrate", f"https://127.0.0.1:{source_http}", "--target", "new"]
        words += ["--source-amqp-url", f"amqps://127.0.0.1:{source_amqp}"]
        refused = command(*words)
        assert refused.status == 3
        assert "its certificate is not trusted" in refused.err
        assert "--source-ca-file names the authorities" in refused.err
        done = command(*words, "--source-ca-file", str(certificates.authority))
        assert done.status == 0, done
    assert [body for _, _, body in taken(broker.url, "sealed")] == bodies


def test_a_terminal_has_a_bar_and_a_file_has_the_report(
    rabbitmq: ManagedRabbitMQ, broker: BrokerProcess
) -> None:
    fill(rabbitmq.url, "shown", COUNT, {})
    command, words = migrating(rabbitmq, broker)
    with TerminalProcess(*words, environ=command.environ, columns=120) as session:
        assert session.wait() == 0, session.text
        assert "moving messages" in session.text
        assert "━" in session.text  # the bar
        assert "500 messages" in session.text
        assert f"{COUNT:,} messages moved" in session.text
    fill(rabbitmq.url, "shown", 2, {})
    command, words = migrating(rabbitmq, broker, "--json")
    done = command(*words)
    assert json.loads(done.out)["moved"] == 2
    assert "moving messages" in done.err
