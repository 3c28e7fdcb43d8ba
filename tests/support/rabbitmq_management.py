"""Debian's RabbitMQ (3.10) with its management plugin, as a node of its own for a test.

Invariant: the node and all that belongs to it listens on loopback, and ends with the block.
"""

from __future__ import annotations

import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.macro.brokers import RabbitMQ, find_rabbitmq

from .http_api import HttpApi
from .waiting import wait_for

START_DEADLINE_S = 120.0


class ManagedRabbitMQ(RabbitMQ):
    """``url``: AMQP. ``api``: the HTTP API, once the node has started."""

    def __init__(self, program: str) -> None:
        super().__init__(program)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.management_port = int(free.getsockname()[1])
        self.api = HttpApi(f"http://127.0.0.1:{self.management_port}")

    def spawn(
        self, command: list[str], environment: Mapping[str, str], directory: Path
    ) -> subprocess.Popen[bytes]:
        """Switch the plugin on before the node is started."""
        if "RABBITMQ_NODENAME" in environment:
            (directory / "enabled_plugins").write_text("[rabbitmq_management].\n")
            (directory / "rabbitmq.conf").write_text(
                f"management.tcp.port = {self.management_port}\nmanagement.tcp.ip = 127.0.0.1\n"
            )
        return super().spawn(command, environment, directory)

    def answers(self) -> bool:
        """True once the HTTP API is there."""
        url = f"http://127.0.0.1:{self.management_port}/"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except OSError:
            return False


@contextmanager
def managed_rabbitmq() -> Iterator[ManagedRabbitMQ]:
    """A node that runs; skips the test where it is not installed."""
    program = find_rabbitmq(may_install=False)
    if program is None:
        pytest.skip("rabbitmq-server (Debian) is not installed")
    node = ManagedRabbitMQ(program)
    with node:
        wait_for(node.answers, START_DEADLINE_S, "RabbitMQ's HTTP API")
        yield node
