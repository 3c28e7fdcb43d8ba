"""Steps of handshakes in threads, and what is counted of them."""

from __future__ import annotations

import ssl
import threading
from typing import cast

import pytest

from hareline import events
from hareline.net.tls.handshakes import Handshakes


class Shaking:
    """Stands for an SSLObject: says in which thread its step was computed."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def do_handshake(self) -> None:
        self.threads.append(threading.current_thread().name)
        raise ssl.SSLWantReadError


def test_failures_are_counted_and_reported() -> None:
    reports: list[tuple[events.Event, dict[str, object]]] = []
    handshakes = Handshakes(lambda event, **fields: reports.append((event, fields)), lambda: 1.0)
    handshakes.refuse("h:1", "because")
    handshakes.pass_over("h:2")
    assert (handshakes.failed_count, handshakes.done_count) == (1, 0)
    assert reports == [
        (events.TLS_REFUSED, {"peer": "h:1", "reason": "because"}),
        (events.CONNECTION_UNUSED, {"peer": "h:2"}),
    ]


async def test_a_step_is_computed_in_a_thread_of_its_own() -> None:
    handshakes = Handshakes(lambda event, **fields: None, lambda: 1.0)
    shaking = Shaking()
    with pytest.raises(ssl.SSLWantReadError):
        await handshakes.begin_step(cast("ssl.SSLObject", shaking))
    assert [name.startswith("tls") for name in shaking.threads] == [True]
    handshakes.stop()
    with pytest.raises(RuntimeError):
        handshakes.begin_step(cast("ssl.SSLObject", shaking))
