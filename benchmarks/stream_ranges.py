"""What a bulk read of a stream costs those who publish meanwhile, and how fast it is.

``python -m benchmarks.stream_ranges``: starts a broker with a data directory, fills a stream, and
publishes to a durable queue of the same broker, at a steady rate and as fast as it goes, in windows
that take turns: without anything else, with a client that reads ranges of the stream without a
pause, and with two processes that only compute. Publisher and reader are processes of their own;
the reader runs only where the processor is idle, as if it had a machine of its own, and so do
those that compute: what they cost is what this machine takes for anything that runs beside the
broker. Prints one JSON object; medians over the windows.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import multiprocessing
import os
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from pamqp import commands, frame, header

from benchmarks.macro.client import Client
from benchmarks.macro.percentile import percentile
from hareline.ranges.process import give_way

BODY: Final = bytes(200)
STREAM: Final = "ranges"
QUEUE: Final = "published"
STEADY_RATE: Final = 1_000
IN_FLIGHT_MAX: Final = 500
_ACK: Final = (60 << 16) | 80
_LOGIN: Final = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


def publish_octets(queue: str) -> bytes:
    """A persistent message of 200 octets, ready to be sent."""
    properties = commands.Basic.Properties(delivery_mode=2)
    return b"".join(
        (
            frame.marshal(commands.Basic.Publish(exchange="", routing_key=queue), 1),
            frame.marshal(header.ContentHeader(0, len(BODY), properties), 1),
            struct.pack(">BHI", 3, 1, len(BODY)) + BODY + b"\xce",
        )
    )


class Publisher:
    """Publishes with confirms, and knows how long each took."""

    def __init__(self, url: str, queue: str) -> None:
        self._client = Client(url)
        self._client.select_confirms()
        self._octets = publish_octets(queue)
        self._sent: deque[float] = deque()
        self._tag = 0  # the last confirmed
        self._buffer = bytearray()

    @property
    def confirmed(self) -> int:
        """How many messages have been confirmed."""
        return self._tag

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def run(self, seconds: float, rate: float | None) -> tuple[float, list[float]]:
        """Confirmed messages a second, and the time of each in seconds, ascending.

        It lasts until a first message is confirmed, be it longer than `seconds`.
        """
        sock, sent = self._client.sock, self._sent
        times: list[float] = []
        start = time.monotonic()
        count = 0
        while (now := time.monotonic()) < start + seconds or not times:
            due = int((now - start) * rate) - count if rate else IN_FLIGHT_MAX
            due = min(due, IN_FLIGHT_MAX - len(sent))
            if due > 0:
                sock.sendall(self._octets * due)
                sent.extend([now] * due)
                count += due
            self._take_confirms(times, 0.0005 if rate else 0.01)
        elapsed = time.monotonic() - start
        confirmed = len(times)
        while sent:
            self._take_confirms(times, 1.0)
        return confirmed / elapsed, sorted(times)

    def _take_confirms(self, times: list[float], timeout_s: float) -> None:
        sock = self._client.sock
        if not select.select([sock], [], [], timeout_s)[0]:
            return
        octets = sock.recv(65_536)
        assert octets, "the broker closed the connection"
        self._buffer += octets
        now = time.monotonic()
        while len(self._buffer) >= 21:  # each frame that comes is a basic.ack
            _, _, _, method, tag, multiple = struct.unpack_from(">BHIIQB", self._buffer)
            assert method == _ACK, self._buffer[:21]
            del self._buffer[:21]
            count = tag - self._tag if multiple else 1
            self._tag = max(self._tag, tag)
            times += [now - self._sent.popleft() for _ in range(count)]


def read_ranges(port: int, count: int, commands_from: Connection) -> None:
    """A process that reads the stream over and over while it is told to, and tells how much."""
    rows = octets = 0
    offset = 0
    is_on = False
    give_way()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while True:
        while not is_on or (rows and commands_from.poll()):
            word = commands_from.recv()
            if word == "end":
                return
            is_on = word == "on"
            if is_on:
                connection.close()  # the server may have done so meanwhile
            else:
                commands_from.send((rows, octets))
            rows = octets = 0
        end = min(offset + 100_000, count)
        path = f"/api/stream/%2F/{STREAM}/range?start={offset}&end={end}"
        connection.request("GET", path, headers=_LOGIN)
        with connection.getresponse() as answer:
            assert answer.status == 200, answer.read()
            while piece := answer.read(1 << 20):
                octets += len(piece)
        rows += end - offset
        offset = end % count


def compute() -> None:
    """A process that takes what is left of the processor and has nothing to do with the broker."""
    give_way()
    octets = bytes(1 << 20)
    while True:
        zlib.crc32(octets)


def _start_computing() -> multiprocessing.Process:
    process = multiprocessing.Process(target=compute, daemon=True)
    process.start()
    return process


@contextlib.contextmanager
def running_broker(directory: Path) -> Iterator[tuple[str, int]]:
    """URL and management port of a broker that runs until the block ends."""
    log_path = directory / "log"
    command = [sys.executable, "-m", "hareline", "serve", "--bind", "127.0.0.1", "--port", "0"]
    command += ["--management-port", "0", "--data-dir", str(directory / "data")]
    with log_path.open("wb") as log:
        broker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            urls: list[str] = []
            while len(urls) < 2:
                assert broker.poll() is None, log_path.read_text()
                time.sleep(0.05)
                lines = map(json.loads, filter(None, log_path.read_text().splitlines()))
                urls = [each["url"] for each in lines if each.get("code") == "BRK-1002"]
            yield urls[0], int(urls[1].rpartition(":")[2])
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(30)


def fill(url: str, count: int) -> None:
    """A stream of so many messages, and the queue to publish to."""
    with Client(url) as client:
        client.declare_queue(STREAM, {"x-queue-type": "stream"}, is_durable=True)
        client.declare_queue(QUEUE, {"x-max-length": 1000}, is_durable=True)
    with contextlib.closing(Publisher(url, STREAM)) as publisher:
        while publisher.confirmed < count:
            publisher.run(0.2, None)


def measure(port: int, url: str, rows: int, windows: int, seconds: float) -> dict[str, Any]:
    """Medians of both kinds of windows, at both rates."""
    ours, theirs = multiprocessing.Pipe()
    reader = multiprocessing.Process(target=read_ranges, args=(port, rows, theirs), daemon=True)
    reader.start()
    publisher = Publisher(url, QUEUE)
    found: dict[str, Any] = {}
    for name, rate in (("steady", float(STEADY_RATE)), ("full", None)):
        of: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
        reads = []
        publisher.run(seconds / 2, rate)
        for label in ("without", "with", "computing") * windows:
            started = time.monotonic()
            computing = [_start_computing() for _ in range(2 * (label == "computing"))]
            if label == "with":
                ours.send("on")
                time.sleep(0.3)
            confirmed, times = publisher.run(seconds, rate)
            of[label].append((confirmed, percentile(times, 0.5), percentile(times, 0.99)))
            if label == "with":
                ours.send("off")
                count, octets = ours.recv()
                elapsed = time.monotonic() - started
                reads.append((count / elapsed, octets / elapsed / 1e6))
            for each in computing:
                each.kill()
                each.join()
        found[name] = {
            label: {
                "msg_per_s": round(statistics.median(each[0] for each in seen)),
                "p50_ms": round(statistics.median(each[1] for each in seen) * 1e3, 2),
                "p99_ms": round(statistics.median(each[2] for each in seen) * 1e3, 2),
            }
            for label, seen in of.items()
        }
        found[name]["read_rows_per_s"] = round(statistics.median(each[0] for each in reads))
        found[name]["read_mb_per_s"] = round(statistics.median(each[1] for each in reads), 1)
    ours.send("on")
    started = time.monotonic()
    time.sleep(seconds)
    ours.send("off")
    count, octets = ours.recv()
    elapsed = time.monotonic() - started
    found["alone"] = {
        "read_rows_per_s": round(count / elapsed),
        "read_mb_per_s": round(octets / elapsed / 1e6, 1),
    }
    ours.send("end")
    reader.join(10)
    for end in (ours, theirs):
        end.close()
    publisher.close()
    found["load_average"] = os.getloadavg()[0]
    return found


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        running_broker(Path(directory)) as (url, port),
    ):
        fill(url, options.rows)
        print(json.dumps(measure(port, url, options.rows, options.windows, options.seconds)))


if __name__ == "__main__":
    main()
