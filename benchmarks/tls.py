"""Handshakes a second, and messages a second with TLS, beside RabbitMQ in the same run.

``python -m benchmarks.tls``: starts both brokers with the same certificate, of an elliptic curve,
and measures them in turns. Handshakes: processes connect, do a full handshake, wait for the
broker's first frame and close, one after the other. Messages: a publisher with confirms and a
consumer without acknowledgements, each a process of its own, with TLS and without. Prints one JSON
object; medians over the rounds. Clients are Python's ``ssl`` and the same for both brokers, and run
on the same cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import socket
import ssl
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from pamqp import commands

from benchmarks.macro.brokers import Hareline, RabbitMQ, find_rabbitmq
from benchmarks.macro.client import Client
from benchmarks.stream_ranges import publish_octets
from hareline.cli.tls.authority import Authority

#: Of handshakes; few would measure how long each waits, and not what both cores can do.
CLIENTS: Final = 16
QUEUE: Final = "tls"
BATCH: Final = 50
IN_FLIGHT_MAX: Final = 500
_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_TLS_URL: Final = re.compile(r"amqps://[\w.\-\[\]:]+?:(\d+)")
_ACK: Final = (60 << 16) | 80

_RABBITMQ: Final = """\
listeners.ssl.1 = 127.0.0.1:{http_port}
ssl_options.cacertfile = {ca}
ssl_options.certfile = {certificate}
ssl_options.keyfile = {key}
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
"""


def write_certificates(directory: Path) -> tuple[Path, Path, Path]:
    """The files of an authority, and of a certificate for 127.0.0.1 and its key."""
    authority = Authority.new("authority of a benchmark")
    issued = authority.for_server(["127.0.0.1", "localhost"], 2)
    files = tuple(directory / name for name in ("ca.pem", "server.pem", "server.key"))
    for file, octets in zip(files, (authority.own.certificate, *issued), strict=True):
        file.write_bytes(octets)
    return files[0], files[1], files[2]


@contextlib.contextmanager
def running(name: str, files: tuple[Path, Path, Path]) -> Iterator[tuple[str, int]]:
    """A broker: its URL without TLS, and its port with TLS."""
    ca, certificate, key = files
    if name == "hareline":
        os.environ |= {
            "HARELINE_TLS__CERTIFICATE": str(certificate),
            "HARELINE_TLS__KEY": str(key),
            "HARELINE_TLS__PORT": "0",
            "HARELINE_TLS__MANAGEMENT": "false",
        }
        broker = Hareline()
        with broker:
            found = _TLS_URL.search(broker.output())
            assert found is not None, broker.output()
            yield broker.url, int(found[1])
        return
    program = find_rabbitmq(may_install=False)
    if program is None:
        sys.exit("tls: there is no rabbitmq-server here")
    text = _RABBITMQ.replace("{ca}", str(ca)).replace("{certificate}", str(certificate))
    rabbitmq = RabbitMQ(program, configuration=text.replace("{key}", str(key)))
    with rabbitmq:
        yield rabbitmq.url, rabbitmq.http_port


# --------------------------------------------------------------------------- handshakes


def shake(port: int, ca: str, seconds: float, told: Connection) -> None:
    """Do full handshakes, one after the other, and tell how many."""
    context = ssl.create_default_context(cafile=ca)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        raw = socket.create_connection(("127.0.0.1", port), 60)
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as client:
            client.sendall(_HEADER)
            assert client.recv(7), "the broker closed the connection"
        count += 1
    told.send(count)


def handshake_rate(port: int, ca: Path, seconds: float) -> float:
    """Handshakes a second of all clients together."""
    return sum(_in_processes(shake, [(port, str(ca), seconds)] * CLIENTS)) / seconds


# ----------------------------------------------------------------------------- messages


def connected(url: str, ca: str) -> Client:
    """A client, with TLS where ``ca`` names an authority."""
    context = ssl.create_default_context(cafile=ca) if ca else None
    return Client(url, context=context)


def publish(url: str, ca: str, seconds: float, told: Connection) -> None:
    """Publish with confirms, and tell how many messages were confirmed."""
    with connected(url, ca) as client:
        client.select_confirms()
        batch = publish_octets(QUEUE) * BATCH
        buffer, sent, confirmed = bytearray(), 0, 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            client.sock.sendall(batch)
            sent += BATCH
            while sent - confirmed > IN_FLIGHT_MAX - BATCH:
                confirmed = _confirmed(client, buffer, confirmed)
        told.send(confirmed)
        while confirmed < sent:
            confirmed = _confirmed(client, buffer, confirmed)


def _confirmed(client: Client, buffer: bytearray, confirmed: int) -> int:
    """The last tag that was confirmed, once more has come."""
    octets = client.sock.recv(65_536)
    assert octets, "the broker closed the connection"
    buffer += octets
    while len(buffer) >= 21:  # each frame that comes is a basic.ack
        _, _, _, method, tag, multiple = struct.unpack_from(">BHIIQB", buffer)
        assert method == _ACK, buffer[:21]
        del buffer[:21]
        confirmed = max(confirmed, tag) if multiple else confirmed + 1
    return confirmed


def consume(url: str, ca: str, seconds: float, told: Connection) -> None:
    """Take what comes, and tell how many octets that was."""
    with connected(url, ca) as client:
        client.declare_queue(QUEUE)
        consuming = commands.Basic.Consume(queue=QUEUE, no_ack=True)
        client.call(consuming, commands.Basic.ConsumeOk)
        end, count = time.monotonic() + seconds, 0
        client.sock.settimeout(0.2)
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                count += len(client.sock.recv(262_144))
        told.send(count)


def message_rate(url: str, ca: str, seconds: float) -> float:
    """Messages a second that are published, confirmed and delivered meanwhile."""
    with connected(url, ca) as client:
        client.declare_queue(QUEUE)
    pipe, told = multiprocessing.Pipe(duplex=False)
    consumer = multiprocessing.Process(target=consume, args=(url, ca, seconds + 1, told))
    consumer.start()
    confirmed = _in_processes(publish, [(url, ca, seconds)])[0]
    octets = pipe.recv()
    consumer.join()
    assert octets > confirmed * 200, "not all of them were delivered"
    with connected(url, ca) as client:
        client.delete_queue(QUEUE)
    return confirmed / seconds


def _in_processes(work: Callable[..., None], arguments: list[tuple[Any, ...]]) -> list[int]:
    """What each process has told."""
    pipes = [multiprocessing.Pipe(duplex=False) for _ in arguments]
    processes = [
        multiprocessing.Process(target=work, args=(*given, told))
        for given, (_, told) in zip(arguments, pipes, strict=True)
    ]
    for process in processes:
        process.start()
    found = [int(pipe.recv()) for pipe, _ in pipes]
    for process in processes:
        process.join()
    return found


def measure(names: list[str], rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """The medians of each broker."""
    found: dict[str, dict[str, list[float]]] = {
        name: {"handshakes_per_s": [], "tls_messages_per_s": [], "plain_messages_per_s": []}
        for name in names
    }
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = write_certificates(directory)
        ca = str(files[0])
        brokers = {name: stack.enter_context(running(name, files)) for name in names}
        for _ in range(rounds):
            for name, (plain_url, port) in brokers.items():
                values = found[name]
                url = f"amqp://guest:guest@127.0.0.1:{port}/"
                values["handshakes_per_s"].append(handshake_rate(port, files[0], seconds))
                values["tls_messages_per_s"].append(message_rate(url, ca, seconds))
                values["plain_messages_per_s"].append(message_rate(plain_url, "", seconds))
    return {
        name: {key: round(statistics.median(values), 1) for key, values in each.items()}
        for name, each in found.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--brokers", nargs="+", default=["hareline", "rabbitmq"])
    given = parser.parse_args()
    print(json.dumps(measure(given.brokers, given.rounds, given.seconds), indent=2))


if __name__ == "__main__":
    main()
