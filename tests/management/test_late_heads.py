"""A request whose head never ends does not keep its connection; one that is slow in time does."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from hareline.settings import Limits, Settings
from tests.support.broker_thread import BrokerThread, broker_in_thread
from tests.support.waiting import wait_for
from tests.support.websocket_client import WebSocketClient

DEADLINE_S = 60.0
REQUEST = b"GET /api/health HTTP/1.1\r\nHost: broker\r\n\r\n"


def address_of(thread: BrokerThread) -> tuple[str, int]:
    url = thread.ask(lambda broker: broker.management_url)
    host, port = url.removeprefix("http://").rsplit(":", 1)
    return host, int(port)


@pytest.fixture(scope="module")
def hasty() -> Iterator[tuple[str, int]]:
    settings = Settings(limits=Limits(handshake_timeout_s=0.5))
    with broker_in_thread(settings, has_http=True) as thread:
        yield address_of(thread)


def rest_of(link: socket.socket) -> bytes:
    """All that comes until the end."""
    received = b""
    while octets := link.recv(4096):
        received += octets
    return received


def succeeds(story: Callable[[], None]) -> None:
    """What the timeout cuts short on a slow machine is told again."""

    def is_told() -> bool:
        with contextlib.suppress(ConnectionError, AssertionError):
            story()
            return True
        return False

    wait_for(is_told, DEADLINE_S, "a client that is quicker than the timeout")


@pytest.mark.acceptance
def test_half_a_head_is_answered_with_408(hasty: tuple[str, int]) -> None:
    def story() -> None:
        with socket.create_connection(hasty, DEADLINE_S) as link:
            link.sendall(REQUEST[:-2])
            assert rest_of(link).startswith(b"HTTP/1.1 408 ")

    succeeds(story)


@pytest.mark.acceptance
def test_a_connection_that_says_nothing_just_ends(hasty: tuple[str, int]) -> None:
    with socket.create_connection(hasty, DEADLINE_S) as link:
        assert rest_of(link) == b""


@pytest.mark.acceptance
def test_half_a_head_behind_a_request_is_not_waited_for_either(hasty: tuple[str, int]) -> None:
    def story() -> None:
        with socket.create_connection(hasty, DEADLINE_S) as link:
            link.sendall(REQUEST)
            while b"publishers_blocked" not in (answer := link.recv(4096)):
                assert answer
            link.sendall(REQUEST[:-2])
            assert rest_of(link).startswith(b"HTTP/1.1 408 ")

    succeeds(story)


@pytest.mark.acceptance
def test_a_head_in_pieces_is_a_request() -> None:
    with (
        broker_in_thread(Settings(), has_http=True) as thread,
        socket.create_connection(address_of(thread), DEADLINE_S) as link,
    ):
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(REQUEST)):
            link.sendall(REQUEST[at : at + 1])
        assert link.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.acceptance
def test_a_websocket_is_no_head_any_more(hasty: tuple[str, int]) -> None:
    """It ends by the deadline of AMQP's handshake, which is not answered in HTTP."""

    def story() -> None:
        with WebSocketClient(hasty) as client:
            assert client.expect_close().code == 1006

    succeeds(story)
