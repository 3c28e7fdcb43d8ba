"""An archive has exactly what its queue got, whatever ended the broker: real pika, real daemon."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.pika_calls import channel_to, get_all
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
PERSISTENT = pika.BasicProperties(delivery_mode=2)
SETTINGS = '[journal]\nsegment_bytes = "1MiB"\nretention_age_s = 3600\n'


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon(SETTINGS)


def declare(channel: BlockingChannel, name: str = "orders", **arguments: object) -> None:
    """The stream, and a durable queue that archives to it."""
    channel.queue_declare("archive", durable=True, arguments={"x-queue-type": "stream"})
    named: dict[str, Any] = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments={"x-archive-to": "archive", **named})


def archived(daemon: BrokerProcess, count: int) -> list[tuple[str, str, bytes]]:
    """Exchange, routing key and body of the first messages in the stream."""
    found: list[tuple[str, str, bytes]] = []
    with channel_to(daemon.url, confirms=False) as channel:
        channel.basic_qos(prefetch_count=1000)
        messages = channel.consume(
            "archive", arguments={"x-stream-offset": "first"}, inactivity_timeout=DEADLINE_S
        )
        while len(found) < count:
            method, _, body = next(messages)
            assert method is not None, f"{len(found)} of {count} messages in the archive"
            found.append((method.exchange, method.routing_key, body))
            channel.basic_ack(method.delivery_tag)
    return found


def archive_size(channel: BlockingChannel) -> int:
    return int(channel.queue_declare("archive", passive=True).method.message_count)


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "restart", [BrokerProcess.restart, BrokerProcess.restart_by_kill], ids=["stop", "kill"]
)
def test_archives_and_what_they_have_survive_a_restart(
    daemon: BrokerProcess, restart: Callable[[BrokerProcess], None]
) -> None:
    with channel_to(daemon.url, confirms=False) as channel:
        declare(channel)
        channel.exchange_declare(
            "events", "topic", durable=True, arguments={"x-archive-to": "archive"}
        )
        channel.confirm_delivery()
        channel.basic_publish("", "orders", b"kept", PERSISTENT)
        channel.basic_publish("", "orders", b"transient")
        channel.basic_publish("events", "a.b", b"unrouted")
    restart(daemon)
    expected = [
        ("", "orders", b"kept"),
        ("", "orders", b"transient"),
        ("events", "a.b", b"unrouted"),
    ]
    with channel_to(daemon.url, confirms=False) as channel:
        assert get_all(channel, "orders") == [b"kept"]
        channel.confirm_delivery()
        channel.basic_publish("events", "a.b", b"later")
        channel.basic_publish("", "orders", b"last", PERSISTENT)
        assert archive_size(channel) == 5
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_delete("archive")
        assert refused.value.reply_code == 406
    assert archived(daemon, 5) == [
        *expected,
        ("events", "a.b", b"later"),
        ("", "orders", b"last"),
    ]


@pytest.mark.acceptance
@pytest.mark.parametrize("is_transactional", [False, True], ids=["confirms", "transactions"])
def test_after_kill_9_the_archive_has_exactly_what_the_queue_has(
    daemon: BrokerProcess, is_transactional: bool
) -> None:
    with channel_to(daemon.url, confirms=False) as channel:
        declare(channel)
    sure: list[bytes] = []

    def publish() -> None:
        try:
            with channel_to(daemon.url, confirms=False) as channel:
                (channel.tx_select if is_transactional else channel.confirm_delivery)()
                for number in range(1_000_000):
                    bodies = [b"%d.%d" % (number, part) for part in range(3)]
                    for body in bodies:
                        channel.basic_publish("", "orders", body, PERSISTENT)
                    if is_transactional:
                        channel.tx_commit()
                    sure.extend(bodies)
        except (pika.exceptions.AMQPError, OSError):
            return  # the broker is gone, as it was to be

    publisher = threading.Thread(target=publish)
    publisher.start()
    wait_for(lambda: len(sure) > 300, DEADLINE_S, "publishes that are confirmed")
    daemon.kill()
    publisher.join(DEADLINE_S)
    assert not publisher.is_alive()
    daemon.start()
    with channel_to(daemon.url, confirms=False) as channel:
        count = archive_size(channel)
        queued = get_all(channel, "orders")
    assert [body for _, _, body in archived(daemon, count)] == queued
    assert queued[: len(sure)] == sure
    if is_transactional:
        assert len(queued) % 3 == 0  # a commit is there as a whole


@pytest.mark.acceptance
def test_messages_that_a_replay_brings_are_archived(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url, confirms=False) as channel:
        channel.queue_declare("old", durable=True)
        channel.confirm_delivery()
        for body in (b"1", b"2"):
            channel.basic_publish("", "old", body, PERSISTENT)
        assert get_all(channel, "old") == [b"1", b"2"]
        declare(channel, "again", x_max_length=1, x_overflow="reject-publish")
        wanted = {"queue": "old", "to_queue": "again", "from": 0, "to": 4_000_000_000_000}
        status, answer = post(daemon, wanted)
        assert (status, answer["replayed"]) == (409, 1)  # the second one finds no room
        assert archived(daemon, 1) == [("", "old", b"1")]
        assert archive_size(channel) == 1


def post(daemon: BrokerProcess, fields: dict[str, object]) -> tuple[int, dict[str, Any]]:
    return HttpApi(daemon.management_url).call("POST", "/api/replay", fields)
