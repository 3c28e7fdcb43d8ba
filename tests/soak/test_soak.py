"""One broker under mixed load for SOAK_SECONDS: nothing is lost, repeated, or left behind.

`make test` runs it for a few seconds, `make soak` for an hour. Workers open connections, publish
with confirms through a topic exchange, consume, requeue, provoke errors and vanish; meanwhile
the broker's memory and open files are sampled, and at the end both have to be where they were.
"""

from __future__ import annotations

import os
import random
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_for

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

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]


class Worker(threading.Thread):
    """Goes round after round until told to stop; ``failure`` is what ended it before that."""

    def __init__(
        self, url: str, address: tuple[str, int], seed: int, has_failed: threading.Event
    ) -> None:
        super().__init__(name=f"soak-{seed}", daemon=True)
        self.rounds = 0
        self.failure: Exception | None = None
        self.is_stopping = threading.Event()
        self._has_failed = has_failed
        self._parameters = pika.URLParameters(url)
        self._address = address
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

    def _vanish(self) -> None:
        """What port scanners, health checks and crashing clients do."""
        for octets in (b"", b"AMQP\x00\x00\x09\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"):
            with socket.create_connection(self._address, timeout=30) as link:
                link.sendall(octets)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    try:
        process.start()
        yield process
        process.stop()
    finally:
        process.kill()


def _resident_bytes(process_id: int) -> int:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files(process_id: int) -> int:
    return len(list(Path(f"/proc/{process_id}/fd").iterdir()))


def test_nothing_is_lost_repeated_or_left_behind(broker: BrokerProcess) -> None:
    assert broker.process is not None
    process_id = broker.process.pid
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().exchange_declare(EXCHANGE, "topic")
    files_before = _open_files(process_id)

    has_failed = threading.Event()
    workers = [
        Worker(broker.url, (broker.host, broker.port), seed, has_failed) for seed in range(WORKERS)
    ]
    samples: list[tuple[float, int]] = []
    started = time.monotonic()
    for worker in workers:
        worker.start()
    while (elapsed_s := time.monotonic() - started) < SECONDS:
        samples.append((elapsed_s, _resident_bytes(process_id)))
        if has_failed.wait(SAMPLE_INTERVAL_S):
            break
    for worker in workers:
        worker.is_stopping.set()
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
    rounds = sum(worker.rounds for worker in workers)
    print(
        f"\nsoak: {rounds} rounds, {rounds * MESSAGES_A_ROUND} messages in {SECONDS:.0f} s; "
        f"{max(settled) / 2**20:.1f} MiB at most, growth {growth / 2**20:+.1f} MiB"
    )
    assert growth < GROWTH_LIMIT_BYTES
