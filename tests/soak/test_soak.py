"""One broker under mixed load for SOAK_SECONDS: nothing is lost, repeated, or left behind.

`make acceptance` runs it for a few seconds, `make soak` for an hour. Workers open connections,
publish with confirms through a topic exchange, consume, requeue, ask over HTTP, come by WebSocket,
provoke errors and vanish. Meanwhile a pair that always stays measures what a message takes, and the
broker's memory and open files are sampled. At the end they have to be where they were, and from
`STRICT_FROM_S` on memory and times have to keep within the bars.
"""

from __future__ import annotations

import os
import random
import socket
import statistics
import threading
import time
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for
from tests.support.websocket_client import WebSocketClient

SECONDS = float(os.environ.get("SOAK_SECONDS", "5"))
WORKERS = 4
MESSAGES_A_ROUND = 100
EXCHANGE = "soak"
# Of the run, until caches and the allocator have what they keep.
WARM_UP_SHARE = 0.3
# Beyond this the process has grown; below it, it breathes. A leak of 100 bytes a message is found
# within a minute.
GROWTH_LIMIT_BYTES = 16 * 1024 * 1024
SAMPLE_INTERVAL_S = 0.25
# The bars of a run that is long enough for them: memory after the warm-up, and the 99th percentile
# of what a message takes, in the last window against the first.
STRICT_FROM_S = 1200.0
RSS_GROWTH_MAX = 0.02
P99_GROWTH_MAX = 1.2
WINDOW_S = 300.0
PROBE_INTERVAL_S = 0.02

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]


class Worker(threading.Thread):
    """Goes round after round until told to stop; ``failure`` is what ended it before that."""

    def __init__(
        self,
        url: str,
        address: tuple[str, int],
        http: tuple[str, int],
        seed: int,
        has_failed: threading.Event,
    ) -> None:
        super().__init__(name=f"soak-{seed}", daemon=True)
        self.rounds = 0
        self.failure: Exception | None = None
        self.is_stopping = threading.Event()
        self._has_failed = has_failed
        self._parameters = pika.URLParameters(url)
        self._address = address
        self._http_address = http
        self._random = random.Random(seed)

    def run(self) -> None:
        try:
            while not self.is_stopping.is_set():
                self._round()
                self.rounds += 1
        except Exception as error:
            self.failure = error
            self._has_failed.set()

    def _round(self) -> None:
        connection = pika.BlockingConnection(self._parameters)
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        # Few keys, over and over: caches by routing key are bounded, but large.
        key = f"{self.name}.{self.rounds % 10}"
        channel.queue_bind(queue, EXCHANGE, f"{key}.#")
        bodies = [self._body(number) for number in range(MESSAGES_A_ROUND)]
        for body in bodies:
            channel.basic_publish(EXCHANGE, f"{key}.x", body, mandatory=True)
        assert self._consume(channel, queue) == bodies
        assert channel.queue_declare(queue, passive=True).method.message_count == 0
        self._provoke_channel_error(connection)
        self._vanish()
        self._ask_over_http()
        connection.close()

    def _body(self, number: int) -> bytes:
        size = self._random.choice([0, 10, 100, 1000, 20_000, 300_000 if number % 50 == 0 else 1])
        return b"%d:" % number + self._random.randbytes(size)

    def _consume(
        self, channel: pika.adapters.blocking_connection.BlockingChannel, queue: str
    ) -> list[bytes]:
        """All messages in order; every seventh is put back once, and comes again at its place."""
        channel.basic_qos(prefetch_count=1)
        accepted: list[bytes] = []
        for method, _, body in channel.consume(queue):
            if len(accepted) % 7 == 0 and not method.redelivered:
                channel.basic_nack(method.delivery_tag, requeue=True)
                continue
            channel.basic_ack(method.delivery_tag)
            accepted.append(body)
            if len(accepted) == MESSAGES_A_ROUND:
                break
        channel.cancel()
        return accepted

    def _provoke_channel_error(self, connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
            channel.queue_declare("no such queue", passive=True)

    def _ask_over_http(self) -> None:
        host, port = self._http_address
        assert HttpApi(f"http://{host}:{port}").get("/api/overview")["object_totals"]
        with WebSocketClient(self._http_address) as client:
            client.send_octets(b"AMQP\x00\x00\x09\x01")
            assert client.receive(8)

    def _vanish(self) -> None:
        """What port scanners, health checks and crashing clients do."""
        for octets in (b"", b"AMQP\x00\x00\x09\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"):
            with socket.create_connection(self._address, timeout=30) as link:
                link.sendall(octets)


class Probe(threading.Thread):
    """Publishes small durable messages at a steady pace, and takes them back.

    ``times``: when each was published, and the seconds until it was back and confirmed.
    """

    def __init__(self, url: str) -> None:
        super().__init__(name="soak-probe", daemon=True)
        self.times: list[tuple[float, float]] = []
        self.failure: Exception | None = None
        self.is_stopping = threading.Event()
        self._parameters = pika.URLParameters(url)

    def run(self) -> None:
        try:
            with pika.BlockingConnection(self._parameters) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("probe", durable=True)
                deliveries = channel.consume("probe", auto_ack=True, inactivity_timeout=60)
                properties = pika.BasicProperties(delivery_mode=2)
                while not self.is_stopping.wait(PROBE_INTERVAL_S):
                    started = time.monotonic()
                    channel.basic_publish("", "probe", b"there and back", properties, True)
                    method, _, _ = next(deliveries)
                    assert method is not None, "a message that does not come back"
                    self.times.append((started, time.monotonic() - started))
        except Exception as error:
            self.failure = error

    def p99_ms(self, begin: float, end: float) -> float:
        """The 99th percentile of what was published in a time, in milliseconds."""
        taken = sorted(each for at, each in self.times if begin <= at < end)
        return taken[int(len(taken) * 0.99)] * 1000 if taken else 0.0


def _open_files(process_id: int) -> int:
    return len(list(Path(f"/proc/{process_id}/fd").iterdir()))


def test_nothing_is_lost_repeated_or_left_behind(daemon: BrokerProcess) -> None:
    assert daemon.process is not None
    process_id = daemon.process.pid
    with pika.BlockingConnection(pika.URLParameters(daemon.url)) as connection:
        connection.channel().exchange_declare(EXCHANGE, "topic")
    files_before = _open_files(process_id)

    has_failed = threading.Event()
    address = (daemon.host, daemon.port)
    http = (daemon.host, daemon.management_port or 0)
    workers = [Worker(daemon.url, address, http, seed, has_failed) for seed in range(WORKERS)]
    probe = Probe(daemon.url)
    samples: list[tuple[float, int]] = []
    open_files: list[tuple[float, int]] = []
    started = time.monotonic()
    probe.start()
    for worker in workers:
        worker.start()
    while (elapsed_s := time.monotonic() - started) < SECONDS:
        samples.append((elapsed_s, daemon.resident_bytes))
        open_files.append((elapsed_s, _open_files(process_id)))
        if has_failed.wait(SAMPLE_INTERVAL_S):
            break
    ended = time.monotonic()
    probe.is_stopping.set()
    for worker in workers:
        worker.is_stopping.set()
    probe.join(60)
    if probe.failure is not None:
        raise probe.failure
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive(), f"{worker.name} hangs"
        if worker.failure is not None:
            raise worker.failure
        assert worker.rounds > 0

    wait_for(
        lambda: _open_files(process_id) <= files_before, 60, "the broker to close what was dropped"
    )
    settled = [size for at, size in samples if at >= SECONDS * WARM_UP_SHARE]
    quarter = max(1, len(settled) // 4)
    growth = statistics.median(settled[-quarter:]) - statistics.median(settled[:quarter])
    files = [count for at, count in open_files if at >= SECONDS * WARM_UP_SHARE]
    window_s = min(WINDOW_S, SECONDS * (1 - WARM_UP_SHARE) / 2)
    warm = started + SECONDS * WARM_UP_SHARE
    first_ms = probe.p99_ms(warm, warm + window_s)
    last_ms = probe.p99_ms(ended - window_s, ended)
    rounds = sum(worker.rounds for worker in workers)
    print(
        f"\nsoak: {rounds} rounds, {rounds * MESSAGES_A_ROUND} messages in {SECONDS:.0f} s; "
        f"{max(settled) / 2**20:.1f} MiB at most, growth {growth / 2**20:+.2f} MiB; "
        f"open files {min(files)} to {max(files)}, {files_before} before and after; "
        f"p99 {first_ms:.1f} ms in the first {window_s:.0f} s after the warm-up, "
        f"{last_ms:.1f} ms in the last, of {len(probe.times)} messages"
    )
    assert growth < GROWTH_LIMIT_BYTES
    if SECONDS >= STRICT_FROM_S:
        assert abs(growth) <= RSS_GROWTH_MAX * statistics.median(settled[:quarter])
        assert last_ms <= P99_GROWTH_MAX * first_ms
