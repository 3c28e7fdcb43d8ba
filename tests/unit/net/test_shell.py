"""The shell of a connection, over a transport that only remembers what is asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from pamqp import body, commands, frame, header, heartbeat

from hareline import events
from hareline.amqp.connection import Connection
from hareline.amqp.context import Limits
from hareline.amqp.ports import TlsSession
from hareline.auth.certificates import PeerCertificate
from hareline.net import shell as shell_module
from hareline.net.accepting import HANDSHAKES_MAX, Accepting
from hareline.net.addresses import ProxyTls, Relayed
from hareline.net.pacing import Pacing
from hareline.net.shell import LARGE_FRAME_BYTES, LITTLE_BYTES, UNREAD_OUTPUT_MAX, ConnectionShell
from hareline.net.tls.stream import SESSION
from hareline.wire.constants import PROTOCOL_HEADER
from tests.support.freed import all_freed
from tests.support.transports import RecordingTransport
from tests.support.waiting import until
from tests.unit.amqp.peer import SteppedBroker

HIGH_BYTES = 1000


def socket_of(
    peer: tuple[Any, ...] | None = ("127.0.0.1", 40000),
    sockname: tuple[Any, ...] | None = None,
    session: TlsSession | None = None,
) -> RecordingTransport:
    return RecordingTransport(peername=peer, sockname=sockname, **{SESSION: session})


class Stand:
    """One shell of a broker that is stepped by hand."""

    def __init__(self) -> None:
        self.broker = SteppedBroker()
        self.pacing = Pacing(self.broker.turn)
        self.accepting = Accepting(self.broker.context)
        self.shell = self.make_shell()
        self.transport = socket_of()

    def make_shell(self) -> ConnectionShell:
        return ConnectionShell(
            self.broker.context, self.pacing, self.accepting, HIGH_BYTES, "a product"
        )

    def connect(self) -> None:
        self.shell.connection_made(self.transport)

    def receive(self, octets: bytes) -> None:
        """As the event loop does: into the buffer, and then by its count."""
        buffer = self.shell.get_buffer(-1)
        buffer[: len(octets)] = octets
        self.shell.buffer_updated(len(octets))

    def finish_turns(self) -> None:
        while self.broker.scheduled:
            self.broker.scheduled.pop(0)()

    @property
    def codes(self) -> list[str]:
        return [event.code for event, _ in self.broker.reports]


@pytest_asyncio.fixture
async def stand() -> AsyncIterator[Stand]:
    stand = Stand()
    stand.connect()
    yield stand
    stand.shell.connection_lost(None)


def opened(stand: Stand) -> None:
    """The handshake, as far as an open connection with channel 1."""
    stand.receive(PROTOCOL_HEADER)
    for method in (
        commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"),
        commands.Connection.TuneOk(2047, 131_072, 0),
        commands.Connection.Open("/"),
    ):
        stand.receive(frame.marshal(method, 0))
        stand.finish_turns()
    stand.receive(frame.marshal(commands.Channel.Open(), 1))
    stand.finish_turns()
    stand.transport.calls.clear()


def publish_octets(content: bytes) -> bytes:
    return b"".join(
        [
            frame.marshal(commands.Basic.Publish(exchange="", routing_key="nowhere"), 1),
            frame.marshal(header.ContentHeader(0, len(content), commands.Basic.Properties()), 1),
            frame.marshal(body.ContentBody(content), 1),
        ]
    )


# ----------------------------------------------------------------------- who is there


@pytest.mark.parametrize("tls", [None, ProxyTls("TLSv1.3")])
async def test_a_relayed_connection_is_the_client_s(tls: ProxyTls | None) -> None:
    broker = SteppedBroker()
    relayed = Relayed(("192.0.2.7", 4), ("192.0.2.1", 5671), tls)
    context = broker.context
    shell = ConnectionShell(
        context, Pacing(broker.turn), Accepting(context), HIGH_BYTES, "", relayed
    )
    shell.connection_made(socket_of(("127.0.0.1", 9), ("127.0.0.1", 5672)))
    assert shell.connection_name == "192.0.2.7:4 -> 192.0.2.1:5671"
    assert shell.auth_peer[:4] == ("192.0.2.7", False, tls is not None, None)
    shell.connection_lost(None)


@pytest.mark.parametrize("came_by", [None, ProxyTls("TLSv1.3")])
@pytest.mark.parametrize("is_own_tls", [True, False], ids=["its own", "the proxy's"])
async def test_tls_of_a_proxy_says_nothing_of_its_client(
    came_by: ProxyTls | None, is_own_tls: bool
) -> None:
    broker = SteppedBroker()
    shown = PeerCertificate("CN=proxy", "proxy", (), (), (), "CN=authority", "1", 1)
    session = TlsSession("tlsv1.3", "any", "aes_256_gcm", "aead", shown)
    transport = socket_of(session=session)
    relayed = Relayed(("192.0.2.7", 4), ("192.0.2.1", 5671), came_by, is_own_tls)
    context = broker.context
    shell = ConnectionShell(
        context, Pacing(broker.turn), Accepting(context), HIGH_BYTES, "", relayed
    )
    shell.connection_made(transport)
    peer = shell.auth_peer
    assert peer.is_tls is (is_own_tls or came_by is not None)
    assert peer.certificate == (shown if is_own_tls else None)
    shell.connection_lost(None)


async def test_what_is_read_goes_to_the_connection_and_its_answer_to_the_socket(
    stand: Stand,
) -> None:
    stand.receive(PROTOCOL_HEADER)
    stand.finish_turns()
    _, channel, start = frame.unmarshal(stand.transport.written)
    assert (channel, start.name) == (0, "Connection.Start")
    assert stand.transport.high == HIGH_BYTES
    assert stand.shell.received_bytes == len(PROTOCOL_HEADER)
    assert stand.shell.sent_bytes == len(stand.transport.written)


@pytest.mark.parametrize(
    ("peername", "peer", "host", "is_loopback"),
    [
        (("127.0.0.1", 4), "127.0.0.1:4", "127.0.0.1", True),
        (("192.0.2.7", 4), "192.0.2.7:4", "192.0.2.7", False),
        (("::1", 4, 0, 0), "[::1]:4", "::1", True),
        (("::ffff:127.0.0.1", 4, 0, 0), "[::ffff:127.0.0.1]:4", "::ffff:127.0.0.1", True),
        (("fe80::1%eth0", 4, 0, 2), "[fe80::1%eth0]:4", "fe80::1%eth0", False),
        (None, "unknown", "", False),
    ],
)
async def test_the_peer_is_named_as_the_system_knows_it(
    peername: tuple[Any, ...] | None, peer: str, host: str, is_loopback: bool
) -> None:
    stand = Stand()
    stand.transport = socket_of(peername)
    stand.connect()
    shell = stand.shell
    assert (shell.peer, shell.host, shell.is_loopback) == (peer, host, is_loopback)
    assert shell.product == "a product"
    shell.connection_lost(None)


async def test_a_socket_that_is_refused_is_dropped_and_never_a_connection(stand: Stand) -> None:
    context = stand.broker.context
    context.set_limits(Limits(max_connections_per_address=1))
    for _ in range(HANDSHAKES_MAX):
        stand.accepting.admit("127.0.0.1", "")
    refused, transport = stand.make_shell(), socket_of()
    refused.connection_made(transport)
    assert transport.calls == ["abort"]
    assert len(context.connections) == 1
    refused.connection_lost(None)
    stand.accepting.on_gone("127.0.0.1")
    late, transport = stand.make_shell(), socket_of()
    late.connection_made(transport)
    assert transport.calls == []
    late.connection_lost(None)


async def test_a_socket_above_the_rate_is_read_when_its_time_has_come(stand: Stand) -> None:
    stand.broker.context.set_limits(Limits(connection_rate=1000))
    for _ in range(1010):
        stand.accepting.admit("192.0.2.9", "")
    shell, transport = stand.make_shell(), socket_of()
    shell.connection_made(transport)
    assert transport.calls == ["pause"]
    await until(lambda: transport.calls == ["pause", "resume"], "its token to come")
    shell.connection_lost(None)


async def test_a_bug_closes_this_connection_and_is_reported(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a bug")

    opened(stand)
    monkeypatch.setattr(Connection, "receive", fail)
    stand.receive(b"\x08")
    stand.finish_turns()
    assert events.BROKER_FAILED.code in stand.codes
    assert b"INTERNAL_ERROR" in stand.transport.written


async def test_a_large_frame_is_read_into_the_large_buffer(stand: Stand) -> None:
    opened(stand)
    pacing = stand.pacing
    assert stand.shell.get_buffer(-1) is pacing.read_buffer
    octets = publish_octets(bytes(LARGE_FRAME_BYTES + 1000))
    stand.receive(octets[:200])
    assert stand.shell.get_buffer(-1) is pacing.large_buffer
    stand.receive(octets[200:])
    assert stand.shell.get_buffer(-1) is pacing.read_buffer


# ------------------------------------------------------------------- when not to read


async def test_reading_stops_while_an_alarm_or_the_broker_asks_for_it(stand: Stand) -> None:
    shell, calls = stand.shell, stand.transport.calls
    shell.pause_reading()
    shell.set_behind(True)
    assert (calls, shell.is_reading) == (["pause"], False)
    shell.resume_reading()
    assert calls == ["pause"]
    shell.set_behind(False)
    assert (calls, shell.is_reading) == (["pause", "resume"], True)


async def test_a_client_that_does_not_read_is_not_read_until_it_does(stand: Stand) -> None:
    shell, transport = stand.shell, stand.transport
    transport.waiting_bytes = UNREAD_OUTPUT_MAX * HIGH_BYTES
    shell.write(b"x")
    assert shell.is_reading
    transport.waiting_bytes += 1
    shell.write(b"x")
    shell.write(b"x")
    assert transport.calls == ["pause"]
    shell.resume_writing()
    shell.resume_writing()
    assert transport.calls == ["pause", "resume"]


async def test_a_read_that_fills_the_buffer_waits_for_the_end_of_the_turn(stand: Stand) -> None:
    opened(stand)
    beat = frame.marshal(heartbeat.Heartbeat(), 0)
    count = len(stand.pacing.read_buffer) // len(beat)
    stand.receive(beat * count)
    rest = len(stand.pacing.read_buffer) - count * len(beat)
    assert stand.shell.is_reading is (rest > 0)
    stand.receive(bytes(len(stand.pacing.read_buffer)))
    assert not stand.shell.is_reading


@pytest.mark.parametrize(
    ("body_bytes", "is_store_behind", "waits"),
    [(10, False, False), (10, True, True), (LITTLE_BYTES, False, True)],
)
async def test_a_publisher_waits_while_the_broker_is_behind_unless_it_brings_little(
    stand: Stand, body_bytes: int, is_store_behind: bool, waits: bool
) -> None:
    opened(stand)
    turn = stand.broker.turn
    turn.is_behind, turn.is_store_behind = True, is_store_behind
    stand.receive(frame.marshal(heartbeat.Heartbeat(), 0))
    assert stand.shell.is_reading  # it has published nothing yet
    stand.receive(publish_octets(bytes(body_bytes)))
    assert stand.shell.publishes
    assert stand.shell.is_reading is not waits


# -------------------------------------------------------------------------- the end


async def test_a_close_sends_an_end_of_stream_and_waits_for_the_client(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_module, "LINGER_S", 0.001)
    stand.shell.pause_reading()
    stand.shell.close()
    stand.shell.close()
    assert stand.transport.calls == ["pause", "resume", "eof"]
    await until(lambda: "abort" in stand.transport.calls, "the end of its patience")


async def test_a_close_of_a_socket_that_is_gone_drops_it(stand: Stand) -> None:
    stand.transport.eof_error = OSError(107, "not connected")
    stand.shell.close()
    assert stand.transport.calls == ["eof", "abort"]


async def test_nothing_is_written_to_a_socket_that_closes_or_is_gone(stand: Stand) -> None:
    stand.shell.abort()
    stand.shell.write(b"late")
    stand.shell.set_behind(True)
    assert (stand.transport.written, stand.transport.calls) == (b"", ["abort"])
    stand.shell.connection_lost(None)
    for late in (stand.shell.abort, stand.shell.close, stand.shell.pause_reading):
        late()
    stand.shell.write(b"late")
    assert (stand.transport.written, stand.transport.calls) == (b"", ["abort"])


@pytest.mark.parametrize(
    "late",
    [
        lambda shell: shell.pause_writing(),
        lambda shell: shell.resume_writing(),
        lambda shell: shell.buffer_updated(5),
        lambda shell: shell.connection_lost(None),
        lambda shell: shell.get_buffer(-1),
    ],
)
async def test_a_late_call_of_the_event_loop_does_nothing(
    stand: Stand, late: Callable[[ConnectionShell], object]
) -> None:
    opened(stand)
    stand.shell.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
    before = list(stand.codes)
    late(stand.shell)
    assert stand.codes == before
    assert not stand.shell.publishes


async def test_the_end_of_a_link_is_told_with_its_reason(stand: Stand) -> None:
    opened(stand)
    stand.shell.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
    event, fields = stand.broker.reports[-1]
    assert event is events.CONNECTION_LOST
    assert fields["reason"] == "Connection reset by peer"
    assert not stand.broker.context.connections


async def test_the_connection_is_freed_without_the_collector() -> None:
    with all_freed(Connection) as made:
        stand = Stand()
        stand.connect()
        opened(stand)
        assert made() == {"Connection": 1}
        stand.shell.connection_lost(None)
        stand.finish_turns()


async def test_a_connection_is_named_by_both_ends(stand: Stand) -> None:
    other = stand.make_shell()
    transport = socket_of(("2001:db8::1", 5), ("::1", 5672, 0, 0))
    other.connection_made(transport)
    assert other.connection_name == "[2001:db8::1]:5 -> [::1]:5672"
    assert stand.shell.connection_name == "127.0.0.1:40000 -> unknown"
    other.connection_lost(None)
    assert other.connection_name == "[2001:db8::1]:5 -> [::1]:5672"  # as it was counted


async def test_what_goes_through_the_socket_is_counted(stand: Stand) -> None:
    stand.receive(PROTOCOL_HEADER[:3])
    stand.receive(PROTOCOL_HEADER[3:])
    stand.finish_turns()
    stand.transport.waiting_bytes = 7
    facts = stand.shell.socket_facts()
    assert (facts.received_bytes, facts.reads) == (len(PROTOCOL_HEADER), 2)
    assert (facts.sent_bytes, facts.writes) == (len(stand.transport.written), 1)
    assert facts.unsent_bytes == 7
    assert stand.shell.traffic_bytes() == facts.received_bytes + facts.sent_bytes
