"""Clients behind a proxy with the PROXY protocol, by pika and HTTP, have their own addresses."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.relay import relay
from tests.support.waiting import wait_for

CONFIG = """
[listener]
proxy_protocol_from = ["127.0.0.1"]

[[listeners]]
port = 0

[management]
proxy_protocol_from = ["127.0.0.1"]

[auth]
login_failures_max = 1
failure_delay_s = 0

[[users]]
name = "guest"
password = "guest"
tags = ["administrator"]

[[users.permissions]]
vhost = "/"
configure = ".*"
write = ".*"
read = ".*"

[[users]]
name = "ann"
password = "secret"
tags = ["administrator"]

[[users.permissions]]
vhost = "/"
configure = ".*"
write = ".*"
read = ".*"
"""
ELSEWHERE = "127.0.0.2"  # no proxy of ours
V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 5671\r\n"
V2 = (
    b"\r\n\r\n\x00\r\nQUIT\n\x21\x21"
    + struct.pack(">H", 36)
    + socket.inet_pton(socket.AF_INET6, "2001:db8::7")
    + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    + struct.pack(">HH", 40000, 5671)
)
OWN = b"PROXY UNKNOWN\r\n"
DEADLINE_S = 60.0
pytestmark = pytest.mark.daemon(CONFIG)


@contextmanager
def connected(
    address: tuple[str, int], user: str = "ann", password: str = "secret"
) -> Iterator[pika.BlockingConnection]:
    credentials = pika.PlainCredentials(user, password)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(*address, credentials=credentials)
    )
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def http(daemon: BrokerProcess, greeting: bytes, user: str = "ann") -> Iterator[HttpApi]:
    port = daemon.management_port
    assert port is not None
    with relay((daemon.host, port), greeting) as (host, near):
        yield HttpApi(f"http://{host}:{near}", user, "secret")


def the_only_one(api: HttpApi) -> list[dict[str, Any]]:
    """The connection, if there is one alone."""
    shown: list[dict[str, Any]] = api.get("/api/connections")
    return shown if len(shown) == 1 else []


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("greeting", "name"),
    [
        (V1, "192.0.2.7:40000 -> 198.51.100.1:5671"),
        (V2, "[2001:db8::7]:40000 -> [2001:db8::1]:5671"),
    ],
)
def test_a_client_has_the_addresses_that_the_proxy_gives(
    daemon: BrokerProcess, greeting: bytes, name: str
) -> None:
    with (
        relay((daemon.host, daemon.port), greeting) as address,
        connected(address) as connection,
        http(daemon, OWN) as api,
    ):
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"through a proxy")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"through a proxy"
        (shown,) = wait_for(lambda: the_only_one(api), DEADLINE_S, "earlier connections to be gone")
        assert shown["name"] == name
        assert (shown["peer_port"], shown["port"]) == (40000, 5671)


def test_a_large_message_comes_whole_behind_the_header(daemon: BrokerProcess) -> None:
    body = bytes(range(256)) * 8192
    with relay((daemon.host, daemon.port), V1) as address, connected(address) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, body)
        assert channel.basic_get(queue, auto_ack=True)[2] == body


def test_a_user_of_this_machine_may_not_come_from_elsewhere_through_a_proxy(
    daemon: BrokerProcess,
) -> None:
    with (
        relay((daemon.host, daemon.port), V1) as address,
        pytest.raises(pika.exceptions.ProbableAuthenticationError),
        connected(address, "guest", "guest"),
    ):
        pass
    with (
        relay((daemon.host, daemon.port), OWN) as address,
        connected(address, "guest", "guest") as connection,
    ):
        assert connection.is_open


def test_who_is_no_proxy_sends_no_header_and_is_not_believed(daemon: BrokerProcess) -> None:
    target = (daemon.host, daemon.port)
    with relay(target, b"", ELSEWHERE) as address, connected(address) as connection:
        assert connection.is_open
    with socket.create_connection(target, DEADLINE_S, (ELSEWHERE, 0)) as liar:
        liar.sendall(V1)
        assert liar.recv(8) == b"AMQP\x00\x00\x09\x01"  # as for any other wrong protocol header


def test_a_proxy_without_a_header_is_dropped_and_the_log_says_why(daemon: BrokerProcess) -> None:
    with socket.create_connection((daemon.host, daemon.port), DEADLINE_S) as link:
        link.sendall(b"AMQP\x00\x00\x09\x01")
        with suppress(ConnectionResetError):
            assert link.recv(1) == b""
    wait_for(lambda: "CON-1031" in daemon.log_tail(), DEADLINE_S, "the line in the log")


def test_other_ports_know_nothing_of_it(daemon: BrokerProcess) -> None:
    lines = [line for line in daemon.log_tail().splitlines() if "listening on amqp://" in line]
    ports = {int(line.split("amqp://127.0.0.1:")[1].split('"')[0].split()[0]) for line in lines}
    (other,) = ports - {daemon.port}
    with connected((daemon.host, other), "guest", "guest") as connection:
        assert connection.is_open


@pytest.mark.acceptance
def test_a_header_that_never_ends_does_not_keep_the_broker_from_stopping(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(CONFIG)
    assert daemon.management_port is not None
    with (
        socket.create_connection((daemon.host, daemon.port)) as amqp,
        socket.create_connection((daemon.host, daemon.management_port)) as web,
    ):
        amqp.sendall(V1[:20])
        web.sendall(V2[:20])
        daemon.stop()


@pytest.mark.acceptance
def test_a_request_over_http_has_the_client_s_address(daemon: BrokerProcess) -> None:
    elsewhere = V1.replace(b"192.0.2.7", b"192.0.2.9")  # no login over AMQP has failed from there
    with http(daemon, elsewhere, "guest") as api:
        assert api.ask("GET", "/api/whoami").status_code == 401  # guest, from elsewhere
        assert api.ask("GET", "/api/whoami").status_code == 429  # as often as one may there
    with http(daemon, V2) as api:
        assert api.get("/api/whoami")["name"] == "ann"
        api.done("PUT", "/api/users/bob", {"password": "of bob", "tags": ""})
        changes = api.get("/api/hareline/changes")
        assert "2001:db8::7" in str(changes), changes
