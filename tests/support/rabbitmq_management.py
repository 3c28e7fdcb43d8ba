"""Debian's RabbitMQ (3.10) with its management plugin, as a node of its own for a test.

Invariant: the node and all that belongs to it listens on loopback, and ends with the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from benchmarks.macro.brokers import RabbitMQ, find_rabbitmq

from .http_api import HttpApi
from .waiting import wait_for

START_DEADLINE_S = 120.0


#: Rates are there after one interval, and not after five seconds.
CONFIGURATION = """\
management.tcp.ip = 127.0.0.1
management.tcp.port = {http_port}
collect_statistics_interval = 1000
"""


class ManagedRabbitMQ(RabbitMQ):
    """``url``: AMQP. ``http_url``, ``http_port`` and ``api``: the HTTP API, once it has started."""

    def __init__(self, program: str) -> None:
        super().__init__(program, ("rabbitmq_management",), CONFIGURATION)

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def api(self) -> HttpApi:
        return HttpApi(self.http_url)

    def answers(self) -> bool:
        """True once the HTTP API is there."""
        try:
            return self.api.ask("GET", "/").is_success
        except httpx.TransportError:
            return False


def installed_rabbitmq() -> str:
    """The program of a RabbitMQ; skips the test where it is not installed."""
    program = find_rabbitmq(may_install=False)
    if program is None:
        pytest.skip("rabbitmq-server (Debian) is not installed")
    return program


@contextmanager
def managed_rabbitmq() -> Iterator[ManagedRabbitMQ]:
    """A node that runs."""
    node = ManagedRabbitMQ(installed_rabbitmq())
    with node:
        wait_for(node.answers, START_DEADLINE_S, "RabbitMQ's HTTP API")
        yield node
