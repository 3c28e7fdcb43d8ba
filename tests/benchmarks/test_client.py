"""The mini client against a scripted peer on a socket pair: what it reads, and what it refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from pamqp import body as pamqp_body
from pamqp import commands, frame, header

from benchmarks.macro.client import BrokerUrl, Client
from benchmarks.macro.errors import BenchmarkError


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def url_of(listener: socket.socket) -> str:
    return f"amqp://127.0.0.1:{listener.getsockname()[1]}/"


def serve(listener: socket.socket, *answers: bytes) -> threading.Thread:
    """Give one client these octets, one piece for each thing it sends, then close."""

    def talk() -> None:
        peer, _ = listener.accept()
        with peer:
            for answer in answers:
                if not peer.recv(65_536):
                    return
                peer.sendall(answer)

    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    return thread


START = frame.marshal(commands.Connection.Start(server_properties={"product": "Scripted"}), 0)
TUNE = frame.marshal(commands.Connection.Tune(channel_max=10, frame_max=8192, heartbeat=60), 0)
OPEN_OK = frame.marshal(commands.Connection.OpenOk(), 0)


def test_the_smaller_frame_max_is_taken_and_properties_are_kept(listener: socket.socket) -> None:
    thread = serve(listener, START, TUNE, OPEN_OK)
    client = Client(url_of(listener), with_channel=False)
    thread.join()
    assert client.frame_max == 8192
    assert client.server_properties == {"product": "Scripted"}
    client.close()


def test_a_refusal_is_told_with_its_code_and_text(listener: socket.socket) -> None:
    refusal = commands.Connection.Close(
        reply_code=530, reply_text="NOT_ALLOWED - no", class_id=10, method_id=40
    )
    serve(listener, START, TUNE, frame.marshal(refusal, 0))
    with pytest.raises(BenchmarkError, match="530 NOT_ALLOWED - no"):
        Client(url_of(listener))


def test_a_peer_that_hangs_up_is_told(listener: socket.socket) -> None:
    serve(listener, START)
    with pytest.raises(BenchmarkError, match="closed the connection"):
        Client(url_of(listener))


def test_a_delivery_is_read_whole_and_its_shape_measured(listener: socket.socket) -> None:
    deliver = commands.Basic.Deliver(
        consumer_tag="bench", delivery_tag=7, redelivered=False, exchange="", routing_key="q"
    )
    octets = b"".join(
        (
            frame.marshal(deliver, 1),
            frame.marshal(header.ContentHeader(body_size=11), 1),
            frame.marshal(pamqp_body.ContentBody(b"hello "), 1),
            frame.marshal(pamqp_body.ContentBody(b"world"), 1),
        )
    )
    serve(listener, START, TUNE, OPEN_OK + octets + b"rest")
    client = Client(url_of(listener), with_channel=False)
    content = client.read_content()
    assert content.body == b"hello world"
    assert content.shape.size == len(octets)
    tag_at, body_at = content.shape.tag_offset, content.shape.body_offset
    assert int.from_bytes(octets[tag_at : tag_at + 8], "big") == 7
    assert octets[body_at : body_at + 5] == b"hello"
    assert client.take_unread() == b"rest"
    client.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://h", BrokerUrl("h", 5672, "guest", "guest", "/")),
        ("amqp://u:p%40@h:1/", BrokerUrl("h", 1, "u", "p@", "/")),
        ("amqp://h/%2Fv", BrokerUrl("h", 5672, "guest", "guest", "/v")),
    ],
)
def test_a_url_is_taken_apart(url: str, expected: BrokerUrl) -> None:
    assert BrokerUrl.parse(url) == expected


@pytest.mark.parametrize("url", ["http://h", "amqp://", "h:5672"])
def test_what_is_no_amqp_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an amqp"):
        BrokerUrl.parse(url)
