"""Ports between the parts of a connection, where an import would go in a circle.

``net.shell`` implements ``Transport``, and ``amqp.connection`` both faces of a connection:
``LiveConnection`` for the broker around it, ``ConnectionPort`` for its own parts and its channels.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from hareline.amqp.client import Client
from hareline.auth.certificates import PeerCertificate
from hareline.auth.peer import Peer
from hareline.clock import Timer
from hareline.compiled import mypyc_attr, trait
from hareline.counts import ConnectionCounts
from hareline.wire.decoder import FrameSink


class TlsSession(NamedTuple):
    """TLS of a connection, in RabbitMQ's words: ``tlsv1.3``, ``any``, ``aes_256_gcm``, ``aead``.

    ``certificate``: the client's, if it has shown one, verified.
    """

    protocol: str
    key_exchange: str
    cipher: str
    hash: str
    certificate: PeerCertificate | None = None


def tls_fields(session: TlsSession | None) -> dict[str, object]:
    """RabbitMQ's keys of a connection; all but ``ssl`` are None without TLS."""
    certificate = None if session is None else session.certificate
    validity = None
    if certificate is not None:
        validity = f"{_time(certificate.not_before_ms)} - {_time(certificate.not_after_ms)}"
    return {
        "ssl": session is not None,
        "ssl_protocol": None if session is None else session.protocol,
        "ssl_key_exchange": None if session is None else session.key_exchange,
        "ssl_cipher": None if session is None else session.cipher,
        "ssl_hash": None if session is None else session.hash,
        "peer_cert_subject": None if certificate is None else certificate.subject,
        "peer_cert_issuer": None if certificate is None else certificate.issuer,
        "peer_cert_validity": validity,
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SocketFacts(NamedTuple):
    """``reads`` and ``writes``: how often the socket was read and written ("packets").

    ``unsent_bytes``: what waits for the socket to take it.
    """

    host: str = ""
    port: int = 0
    peer_host: str = ""
    peer_port: int = 0
    received_bytes: int = 0
    reads: int = 0
    sent_bytes: int = 0
    writes: int = 0
    unsent_bytes: int = 0


class InnerState(NamedTuple):
    """State of the parts of a connection. ``handshake``: its state, empty after it.

    ``reasons`` not to read, of ``amqp.input_gate``. ``blocked_ms``: since when a resource alarm
    blocks it, 0 if none does. ``is_stopped``: it waits for full queues.
    """

    handshake: str
    heartbeat_s: int
    reasons: int
    blocked_ms: int
    is_stopped: bool


@mypyc_attr(allow_interpreted_subclasses=True)
class Transport(metaclass=ABCMeta):
    """The socket side of a connection, as the protocol side sees it."""

    __slots__ = ()

    @property
    @abstractmethod
    def peer(self) -> str:
        """``host:port`` of the client."""

    @property
    @abstractmethod
    def host(self) -> str:
        """The client's address without the port; empty if the client was gone at once."""

    @property
    def product(self) -> str:
        """The product name for all clients of this port; empty where the broker decides."""
        return ""

    @property
    def connection_name(self) -> str:
        return f"{self.peer} -> unknown"

    @property
    def tls(self) -> TlsSession | None:
        """TLS of the connection; None without it."""
        return None

    def traffic_bytes(self) -> int:
        return 0

    def socket_facts(self) -> SocketFacts:
        return SocketFacts()

    @property
    @abstractmethod
    def is_loopback(self) -> bool: ...

    @property
    def auth_peer(self) -> Peer:
        """Origin of a login on this connection."""
        tls = self.tls
        certificate = None if tls is None else tls.certificate
        return Peer(self.host, self.is_loopback, tls is not None, certificate, self.has_left)

    def has_left(self) -> bool:
        """True if the client is known to have left, even while the socket is not read."""
        return False

    @property
    def is_reading(self) -> bool:
        """True if the socket is read; while it is not, the client's silence means nothing."""
        return True

    @abstractmethod
    def write(self, octets: bytes) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Close once what was written has gone out."""

    @abstractmethod
    def abort(self) -> None:
        """Drop the socket at once."""

    @abstractmethod
    def pause_reading(self) -> None: ...

    @abstractmethod
    def resume_reading(self) -> None: ...

    @abstractmethod
    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer: ...


@trait
class LiveConnection(metaclass=ABCMeta):
    """A connection as the broker around it sees it: alarms, limits, reload, shutdown."""

    __slots__ = ()

    client: Client
    transport: Transport

    @property
    def counts(self) -> ConnectionCounts:
        """Counts of its socket."""
        facts = self.transport.socket_facts()
        return ConnectionCounts(facts.received_bytes, facts.reads, facts.sent_bytes, facts.writes)

    @property
    @abstractmethod
    def channel_count(self) -> int:
        """Number of channels that are open, or closing."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """True if the handshake is over and neither side has closed."""

    @property
    @abstractmethod
    def is_blocked(self) -> bool:
        """True if a resource alarm blocks it."""

    @abstractmethod
    def on_alarm(self) -> None:
        """A resource is short."""

    @abstractmethod
    def on_alarm_cleared(self) -> None:
        """No resource is short any more."""

    @abstractmethod
    def renew_access(self) -> None:
        """Take over what the user may do now; the users were read again."""

    @abstractmethod
    def update_taps(self) -> None:
        """Tell the firehose of messages on the channels, if it is on, and otherwise nothing."""

    @abstractmethod
    def force_close(self, explanation: str) -> None:
        """Send connection.close 320, or drop a connection that never got that far."""


class ConnectionPort(FrameSink):
    """A connection as its own parts and its channels see it.

    ``on_error`` is also for a method that fails after its handler has returned.
    """

    __slots__ = ()

    @abstractmethod
    def forget_channel(self, number: int) -> None:
        """Free this channel's number: both sides have closed the channel."""

    @abstractmethod
    def reopen_lanes(self, number: int) -> None:
        """Open the lanes that this channel may have now, if there is such a channel."""

    @abstractmethod
    def await_definitions(self, *names: str) -> None:
        """Write nothing before what was changed of these queues and exchanges is durable.

        If it is lost, the connection is closed.
        """

    @abstractmethod
    def has_deliveries(self) -> bool:
        """True if one of the channels has a consumer or an unacked delivery."""


class LateFrames(metaclass=ABCMeta):
    """Frames of one channel that are made at the end of a turn: publisher confirms."""

    __slots__ = ()

    channel_number: int
    is_marked: bool

    @abstractmethod
    def release(self) -> bytes:
        """The frames that can go out now, maybe none; clears ``is_marked``."""
