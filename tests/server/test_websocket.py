"""AMQP over WebSocket on a real broker: pika through a tunnel, and what clients do wrong."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pika
import pika.exceptions
import pytest
from pamqp import commands, frame
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from hareline.net.websocket import FRAMES_PER_SHARE
from hareline.settings import Auth, Limits, Management, Settings, WebSocket
from tests.support.broker_thread import BrokerThread, broker_in_thread
from tests.support.http_api import HttpApi
from tests.support.websocket_client import Refused, WebSocketClient, tunnel

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
DEADLINE_S = 60.0
#: Of the port, and of the sites that the settings below name.
SHOP = "https://shop.example"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    settings = Settings(
        auth=Auth(failure_delay_s=0),
        websocket=WebSocket(origins=(SHOP,)),
        limits=Limits(write_buffer_high_bytes=65_536),
    )
    with broker_in_thread(settings, has_http=True) as thread:
        yield thread


def connect(address: tuple[str, int]) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(*address))


def next_method(client: WebSocketClient) -> Any:
    """A method that the broker sends as a message of its own."""
    return frame.unmarshal(client.receive(1))[2]


def expect_nobody_left(broker: BrokerThread) -> None:
    broker.wait_until(lambda inside: not inside.context.connections, "all connections to be gone")


# ------------------------------------------------------------------------- what works


@pytest.mark.acceptance
@pytest.mark.parametrize("piece", [3, 100, 65_536])
def test_a_client_works_however_its_octets_are_cut_into_messages(
    broker: BrokerThread, piece: int
) -> None:
    body = bytes(range(256)) * (10 if piece < 100 else 4096)
    with tunnel(broker.http_address, piece=piece) as address, connect(address) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(3):
            channel.basic_publish("", queue, body, mandatory=True)
        got = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)]
    assert got == [body] * 3
    expect_nobody_left(broker)


def test_a_consumer_that_reads_late_gets_everything(broker: BrokerThread) -> None:
    """More than the socket holds: deliveries stop at the high-water mark, and come back."""
    body, count = b"x" * 100_000, 200
    with connect(broker.address) as publisher:
        channel = publisher.channel()
        channel.queue_declare("late", auto_delete=True)
        for _ in range(count):
            channel.basic_publish("", "late", body)
        with tunnel(broker.http_address) as address, connect(address) as connection:
            late = connection.channel()
            sizes = []
            for method, _, got in late.consume("late", inactivity_timeout=DEADLINE_S):
                sizes.append(len(got))
                late.basic_ack(method.delivery_tag)
                if len(sizes) == count:
                    break
            late.cancel()
    assert sizes == [len(body)] * count


def test_the_connection_is_shown_with_the_addresses_of_its_socket(broker: BrokerThread) -> None:
    expect_nobody_left(broker)
    host, port = broker.http_address
    with WebSocketClient((host, port)) as client:
        near = client.socket.getsockname()
        names = broker.ask(
            lambda inside: [each.transport.connection_name for each in inside.context.connections]
        )
        assert names == [f"{near[0]}:{near[1]} -> {host}:{port}"]
    expect_nobody_left(broker)


def test_the_sub_protocol_is_named_if_the_client_knows_it(broker: BrokerThread) -> None:
    with WebSocketClient(broker.http_address, subprotocols=("mqtt", "amqp")) as client:
        assert client.subprotocol == "amqp"
    with WebSocketClient(broker.http_address, subprotocols=()) as client:
        assert client.subprotocol is None


def test_a_ping_is_answered_amid_a_message(broker: BrokerThread) -> None:
    with WebSocketClient(broker.http_address) as client:
        client.send(BytesMessage(data=PROTOCOL_HEADER[:5], message_finished=False))
        client.send(Ping(payload=b"there?"))
        event = client.next_event()
        assert isinstance(event, Pong)
        assert event.payload == b"there?"
        client.send(BytesMessage(data=PROTOCOL_HEADER[5:]))
        start = next_method(client)
        assert start.name == "Connection.Start"


def test_a_close_of_amqp_closes_the_websocket(broker: BrokerThread) -> None:
    with WebSocketClient(broker.http_address) as client:
        client.send_octets(b"GET / HT")  # answered with the protocol header, and the end
        assert client.receive(8) == PROTOCOL_HEADER
        assert client.expect_close().code == 1000
        assert client.socket.recv(1) == b""
    expect_nobody_left(broker)


def test_a_client_that_closes_the_websocket_is_gone(broker: BrokerThread) -> None:
    with WebSocketClient(broker.http_address) as client:
        client.send_octets(PROTOCOL_HEADER)
        client.receive(100)
        client.send(CloseConnection(code=1000))
        assert client.expect_close().code == 1000
        assert client.socket.recv(1) == b""
    expect_nobody_left(broker)


# ----------------------------------------------------------------- what clients do wrong


def test_text_is_refused(broker: BrokerThread) -> None:
    with WebSocketClient(broker.http_address) as client:
        client.send(TextMessage(data="AMQP"))
        close = client.expect_close()
        assert (close.code, close.reason) == (1003, "AMQP comes in binary messages, not in text")
    expect_nobody_left(broker)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x82\x08AMQP\x00\x00\x09\x01",  # not masked
        b"\xc2\x80\0\0\0\0",  # a reserved bit
        b"\x83\x80\0\0\0\0",  # a reserved opcode
        b"\x80\x80\0\0\0\0",  # a continuation of nothing
        b"\x89\xfe\x00\x80\0\0\0\0",  # a ping that is too long
    ],
)
def test_what_is_no_frame_is_refused(broker: BrokerThread, octets: bytes) -> None:
    with WebSocketClient(broker.http_address) as client:
        client.socket.sendall(octets)
        assert client.expect_close().code == 1002
    expect_nobody_left(broker)


def test_a_frame_that_claims_to_be_huge_takes_no_memory(broker: BrokerThread) -> None:
    """What has come of it goes on at once: the broker finds that it is no AMQP."""
    with WebSocketClient(broker.http_address) as client:
        head = struct.pack(">BBQ", 0x82, 0xFF, 2**62)
        client.socket.sendall(head + b"\0\0\0\0" + b"no AMQP!")
        assert client.receive(8) == PROTOCOL_HEADER
        assert client.expect_close().code == 1000


@pytest.mark.acceptance
def test_who_never_says_anything_is_dropped(broker: BrokerThread) -> None:
    settings = Settings(limits=Limits(authentication_timeout_s=0.2, handshake_timeout_s=3600))
    with (
        broker_in_thread(settings, has_http=True) as hasty,
        WebSocketClient(hasty.http_address) as client,
    ):
        assert client.expect_close().code == 1006


@pytest.mark.acceptance
def test_a_flood_of_empty_frames_leaves_others_their_turn(broker: BrokerThread) -> None:
    flood = b"\x82\x80\0\0\0\0" * (FRAMES_PER_SHARE * 40)
    with (
        WebSocketClient(broker.http_address) as client,
        connect(broker.address) as bystander,
    ):
        channel = bystander.channel()
        client.socket.sendall(flood)
        channel.queue_declare("", exclusive=True)
        client.send_octets(PROTOCOL_HEADER)
        client.receive(100)  # all of them were taken
    expect_nobody_left(broker)


# --------------------------------------------------------------------------- who may


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"Origin", SHOP.encode())],
        [(b"Origin", b"HTTPS://SHOP.EXAMPLE")],
    ],
)
def test_programs_and_pages_of_named_sites_may_connect(
    broker: BrokerThread, headers: list[tuple[bytes, bytes]]
) -> None:
    with WebSocketClient(broker.http_address, headers) as client:
        client.send_octets(PROTOCOL_HEADER)
        client.receive(8)


def test_a_page_of_the_broker_s_own_port_may_connect(broker: BrokerThread) -> None:
    host, port = broker.http_address
    with WebSocketClient((host, port), [(b"Origin", f"http://{host}:{port}".encode())]) as client:
        client.send_octets(PROTOCOL_HEADER)
        client.receive(8)


@pytest.mark.parametrize("origin", [b"https://evil.example", b"null", b"http://127.0.0.1", b"["])
def test_pages_of_other_sites_may_not(broker: BrokerThread, origin: bytes) -> None:
    with pytest.raises(Refused) as caught:
        WebSocketClient(broker.http_address, [(b"Origin", origin)])
    assert caught.value.status == 403


def test_a_client_that_knows_other_sub_protocols_only_is_refused(broker: BrokerThread) -> None:
    with pytest.raises(Refused) as caught:
        WebSocketClient(broker.http_address, subprotocols=("mqtt",))
    assert caught.value.status == 400


def test_a_plain_request_is_told_what_this_is(broker: BrokerThread) -> None:
    answer = HttpApi(broker.management_url).ask("GET", "/ws/amqp")
    assert answer.status_code == 426
    assert answer.headers["Upgrade"] == "websocket"
    assert "WebSocket" in answer.json()["reason"]


def test_a_host_that_is_no_name_is_refused(broker: BrokerThread) -> None:
    request = (
        b"GET /ws/amqp HTTP/1.1\r\nHost: " + b"a" * 70 + b".example\xff\r\nConnection: upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with socket.create_connection(broker.http_address, DEADLINE_S) as link:
        link.sendall(request)
        assert link.recv(100).startswith(b"HTTP/1.1 400 ")


def test_guest_may_not_come_through_a_proxy_from_elsewhere(broker: BrokerThread) -> None:
    elsewhere = [(b"X-Forwarded-For", b"192.0.2.7")]
    with (
        tunnel(broker.http_address, elsewhere) as address,
        pytest.raises(pika.exceptions.ProbableAuthenticationError),
    ):
        connect(address)
    expect_nobody_left(broker)


@pytest.mark.acceptance
def test_a_proxy_with_the_proxy_protocol_names_the_client() -> None:
    settings = Settings(management=Management(proxy_protocol_from=("127.0.0.1",)))
    with broker_in_thread(settings, has_http=True) as thread:
        greeting = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\r\n"
        with WebSocketClient(thread.http_address, greeting=greeting):
            names = thread.ask(
                lambda inside: [
                    each.transport.connection_name for each in inside.context.connections
                ]
            )
            assert names == ["192.0.2.7:40000 -> 198.51.100.1:443"]


@pytest.mark.acceptance
def test_it_can_be_switched_off() -> None:
    settings = Settings(websocket=WebSocket(enabled=False))
    with broker_in_thread(settings, has_http=True) as thread, pytest.raises(Refused) as caught:
        WebSocketClient(thread.http_address)
    assert caught.value.status == 404


@pytest.mark.acceptance
def test_a_broker_that_stops_says_so(broker: BrokerThread) -> None:
    with broker_in_thread(Settings(), has_http=True) as thread:
        client = WebSocketClient(thread.http_address)
        with client:
            client.send_octets(PROTOCOL_HEADER)
            client.receive(100)
            ok = frame.marshal(commands.Connection.StartOk(response="\0guest\0guest"), 0)
            client.send_octets(ok)
            tune = next_method(client)
            client.send_octets(
                frame.marshal(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
                + frame.marshal(commands.Connection.Open("/"), 0)
            )
            next_method(client)
            thread.begin_to_stop(DEADLINE_S)
            close = next_method(client)
            assert close.reply_code == 320
            client.send_octets(frame.marshal(commands.Connection.CloseOk(), 0))
            assert client.expect_close().code in (1000, 1006)
