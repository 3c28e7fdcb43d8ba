"""The stream in messages of WebSocket, over a transport that only remembers what is asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from wsproto import WSConnection
from wsproto.connection import ConnectionType
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Request,
    TextMessage,
)

from hareline.net.accepting import Accepting
from hareline.net.addresses import Relayed
from hareline.net.pacing import READ_BUFFER_BYTES, Pacing
from hareline.net.shell import ConnectionShell
from hareline.net.websocket import FRAMES_PER_SHARE, UNREAD_BEFORE_PONG_MAX, WebSocketFront
from tests.support.transports import RecordingTransport
from tests.support.waiting import until
from tests.unit.amqp.peer import SteppedBroker

PEER = Relayed(("192.0.2.7", 40000), ("192.0.2.1", 443))


class RecordingShell(ConnectionShell):
    """A shell that keeps what it is given, and wants no more while it is told so."""

    def __init__(self) -> None:
        broker = SteppedBroker()
        accepting = Accepting(broker.context)
        super().__init__(broker.context, Pacing(broker.turn), accepting, 1000, "", PEER)
        self.received = b""
        self.pauses_after: int | None = None

    def buffer_updated(self, nbytes: int) -> None:
        self.received += bytes(self._buffer[:nbytes])
        if self.pauses_after is not None and len(self.received) >= self.pauses_after:
            self.pause_reading()


class Stand:
    """A connection after its upgrade; ``client`` makes the frames of the other side."""

    def __init__(self) -> None:
        self.shell = RecordingShell()
        self.transport = RecordingTransport()
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.front = WebSocketFront(self.shell, self._report)
        self.client = WSConnection(ConnectionType.CLIENT)
        request = self.client.send(Request(host="broker", target="/ws/amqp", subprotocols=["amqp"]))
        lines = request.split(b"\r\n")[1:-2]
        headers = [(name.lower(), value) for name, value in (line.split(b": ") for line in lines)]
        self.front.upgrade(self.transport, headers, b"/ws/amqp")
        (accepted,) = self.answers()
        assert isinstance(accepted, AcceptConnection)
        self.transport.calls.clear()

    def _report(self, event: Any, **fields: object) -> None:
        self.reports.append((event.code, fields))

    def send(self, *events: Event) -> None:
        """As one read of the socket."""
        self.front.data_received(b"".join(self.client.send(event) for event in events))

    def answers(self) -> list[Event]:
        """What was written since the last call."""
        self.client.receive_data(self.transport.written)
        self.transport.written = b""
        return list(self.client.events())

    def octets(self) -> bytes:
        return b"".join(each.data for each in self.answers() if isinstance(each, BytesMessage))


@pytest_asyncio.fixture
async def stand() -> AsyncIterator[Stand]:
    stand = Stand()
    yield stand
    stand.front.connection_lost(None)


async def test_messages_are_a_stream_wherever_they_end(stand: Stand) -> None:
    stand.send(
        BytesMessage(data=b"a", message_finished=False),
        BytesMessage(data=b"b"),
        BytesMessage(data=b""),
        BytesMessage(data=b"cd"),
    )
    assert stand.shell.received == b"abcd"


async def test_a_part_of_a_frame_goes_on_before_its_end(stand: Stand) -> None:
    frame = stand.client.send(BytesMessage(data=b"abcdef"))
    stand.front.data_received(frame[:-2])
    assert stand.shell.received == b"abcd"
    stand.front.data_received(frame[-2:])
    assert stand.shell.received == b"abcdef"


async def test_a_message_larger_than_the_read_buffer_comes_in_pieces(stand: Stand) -> None:
    body = bytes(range(256)) * 1024
    assert len(body) > READ_BUFFER_BYTES
    stand.send(BytesMessage(data=body))
    assert stand.shell.received == body


async def test_what_the_shell_writes_is_a_binary_message(stand: Stand) -> None:
    stand.shell.write(b"out")
    (event,) = stand.answers()
    assert isinstance(event, BytesMessage)
    assert (event.data, event.message_finished) == (b"out", True)


async def test_what_comes_while_the_shell_is_paused_waits_and_comes_in_order(stand: Stand) -> None:
    stand.shell.pauses_after = 2
    stand.send(*(BytesMessage(data=each) for each in (b"ab", b"cd", b"ef")))
    assert stand.shell.received == b"ab"
    assert stand.transport.calls == ["pause"]
    stand.shell.pauses_after = None
    stand.shell.resume_reading()
    assert stand.shell.received == b"ab"  # not within the shell's own call
    await until(lambda: stand.transport.calls == ["pause", "resume"], "reading to go on")
    assert stand.shell.received == b"abcdef"


async def test_the_rest_of_a_large_message_waits_too(stand: Stand) -> None:
    stand.shell.pauses_after = READ_BUFFER_BYTES
    body = bytes(READ_BUFFER_BYTES + 10)
    stand.send(BytesMessage(data=body), BytesMessage(data=b"end"))
    assert len(stand.shell.received) == READ_BUFFER_BYTES
    stand.shell.pauses_after = None
    stand.shell.resume_reading()
    await until(lambda: "resume" in stand.transport.calls, "reading to go on")
    assert stand.shell.received == body + b"end"


async def test_many_frames_are_taken_in_shares(stand: Stand) -> None:
    stand.send(*[BytesMessage(data=b"x")] * (2 * FRAMES_PER_SHARE + 1))
    assert len(stand.shell.received) == FRAMES_PER_SHARE
    assert stand.transport.calls == ["pause"]
    await until(lambda: "resume" in stand.transport.calls, "reading to go on")
    assert len(stand.shell.received) == 2 * FRAMES_PER_SHARE + 1


async def test_a_ping_is_answered_unless_the_peer_reads_nothing(stand: Stand) -> None:
    stand.send(Ping(payload=b"1"))
    assert len(stand.answers()) == 1
    stand.transport.waiting_bytes = UNREAD_BEFORE_PONG_MAX + 1
    stand.send(Ping(payload=b"2"))
    assert stand.transport.written == b""


async def test_text_ends_it_with_a_reason_and_a_line_in_the_log(stand: Stand) -> None:
    stand.send(TextMessage(data="AMQP"))
    (close,) = stand.answers()
    assert isinstance(close, CloseConnection)
    assert close.code == 1003
    assert stand.transport.calls == ["close"]
    ((code, fields),) = stand.reports
    assert (code, fields["peer"]) == ("CON-1032", "192.0.2.7:40000")


async def test_what_is_no_frame_ends_it_once(stand: Stand) -> None:
    stand.front.data_received(b"\x83\x80\0\0\0\0")
    stand.front.data_received(b"\x83\x80\0\0\0\0")
    (close,) = stand.answers()
    assert isinstance(close, CloseConnection)
    assert close.code == 1002
    assert len(stand.reports) == 1


async def test_a_close_of_the_shell_waits_for_the_peer_s(stand: Stand) -> None:
    stand.shell.close()
    (close,) = stand.answers()
    assert isinstance(close, CloseConnection)
    assert close.code == 1000
    assert stand.transport.calls == []
    stand.shell.write(b"too late")
    assert stand.transport.written == b""
    stand.send(close.response())
    assert stand.transport.calls == ["close"]


async def test_a_close_of_the_peer_is_answered(stand: Stand) -> None:
    stand.send(CloseConnection(code=1001, reason="going away"))
    (close,) = stand.answers()
    assert isinstance(close, CloseConnection)
    assert close.code == 1001
    assert stand.transport.calls == ["close"]
    stand.front.data_received(b"whatever")
    assert stand.shell.received == b""


async def test_the_high_water_mark_is_that_of_the_socket(stand: Stand) -> None:
    fresh = RecordingTransport()
    shell = RecordingShell()
    front = WebSocketFront(shell, stand._report)
    request = [
        (b"host", b"broker"),
        (b"connection", b"upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", b"AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    front.upgrade(fresh, request, b"/ws/amqp")
    assert (fresh.high, fresh.calls) == (1000, [])
    assert fresh.protocol is front
    fresh.waiting_bytes = 7
    assert shell.socket_facts().unsent_bytes == 7
    front.connection_lost(None)


@pytest.mark.parametrize("missing", range(4))
async def test_a_request_that_is_no_upgrade_is_refused(stand: Stand, missing: int) -> None:
    request = [
        (b"connection", b"upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", b"AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    del request[missing]
    fresh = RecordingTransport()
    front = WebSocketFront(RecordingShell(), stand._report)
    front.upgrade(fresh, [(b"host", b"broker"), *request], b"/ws/amqp")
    assert fresh.written.startswith(b"HTTP/1.1 400 ")
    assert fresh.calls == ["close"]
    assert fresh.protocol is None


async def test_an_upgrade_without_a_host_is_refused(stand: Stand) -> None:
    """As of HTTP/1.0, of which h11 makes no request of version 1.1."""
    request = [
        (b"connection", b"upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", b"AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    fresh = RecordingTransport()
    WebSocketFront(RecordingShell(), stand._report).upgrade(fresh, request, b"/ws/amqp")
    assert fresh.written.startswith(b"HTTP/1.1 400 ")
    assert fresh.protocol is None
