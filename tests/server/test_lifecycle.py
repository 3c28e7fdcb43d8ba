"""How the broker starts, what it says, and how it ends: the daemon, and what it is made of."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pika
import pika.exceptions
import pytest
from pamqp import commands

from hareline.settings import Storage
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.broker_thread import BrokerThread
from tests.support.http_api import HttpApi
from tests.support.raw_client import RawClient

DEADLINE_S = 60.0
IN_MEMORY = Storage(kind="memory")
HEALTHY = {
    "status": "ok",
    "alarms": [],
    "publishers_blocked": False,
    "store": "ok",
    "reason": "",
}
SHUTDOWN_TEXT = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"


def connect(daemon: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(daemon.url))


def client(daemon: BrokerProcess) -> RawClient:
    return RawClient((daemon.host, daemon.port))


def terminate(daemon: BrokerProcess, number: signal.Signals = signal.SIGTERM) -> None:
    assert daemon.process is not None
    daemon.process.send_signal(number)


def exit_status(daemon: BrokerProcess) -> int:
    assert daemon.process is not None
    return daemon.process.wait(DEADLINE_S)


def health(url: str) -> tuple[int, Any]:
    return HttpApi(url, None).call("GET", "/api/health")


# ------------------------------------------------------------------------ the daemon


@pytest.mark.acceptance
def test_a_daemon_without_any_file_serves_on_the_ports_it_prints_until_sigterm(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(None)
    connection = connect(daemon)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"hello")
    assert channel.basic_get(queue, auto_ack=True)[2] == b"hello"
    assert daemon.data_dir.is_dir()
    assert daemon.management_port is not None
    assert health(daemon.management_url) == (200, HEALTHY)

    terminate(daemon)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(DEADLINE_S)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, SHUTDOWN_TEXT)
    assert exit_status(daemon) == 0
    with pytest.raises(ConnectionRefusedError):
        client(daemon)

    lines = [json.loads(line) for line in daemon.log_path.read_text().splitlines()]
    codes = [line["code"] for line in lines if line["code"].startswith("BRK")]
    assert codes == ["BRK-1001", "BRK-1002", "BRK-1002", "BRK-1004", "BRK-1003", "BRK-1005"]
    urls = [line["url"] for line in lines if line["code"] == "BRK-1002"]
    assert urls == [
        f"amqp://127.0.0.1:{daemon.port}",
        daemon.management_url,
    ]


@pytest.mark.acceptance
def test_health_says_stopping_while_clients_are_waited_for_and_more_signals_change_nothing(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("[shutdown]\ndeadline_s = 60\n")
    url = daemon.management_url
    with client(daemon) as raw:
        raw.open()
        terminate(daemon, signal.SIGINT)
        raw.expect(commands.Connection.Close)
        assert health(url) == (503, {**HEALTHY, "status": "stopping"})
        with pytest.raises(ConnectionRefusedError):
            client(daemon)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            terminate(daemon, number)
        raw.agree_to_close()
        assert exit_status(daemon) == 0
    assert '"reason": "SIGINT"' in daemon.log_tail()


@pytest.mark.acceptance
def test_a_client_that_never_answers_is_dropped_at_the_deadline(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("[shutdown]\ndeadline_s = 0.5\n")
    with client(daemon) as raw:
        raw.open()
        started = time.monotonic()
        terminate(daemon)
        assert exit_status(daemon) == 0
        assert time.monotonic() - started >= 0.5
        assert b"shutdown" in raw.read_until_closed()
    assert '"BRK-1006"' in daemon.log_tail()


@pytest.mark.acceptance
def test_what_outweighs_the_file_is_in_the_log_at_the_start(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("[listener]\nport = 1\n[log]\nlevel = 'debug'\n", "--log-level", "info")
    lines = [json.loads(line) for line in daemon.log_path.read_text().splitlines()]
    told = [line["event"] for line in lines if line["code"] == "CFG-1004"]
    assert told == [
        f"listener.port is set by --port, not by {daemon.config_path}",
        f"log.level is set by --log-level, not by {daemon.config_path}",
    ]


# ----------------------------------------------------------------- what it is made of


def test_what_was_delivered_before_the_stop_arrives_before_the_close(
    broker: BrokerThread,
) -> None:
    raw = broker.client().open()
    raw.declare("q")
    raw.publish("q", *[bytes(10_000)] * 20)
    raw.consume("q")
    raw.read_bodies(1)
    broker.begin_to_stop(60)
    assert len(raw.read_bodies(19)) == 19
    closing = raw.expect(commands.Connection.Close)
    assert (closing.reply_code, closing.reply_text) == (320, SHUTDOWN_TEXT)
    raw.agree_to_close()
    broker.wait_until_stopped()


def test_connections_that_are_half_open_do_not_delay_the_stop(broker: BrokerThread) -> None:
    silent, started, logged_in = broker.client(), broker.client(), broker.client()
    started.send_octets(b"AMQP")
    logged_in.log_in()
    broker.wait_until(lambda inside: len(inside.context.connections) == 3, "three connections")
    broker.begin_to_stop(60)
    broker.wait_until_stopped()
    for raw in (silent, started, logged_in):
        assert raw.read_until_closed() == b""


def test_who_has_taken_all_and_does_not_answer_is_not_waited_for(broker: BrokerThread) -> None:
    idle = broker.client().open()
    broker.begin_to_stop(3600, close_ok_s=0.05)
    broker.wait_until_stopped()
    idle.expect(commands.Connection.Close)


def test_nobody_is_waited_for_any_longer_than_needed(broker: BrokerThread) -> None:
    clients = [broker.client().open() for _ in range(20)]
    broker.begin_to_stop(60)
    for raw in clients:
        raw.expect(commands.Connection.Close)
    for raw in clients:
        raw.agree_to_close()
    broker.wait_until_stopped()


def test_a_publisher_that_is_blocked_can_say_goodbye(broker: BrokerThread) -> None:
    """While an alarm is on it is not read from; its close-ok must be."""
    raw = broker.client().open()
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    raw.publish("nowhere", b"x")
    raw.expect(commands.Connection.Blocked)
    broker.begin_to_stop(60)
    raw.expect(commands.Connection.Close)
    raw.agree_to_close()
    broker.wait_until_stopped()
