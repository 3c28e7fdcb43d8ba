"""Sockets over HTTP keep nobody out: neither by their number, nor by what they wait for."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pika
import pytest

from hareline.settings import Limits, Listener, Management, Settings
from tests.support.api_broker import ApiBroker
from tests.support.broker_thread import BrokerThread, broker_in_thread
from tests.support.waiting import wait_for
from tests.support.websocket_client import WebSocketClient

DEADLINE_S = 60.0
REQUEST = b"GET /api/health HTTP/1.1\r\nHost: broker\r\n\r\n"
#: Two octets of its body are missing.
PUT = (
    b"PUT /api/queues/%2F/a HTTP/1.1\r\nHost: broker\r\n"
    b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: 2\r\n\r\n"
)
#: With a wrong password, which is answered after some seconds.
WRONG_PUT = PUT.replace(b"Z3Vlc3Q=", b"Z3Vlc3M=")


def answers(link: socket.socket) -> bool:
    """True if a request is answered, False if the socket is closed."""
    try:
        link.sendall(REQUEST)
        return link.recv(4096).startswith(b"HTTP/1.1 200 ")
    except ConnectionError:
        return False


def reached(thread: BrokerThread) -> dict[str, int]:
    return thread.ask(lambda broker: dict(broker.context.counts.limits_reached.by_limit))


@pytest.mark.parametrize("limit", ["max_http_connections", "max_http_connections_per_address"])
def test_a_socket_too_many_is_closed_and_another_may_come_when_one_has_gone(limit: str) -> None:
    settings = Settings(
        limits=Limits.model_validate({limit: 3}), management=Management(forwarded_by=())
    )
    with broker_in_thread(settings, has_http=True) as thread, ExitStack() as links:
        address = thread.http_address

        def come() -> socket.socket:
            return links.enter_context(socket.create_connection(address, DEADLINE_S))

        kept = [come() for _ in range(3)]
        assert all(map(answers, kept))
        assert not answers(come())
        assert reached(thread) == {limit: 1}
        kept[0].close()
        wait_for(lambda: answers(come()), DEADLINE_S, "a place for another socket")


def test_a_proxy_that_is_named_has_no_limit_of_its_own() -> None:
    settings = Settings(
        limits=Limits(max_http_connections_per_address=1),
        management=Management(forwarded_by=("127.0.0.1",)),
    )
    with broker_in_thread(settings, has_http=True) as thread, ExitStack() as links:
        address = thread.http_address
        kept = [
            links.enter_context(socket.create_connection(address, DEADLINE_S)) for _ in range(3)
        ]
        assert all(map(answers, kept))


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """The limit on descriptors of this process, lowered for one test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    yield 400
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_amqp_clients_get_in_however_many_sockets_are_open_over_http(few_descriptors: int) -> None:
    settings = Settings(
        limits=Limits(max_http_connections=0, max_http_connections_per_address=0),
        listener=Listener(port=0),
    )
    with broker_in_thread(settings, has_http=True) as thread, ExitStack() as links:
        address = thread.http_address
        kept = [
            links.enter_context(socket.create_connection(address, DEADLINE_S))
            for _ in range(few_descriptors // 4 + 20)
        ]
        assert sum(map(answers, kept)) == few_descriptors // 4
        pika.BlockingConnection(pika.ConnectionParameters(*thread.address)).close()


@pytest.fixture(scope="module")
def hasty() -> Iterator[BrokerThread]:
    settings = Settings(limits=Limits(handshake_timeout_s=0.5))
    with broker_in_thread(settings, has_http=True) as thread:
        yield thread


def end_of(link: socket.socket) -> bytes:
    """What came last before the end."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while octets := link.recv(4096):
            received = octets
    return received


def test_a_body_that_does_not_come_is_answered_with_408(hasty: BrokerThread) -> None:
    with socket.create_connection(hasty.http_address, DEADLINE_S) as link:
        link.sendall(WRONG_PUT + b"{")
        assert end_of(link).startswith(b"HTTP/1.1 408 ")


def test_answers_that_are_not_read_end_the_connection(hasty: BrokerThread) -> None:
    """It fills the client's receive buffer, the broker's send buffer and its transport."""
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(DEADLINE_S)
        link.connect(hasty.http_address)
        request = REQUEST.replace(b"/api/health", b"/api/openapi.json")
        with pytest.raises(ConnectionError):
            link.sendall(request * 100_000)


def test_requests_far_ahead_of_the_answers_end_the_connection(broker: ApiBroker) -> None:
    with socket.create_connection(broker.thread.http_address, DEADLINE_S) as link:
        with contextlib.suppress(ConnectionError):
            link.sendall(REQUEST * 5000)
        received = b""
        with contextlib.suppress(ConnectionError):
            while octets := link.recv(65_536):
                received += octets
        assert received.count(b"HTTP/1.1 200 ") < 5000


def test_ten_requests_in_one_write_are_all_answered(broker: ApiBroker) -> None:
    with socket.create_connection(broker.thread.http_address, DEADLINE_S) as link:
        link.sendall(REQUEST * 10)
        received = b""
        while received.count(b"publishers_blocked") < 10:
            octets = link.recv(65_536)
            assert octets
            received += octets


def test_a_request_with_two_lengths_is_the_last_of_its_connection(broker: ApiBroker) -> None:
    """By the other length its chunks would be a request of their own."""
    with socket.create_connection(broker.thread.http_address, DEADLINE_S) as link:
        link.sendall(
            REQUEST.replace(
                b"\r\n\r\n",
                b"\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + REQUEST,
            )
        )
        received = b""
        with contextlib.suppress(ConnectionError):
            while octets := link.recv(4096):
                received += octets
        assert received.count(b"HTTP/1.1 200 ") == 1
        assert b"connection: close" in received.lower()


def test_a_user_may_send_as_slowly_as_it_likes(hasty: BrokerThread) -> None:
    address = hasty.http_address
    with (
        socket.create_connection(address, DEADLINE_S) as slow,
        socket.create_connection(address, DEADLINE_S) as stranger,
    ):
        slow.sendall(PUT + b"{")
        stranger.sendall(WRONG_PUT + b"{")
        assert end_of(stranger).startswith(b"HTTP/1.1 408 ")
        slow.sendall(b"}")
        assert slow.recv(4096).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize("end", [b"Connection: close\r\n", b""])
def test_a_small_answer_that_is_not_read_ends_the_connection_too(
    hasty: BrokerThread, end: bytes
) -> None:
    """What waits in the broker is less than what makes a socket count as full."""
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(DEADLINE_S)
        link.connect(hasty.http_address)
        path = b"/api/openapi.json HTTP/1.1\r\n" + end
        link.sendall(REQUEST.replace(b"/api/health HTTP/1.1\r\n", path))
        hasty.wait_until(lambda broker: not is_open(link), "the end of the connection")


def is_open(link: socket.socket) -> bool:
    """Whether the other end is there; nothing is read."""
    info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return info[0] == TCP_ESTABLISHED


TCP_ESTABLISHED = 1


def test_octets_one_by_one_behind_an_answer_keep_no_connection(hasty: BrokerThread) -> None:
    with socket.create_connection(hasty.http_address, DEADLINE_S) as link:
        link.sendall(PUT.replace(b"Authorization", b"Other").replace(b": 2", b": 1000000"))
        assert link.recv(4096).startswith(b"HTTP/1.1 401 ")
        with contextlib.suppress(ConnectionError):
            while True:
                link.sendall(b"{")


def test_no_upgrade_while_an_answer_is_unread(hasty: BrokerThread) -> None:
    """What is refused after an upgrade has no deadline of HTTP any more."""
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(DEADLINE_S)
        link.connect(hasty.http_address)
        link.sendall(
            REQUEST.replace(b"/api/health", b"/api/openapi.json")
            + b"GET /ws/amqp HTTP/1.1\r\nHost: broker\r\nConnection: upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        hasty.wait_until(lambda broker: not is_open(link), "the end of the connection")


# --------------------------------------------------------------- heads that come late or never


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
def test_half_a_head_is_answered_with_408(hasty: BrokerThread) -> None:
    def story() -> None:
        with socket.create_connection(hasty.http_address, DEADLINE_S) as link:
            link.sendall(REQUEST[:-2])
            assert rest_of(link).startswith(b"HTTP/1.1 408 ")

    succeeds(story)


@pytest.mark.acceptance
def test_a_connection_that_says_nothing_just_ends(hasty: BrokerThread) -> None:
    with socket.create_connection(hasty.http_address, DEADLINE_S) as link:
        assert rest_of(link) == b""


@pytest.mark.acceptance
def test_half_a_head_behind_a_request_is_not_waited_for_either(hasty: BrokerThread) -> None:
    def story() -> None:
        with socket.create_connection(hasty.http_address, DEADLINE_S) as link:
            link.sendall(REQUEST)
            while b"publishers_blocked" not in (answer := link.recv(4096)):
                assert answer
            link.sendall(REQUEST[:-2])
            assert rest_of(link).startswith(b"HTTP/1.1 408 ")

    succeeds(story)


@pytest.mark.acceptance
def test_a_head_in_pieces_is_a_request(broker: ApiBroker) -> None:
    with socket.create_connection(broker.thread.http_address, DEADLINE_S) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(REQUEST)):
            link.sendall(REQUEST[at : at + 1])
        assert link.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.acceptance
def test_a_websocket_is_no_head_any_more(hasty: BrokerThread) -> None:
    """It ends by the deadline of AMQP's handshake, which is not answered in HTTP."""

    def story() -> None:
        with WebSocketClient(hasty.http_address) as client:
            assert client.expect_close().code == 1006

    succeeds(story)
