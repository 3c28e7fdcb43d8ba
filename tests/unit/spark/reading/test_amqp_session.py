"""A session speaks AMQP in order, whatever pieces the octets come in, and says what is strange."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from hareline.errors import MalformedFrame
from hareline.spark.errors import BrokerRefused
from hareline.spark.reading.amqp_session import (
    AmqpSession,
    ConsumerCancelled,
    Refusal,
    take_offset,
)
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties, encode_properties, with_integer_header
from hareline.wire.table import Array, Byte, LongLong, Short, Table
from tests.support.consumer_server import (
    ConsumerServer,
    Scripted,
    consumer_server,
    wait_until_closed,
)


@pytest.fixture
def server() -> Iterator[ConsumerServer]:
    with consumer_server("hareline") as running:
        yield running


@pytest.fixture
def session(server: ConsumerServer) -> Iterator[AmqpSession]:
    with AmqpSession(server.connection(), 60) as opened:
        yield opened


@pytest.mark.parametrize(
    ("kind", "is_hareline", "has_gaps"),
    [("hareline", True, False), ("rabbitmq", False, True), ("other", False, False)],
)
def test_brokers_are_told_apart(kind: str, is_hareline: bool, has_gaps: bool) -> None:
    with consumer_server(kind) as server, AmqpSession(server.connection(), 60) as session:
        assert (session.is_hareline, session.has_gaps) == (is_hareline, has_gaps)


def test_deliveries_come_whole_and_in_order(server: ConsumerServer, session: AmqpSession) -> None:
    server.body_frame_max = 7  # each body in several frames
    stream = server.streams["q"] = Scripted().fill(0, 5, size=20)
    stream.messages[5] = b""
    session.consume("q", "first", 10)
    found = [session.next_delivery(5) for _ in range(6)]
    assert [each.offset for each in found if each] == [0, 1, 2, 3, 4, 5]
    assert [each.body for each in found if each] == [*stream.messages.values()]
    assert session.next_delivery(0.01) is None


def test_bodies_may_be_left_out(server: ConsumerServer, session: AmqpSession) -> None:
    server.streams["q"] = Scripted().fill(0, 1, size=20)
    session.consume("q", "first", 10, keeps_bodies=False)
    delivery = session.next_delivery(5)
    assert delivery is not None
    assert (delivery.size, delivery.body) == (22, b"")


def test_credit_is_given_back(server: ConsumerServer, session: AmqpSession) -> None:
    server.streams["q"] = Scripted().fill(0, 5)
    session.consume("q", 0, 2)
    assert [session.next_delivery(5) is not None for _ in range(2)] == [True, True]
    assert session.next_delivery(0.05) is None
    session.acknowledge(2)
    delivery = session.next_delivery(5)
    assert delivery is not None
    assert delivery.offset == 2


def test_one_consumer_follows_another(server: ConsumerServer, session: AmqpSession) -> None:
    server.streams["q"] = Scripted().fill(0, 50)
    session.consume("q", 0, 50)
    assert session.next_delivery(5) is not None
    session.consume("q", 40, 1)
    delivery = session.next_delivery(5)
    assert delivery is not None
    assert (delivery.offset, delivery.tag) == (40, 1)
    assert session.count() == 50
    assert server.connections == 1


def test_a_consumer_at_the_end_is_cancelled(server: ConsumerServer, session: AmqpSession) -> None:
    server.streams["q"] = Scripted()
    session.consume("q", "first", 1, until_end=True)
    with pytest.raises(ConsumerCancelled):
        session.next_delivery(5)


def test_a_refused_consumer_leaves_the_connection(
    server: ConsumerServer, session: AmqpSession
) -> None:
    with pytest.raises(Refusal, match="404 NOT_FOUND - no queue 'none'") as refused:
        session.consume("none", "first", 1)
    assert (refused.value.code, refused.value.is_at_login) == (404, False)
    server.streams["q"] = Scripted().fill(0, 1)
    session.consume("q", "first", 1)
    assert session.next_delivery(5) is not None
    session.close()
    session.close()
    wait_until_closed(server)


def test_nothing_stays_open_after_a_refused_login(server: ConsumerServer) -> None:
    with pytest.raises(Refusal) as refused:
        AmqpSession(server.connection("wrong"), 60)
    assert refused.value.is_at_login
    wait_until_closed(server)


def _start() -> bytes:
    return encode_method(0, commands.Connection.Start, mechanisms="PLAIN", locales="en_US")


Answering = Callable[[bytes], int]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """Makes listeners that send these octets to the first client; returns their ports."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def listen(octets: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(8)
                accepted.sendall(octets)
                while accepted.recv(65_536):
                    pass

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        port: int = listener.getsockname()[1]
        return port

    yield listen
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    "octets",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"AMQP\0\1\0\0",
        b"\1\0\0\0\0\0\4\0\x3c\xff\xff\xce",
        _start()[:-1] + b"\0",
        encode_method(0, commands.Connection.OpenOk),
        b"\3\0\0\0\0\0\1x\xce",
        _start() + b"\1\0\0\0\0\0\2\0\x0a\xce",
    ],
)
def test_what_is_no_broker_is_named(answering: Answering, octets: bytes) -> None:
    with consumer_server("other") as server:
        connection = server.connection()
    port = answering(octets)
    given = type(connection)(**{**connection.__dict__, "port": port})
    with pytest.raises(BrokerRefused, match=r"does not answer as an AMQP broker does: .* url the"):
        AmqpSession(given, 60)


def test_a_broker_that_says_nothing_is_not_waited_for_for_ever(answering: Answering) -> None:
    with consumer_server("other") as server:
        connection = server.connection()
    given = type(connection)(**{**connection.__dict__, "port": answering(b"")})
    with pytest.raises(TimeoutError):
        AmqpSession(given, 0.05)


NAME = "x-stream-offset"
OTHERS = Table(
    a=1, b="x", c=None, d=True, e=Table(f=[1]), g=Array([b"x"]), h=2.5, i=Byte(1), j=Short(2)
)


def encoded(**more: object) -> bytes:
    """With properties on both sides of the headers."""
    headers = more.pop("headers", None)
    assert headers is None or isinstance(headers, Table)
    return encode_properties(
        Properties(content_type="a/b", content_encoding="c", headers=headers, message_id="m")
    )


def test_an_offset_behind_other_headers_is_taken_out() -> None:
    published = encoded(headers=OTHERS)
    assert take_offset(with_integer_header(published, NAME.encode(), 7)) == (7, published)


@pytest.mark.parametrize("value", [1 << 40, LongLong(1 << 40)])
def test_an_offset_among_other_headers_is_taken_out(value: int) -> None:
    names = [*OTHERS]
    for at in range(len(names) + 1):
        fields = [(name, OTHERS[name]) for name in names]
        fields.insert(at, (NAME, value))
        assert take_offset(encoded(headers=Table(fields))) == (1 << 40, encoded(headers=OTHERS))


def test_the_only_header_takes_the_table_with_it() -> None:
    assert take_offset(encoded(headers=Table({NAME: 0}))) == (0, encoded())
    bare = encode_properties(Properties(headers=Table({NAME: 5})))
    assert take_offset(bare) == (5, b"\0\0")


def test_what_is_no_offset_stays() -> None:
    text = Table({NAME: "7", "nested": Table({NAME: 8}), "value": NAME})
    for published in (encoded(), encoded(headers=text), encoded(headers=Table()), b"\0\0"):
        assert take_offset(published) == (None, published)


def test_octets_that_are_no_table_are_refused() -> None:
    whole = encoded(headers=OTHERS)
    end = whole.index(b"\x01m")
    for size in (1, 3, 9, 14, 20, end - 3):
        with pytest.raises(MalformedFrame, match="headers of a delivery are not a table"):
            take_offset(whole[:size])
    with pytest.raises(MalformedFrame):
        take_offset(whole.replace(b"\x01bS", b"\x01b?"))
