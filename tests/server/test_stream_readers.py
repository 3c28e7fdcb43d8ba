"""Positions of readers over restarts: pika fills the stream, the daemon is stopped or killed."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.pika_calls import channel_to
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
STREAM = {"x-queue-type": "stream", "x-max-length-bytes": 50}


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> BrokerProcess:
    return start_daemon()


def ask(daemon: BrokerProcess, path: str = "", method: str = "GET", **fields: object) -> Any:
    api = HttpApi(daemon.management_url)
    return api.done(method, f"/api/stream/%2F/s/readers{path}", fields or None)


def offsets(daemon: BrokerProcess) -> dict[str, int]:
    return {each["name"]: each["offset"] for each in ask(daemon)}


def publish(channel: BlockingChannel, count: int) -> None:
    for _ in range(count):
        channel.basic_publish("", "s", b"12345")


def size(channel: BlockingChannel) -> int:
    return int(channel.queue_declare("s", passive=True).method.message_count)


@pytest.mark.acceptance
def test_an_orderly_stop_keeps_the_last_position_and_the_pin_goes_on(
    daemon: BrokerProcess,
) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("s", durable=True, arguments=STREAM)
        publish(channel, 5)
        ask(daemon, "/gone", "PUT", offset=1)
        ask(daemon, "/gone", "DELETE")
        ask(daemon, "/free", "PUT", offset=5)
        ask(daemon, "/pinned", "PUT", offset=1, pin=True)
        ask(daemon, "/pinned", "PUT", offset=2, pin=True)
    daemon.restart()
    assert offsets(daemon) == {"free": 5, "pinned": 2}
    with channel_to(daemon.url) as channel:
        publish(channel, 15)
        assert size(channel) == 18  # two before the pin have gone, eight are beyond the limit
        ask(daemon, "/pinned", "PUT", offset=2)
        wait_for(lambda: size(channel) == 10, DEADLINE_S, "what was pinned to go")


@pytest.mark.acceptance
def test_a_crash_costs_a_second_of_reports_at_most(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("s", durable=True, arguments=STREAM)
        publish(channel, 5)
        for offset in range(5):
            ask(daemon, "/r", "PUT", offset=offset)
    log = daemon.data_dir / "definitions.sqlite-wal"
    for _ in range(2):  # the first may have begun before the last report
        size_before = log.stat().st_size

        def is_written(size_before: int = size_before) -> bool:
            ask(daemon, "/r", "PUT", offset=4)  # so that there is a write to come
            return log.stat().st_size > size_before

        wait_for(is_written, DEADLINE_S, "a write of positions")
    daemon.kill()
    daemon.start()
    assert offsets(daemon) == {"r": 4}


@pytest.mark.acceptance
def test_readers_of_a_deleted_stream_are_gone_after_a_restart(daemon: BrokerProcess) -> None:
    with channel_to(daemon.url) as channel:
        channel.queue_declare("s", durable=True, arguments=STREAM)
        ask(daemon, "/r", "PUT", offset=0)
        channel.queue_delete("s")
        channel.queue_declare("s", durable=True, arguments=STREAM)
        ask(daemon, "/again", "PUT", offset=0)
    daemon.restart()
    assert offsets(daemon) == {"again": 0}
