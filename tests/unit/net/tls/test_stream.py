"""TLS between a transport that only remembers, a client in memory, and a protocol behind it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hareline import events
from hareline.net.tls.contexts import CertificateFiles, TlsContexts, TlsOptions, load_contexts
from hareline.net.tls.handshakes import READ_BUFFER_BYTES, Handshakes
from hareline.net.tls.stream import SESSION, TlsStream
from tests.support.authority import Files
from tests.support.transports import RecordingTransport
from tests.support.waiting import until

APP_BUFFER_BYTES = 20_000


class Socket(RecordingTransport):
    """The server's end of a socket; ``written`` is what the client has not read yet."""

    def get_write_buffer_size(self) -> int:
        return len(self.written)


class Behind(asyncio.BufferedProtocol):
    """What is behind TLS: remembers what it is told."""

    def __init__(self, buffer_bytes: int = APP_BUFFER_BYTES) -> None:
        self.buffer = bytearray(buffer_bytes)
        self.got = b""
        self.calls: list[str] = []
        self.transport: TlsStream
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsStream)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self.buffer[:nbytes]
        if "stop" in self.calls:
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Streaming(asyncio.Protocol):
    def __init__(self) -> None:
        self.got = b""

    def data_received(self, data: bytes) -> None:
        self.got += data


class Stand:
    """A stream with a client that speaks TLS in memory."""

    def __init__(self, contexts: TlsContexts, client: ssl.SSLContext) -> None:
        self.reports: list[tuple[events.Event, dict[str, object]]] = []
        self.timeout_s = 60.0
        self.handshakes = Handshakes(self.report, lambda: self.timeout_s)
        self.behind: asyncio.BaseProtocol = Behind()
        self.stream = TlsStream(self.handshakes, lambda: contexts.amqp, lambda: self.behind)
        self.socket = Socket(peername=("192.0.2.7", 4000), sockname=("192.0.2.1", 5671))
        self._to_client, self._to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(self._to_client, self._to_server, server_hostname="localhost")

    def report(self, event: events.Event, **fields: object) -> None:
        self.reports.append((event, fields))

    @property
    def app(self) -> Behind:
        assert isinstance(self.behind, Behind)
        return self.behind

    def deliver(self, octets: bytes) -> None:
        """Hand octets to the stream as a socket does: as many as its buffer takes at a time."""
        while octets:
            buffer = self.stream.get_buffer(-1)
            piece = octets[: len(buffer)]
            buffer[: len(piece)] = piece
            self.stream.buffer_updated(len(piece))
            octets = octets[len(piece) :]

    def pass_on(self) -> None:
        """Both ends get what the other one has sent."""
        self._to_client.write(self.socket.written)
        self.socket.written = b""
        self.deliver(self._to_server.read())

    async def shake(self) -> None:
        self.stream.connection_made(self.socket)
        for _ in range(4):
            try:
                self.client.do_handshake()
            except ssl.SSLWantReadError:
                self.pass_on()
                await until(lambda: self.socket.written or self.reports, "the server's answer")
                self._to_client.write(self.socket.written)
                self.socket.written = b""
            else:
                break
        self.pass_on()
        await until(lambda: self.stream.get_extra_info(SESSION) or self.reports, "the session")

    def read(self) -> bytes:
        """All that the server has sent, decrypted."""
        self._to_client.write(self.socket.written)
        self.socket.written = b""
        octets = b""
        while True:
            try:
                piece = self.client.read(1 << 20)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                return octets
            if not piece:
                return octets
            octets += piece

    def send(self, octets: bytes) -> None:
        rest = memoryview(octets)
        while rest:
            rest = rest[self.client.write(rest) :]
        self.pass_on()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.server()
    made.client("ann")
    return made


def contexts_of(files: Files, verify: str = "none") -> TlsContexts:
    table = CertificateFiles("tls", *files.pair("server"))
    options = TlsOptions((table,), str(files.ca))
    return load_contexts(options._replace(verify_clients=verify))  # type: ignore[arg-type]


@pytest_asyncio.fixture
async def stand(files: Files) -> AsyncIterator[Stand]:
    made = Stand(contexts_of(files), files.client_context())
    yield made
    made.handshakes.stop()


async def test_what_is_sent_arrives_on_both_sides(stand: Stand) -> None:
    await stand.shake()
    stand.send(b"AMQP\0\0\x09\x01")
    assert stand.app.got == b"AMQP\0\0\x09\x01"
    stand.stream.write(b"start")
    assert b"start" not in stand.socket.written
    assert stand.read() == b"start"
    assert stand.handshakes.done_count == 1


async def test_large_pieces_go_through_in_records(stand: Stand) -> None:
    await stand.shake()
    body = bytes(range(256)) * 2000
    stand.send(body)
    assert stand.app.got == body
    stand.stream.write(body)
    assert stand.read() == body


async def test_a_stream_without_a_buffer_of_its_own_gets_octets(stand: Stand) -> None:
    stand.behind = Streaming()
    await stand.shake()
    stand.send(b"GET / HTTP/1.1\r\n" + b"x" * 100_000)
    assert isinstance(stand.behind, Streaming)
    assert len(stand.behind.got) == 100_016
    other = Streaming()
    stand.stream.set_protocol(other)
    stand.send(b"upgraded")
    assert other.got == b"upgraded"
    assert stand.stream.get_protocol() is other


async def test_one_client_is_read_a_piece_at_a_time(stand: Stand) -> None:
    await stand.shake()
    stand.socket.calls.clear()
    stand.send(b"x" * (READ_BUFFER_BYTES - 10_000))
    assert stand.socket.calls == []
    stand.send(b"x" * READ_BUFFER_BYTES)
    assert stand.socket.calls == ["pause"]
    await until(lambda: stand.socket.calls == ["pause", "resume"], "the next piece")


async def test_nothing_more_is_handed_on_while_reading_is_paused(stand: Stand) -> None:
    await stand.shake()
    stand.app.calls.append("stop")
    stand.send(b"x" * 50_000)
    assert len(stand.app.got) == APP_BUFFER_BYTES
    assert not stand.stream.is_reading()
    stand.app.calls.clear()
    stand.stream.resume_reading()
    await until(lambda: len(stand.app.got) == 50_000, "the rest")


async def test_a_full_socket_is_told_to_what_is_behind(stand: Stand) -> None:
    stand.stream.pause_writing()  # of a handshake: nobody to tell
    await stand.shake()
    stand.stream.set_write_buffer_limits(1234)
    assert stand.socket.high == 1234
    stand.stream.pause_writing()
    stand.stream.resume_writing()
    assert stand.app.calls == ["pause", "resume"]
    stand.stream.write(b"x" * 1000)
    assert stand.stream.get_write_buffer_size() > 1000


async def test_an_end_of_stream_is_sent_and_what_still_comes_is_dropped(stand: Stand) -> None:
    await stand.shake()
    stand.stream.write(b"close-ok")
    stand.stream.write_eof()
    stand.stream.write(b"too late")
    assert stand.read() == b"close-ok"
    assert stand.client.read(1) == b"", "the end"
    assert stand.socket.calls[-1] == "eof"
    stand.send(b"more")
    assert stand.app.got == b""
    stand.stream.connection_lost(None)
    assert stand.app.lost == [None]


async def test_a_client_s_end_of_stream_closes_the_socket(stand: Stand) -> None:
    await stand.shake()
    with pytest.raises(ssl.SSLWantReadError):
        stand.client.unwrap()
    stand.pass_on()
    await until(lambda: "close" in stand.socket.calls, "the end")
    assert stand.stream.is_closing()


async def test_octets_that_are_no_tls_end_the_connection(stand: Stand) -> None:
    await stand.shake()
    stand.deliver(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    assert "close" in stand.socket.calls
    stand.stream.connection_lost(None)
    (error,) = stand.app.lost
    assert isinstance(error, OSError)
    assert str(error.strerror).startswith("TLS: ")


async def test_the_session_says_what_was_agreed_upon(files: Files) -> None:
    stand = Stand(contexts_of(files, "required"), files.client_context("ann"))
    await stand.shake()
    session = stand.stream.get_extra_info(SESSION)
    assert session[:4] == ("tlsv1.3", "any", "aes_256_gcm", "aead")
    assert session.certificate.subject == "CN=ann"
    assert stand.stream.get_extra_info("peername") == ("192.0.2.7", 4000)
    assert stand.stream.get_extra_info("sslcontext") is not None
    stand.handshakes.stop()


async def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    files: Files,
) -> None:
    stand = Stand(contexts_of(files, "required"), files.client_context())
    await stand.shake()
    reason = "the client shows no certificate, and one is required"
    assert stand.reports == [(events.TLS_REFUSED, {"peer": "192.0.2.7:4000", "reason": reason})]
    assert stand.handshakes.failed_count == 1
    assert stand.socket.written, "the alert"
    assert stand.socket.calls[-1] == "close"
    stand.stream.connection_lost(None)
    assert stand.app.lost == []
    assert len(stand.reports) == 1
    stand.handshakes.stop()


async def test_a_certificate_of_another_authority_is_refused(files: Files, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Files(tmp_path / "other")
    other.client("eve")
    context = files.client_context()
    context.load_cert_chain(*other.pair("eve"))
    stand = Stand(contexts_of(files, "optional"), context)
    await stand.shake()
    ((_, fields),) = stand.reports
    assert str(fields["reason"]).startswith("the client's certificate is not accepted: unable to")
    stand.handshakes.stop()


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"AMQP\0\0\x09\x01", "the client speaks AMQP without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP without TLS"),
        (b"\x00" * 20, "the client does not speak TLS"),
    ],
)
async def test_another_protocol_is_named(stand: Stand, octets: bytes, reason: str) -> None:
    stand.stream.connection_made(stand.socket)
    stand.deliver(octets)
    await until(lambda: stand.reports, "the refusal")
    assert stand.reports[0][1]["reason"] == reason


async def test_a_client_that_says_nothing_is_dropped_in_time(stand: Stand) -> None:
    stand.timeout_s = 0.0
    stand.stream.connection_made(stand.socket)
    await until(lambda: stand.reports, "the deadline")
    assert stand.reports[0][1]["reason"] == "not done within 0 s"
    assert stand.socket.calls == ["abort"]
    stand.stream.connection_lost(None)
    assert len(stand.reports) == 1


async def test_a_client_that_leaves_without_a_word_is_no_failure(stand: Stand) -> None:
    stand.stream.connection_made(stand.socket)
    stand.stream.connection_lost(None)
    assert stand.reports == [(events.CONNECTION_UNUSED, {"peer": "192.0.2.7:4000"})]
    assert stand.handshakes.failed_count == 0


async def test_a_client_that_leaves_during_a_step_is_forgotten(stand: Stand) -> None:
    stand.stream.connection_made(stand.socket)
    with pytest.raises(ssl.SSLWantReadError):
        stand.client.do_handshake()
    stand.pass_on()
    stand.stream.connection_lost(None)
    assert stand.reports[0][1]["reason"] == "the client has closed the socket"
    stand.handshakes.stop()
    await asyncio.sleep(0)
    assert stand.stream.get_extra_info("peername") is None


async def test_a_broker_that_stops_drops_handshakes(stand: Stand) -> None:
    stand.stream.connection_made(stand.socket)
    with pytest.raises(ssl.SSLWantReadError):
        stand.client.do_handshake()
    step: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    stand.handshakes.begin_step = lambda _: step  # type: ignore[assignment,method-assign,return-value]
    stand.pass_on()
    step.cancel()
    await until(lambda: "abort" in stand.socket.calls, "the end")


async def test_octets_that_come_during_a_step_are_kept(stand: Stand) -> None:
    stand.stream.connection_made(stand.socket)
    with pytest.raises(ssl.SSLWantReadError):
        stand.client.do_handshake()
    hello = stand._to_server.read()
    stand.deliver(hello[:50])
    stand.deliver(hello[50:])
    await until(lambda: stand.socket.written, "the answer")
    stand._to_client.write(stand.socket.written)
    stand.socket.written = b""
    stand.client.do_handshake()
    stand.client.write(b"at once")  # with the last step
    octets = stand._to_server.read()
    stand.deliver(octets[:-5])
    stand.deliver(octets[-5:])
    await until(lambda: stand.app.got, "what followed")
    assert stand.app.got == b"at once"


async def test_octets_that_were_read_before_it_began_are_taken(stand: Stand) -> None:
    """As what has read a header on the same socket hands them on."""
    with pytest.raises(ssl.SSLWantReadError):
        stand.client.do_handshake()
    stand.stream.connection_made(stand.socket)
    stand.stream.feed(stand._to_server.read())
    await until(lambda: stand.socket.written, "the answer")
    stand._to_client.write(stand.socket.written)
    stand.socket.written = b""
    stand.client.do_handshake()
    stand.pass_on()
    await until(lambda: stand.stream.get_extra_info(SESSION), "the session")
