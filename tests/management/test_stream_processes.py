"""Reads of ranges from a broker in a process of its own, and what is left when it is killed."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
from pathlib import Path

import pika
import pytest

from hareline.wire.stream_chunks import HEADER_SIZE, check_columns, decode_header
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
DEADLINE_S = 60.0


def publish(broker: BrokerProcess, count: int, size: int) -> None:
    """To the stream ``log``, each message confirmed."""
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        channel = connection.channel()
        channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_delivery()
        for number in range(count):
            channel.basic_publish("", "log", b"%d:" % number + bytes(size))


def read(broker: BrokerProcess, start: int, end: int) -> bytes:
    """A chunk that has all of this range; its octets."""
    path = f"/api/stream/%2F/log/range?start={start}&end={end}"
    octets = HttpApi(broker.management_url).ask("GET", path).content
    header = decode_header(octets)
    check_columns(header, octets[HEADER_SIZE:])
    assert (header.first_offset, header.count) == (start, end - start)
    return octets


def children(pid: int) -> list[int]:
    """Its child processes."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for path in listed for each in path.read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return b"hareline.ranges.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


@pytest.mark.acceptance
def test_what_pika_has_published_is_read_again_after_a_crash(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    publish(broker, 50, 100)
    before = read(broker, 0, 50)
    broker.kill()
    broker.start()
    assert read(broker, 0, 50) == before
    publish(broker, 10, 100)
    read(broker, 50, 60)


@pytest.mark.acceptance
def test_the_reader_ends_with_a_broker_that_is_killed(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    publish(broker, 20, 2_000_000)
    assert broker.process is not None
    assert children(broker.process.pid) == []  # there is none before it is needed
    read(broker, 0, 1)
    (reader,) = children(broker.process.pid)
    assert is_running(reader)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((broker.host, broker.management_port or 0))
        login = "".join(f"{name}: {value}\r\n" for name, value in LOGIN.items())
        client.sendall(
            "GET /api/stream/%2F/log/range?start=0&end=20 HTTP/1.1\r\nHost: x\r\n"
            f"{login}\r\n".encode()
        )
        assert client.recv(10) == b"HTTP/1.1 2"
        broker.kill()
        wait_for(lambda: not is_running(reader), DEADLINE_S, "the end of the reader process")
        octets = b""
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(1 << 20):
                octets = octets[-10:] + part
        assert not octets.endswith(b"0\r\n\r\n")
    broker.start()


@pytest.mark.acceptance
def test_a_stop_leaves_no_reader(start_daemon: StartDaemon) -> None:
    broker = start_daemon()
    publish(broker, 5, 10)
    read(broker, 0, 5)
    assert broker.process is not None
    (reader,) = children(broker.process.pid)
    broker.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(reader, 0)
    broker.start()
