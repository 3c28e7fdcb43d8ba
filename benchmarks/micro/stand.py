"""A test stand for the hot modules: the protocol side of a broker with nothing around it.

No socket, no event loop, no log: a ``Stand`` has everything real but the transport, which forgets
what is written to it, and the turn, which is finished by hand. Clients are octets that are prepared
before the clock runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.context import Context, Identity, Limits
from hareline.amqp.ports import Transport
from hareline.auth.backends import AuthChain, InternalBackend, Workers
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import ALL_PERMISSIONS
from hareline.auth.users import User, UserRegistry
from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock, Timer
from hareline.events import Event
from hareline.message import Address, Message
from hareline.net.allocator import keep_freed_memory
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.entry import QueueEntry
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.storage.memory import MemoryStore
from hareline.turn import Turn
from hareline.wire.constants import FRAME_END_OCTET, PROTOCOL_HEADER
from hareline.wire.encoder import body_frame_head, content_frames, header_frame, short_string
from hareline.wire.methods import Frame, commands, encode_method
from hareline.wire.properties import Properties, encode_properties

FRAME_MAX = 131_072
AUDIT_BYTES = 1 << 20
NO_PROPERTIES = b"\x00\x00"
#: What a client library sends with a usual message: content-type and delivery-mode.
USUAL_PROPERTIES = encode_properties(
    Properties(content_type="application/octet-stream", delivery_mode=1)
)


class NullTimer(Timer):
    def cancel(self) -> None:
        """There is nothing to cancel: it never runs."""


class NoWork(Workers):
    """For logins whose hash is quick."""

    def submit(self, *_: Any, **__: Any) -> bool:
        raise AssertionError("a login of a benchmark has a slow hash")


class NullTransport(Transport):
    """Counts what is written, and keeps the last of it."""

    def __init__(self) -> None:
        self.written_bytes = 0
        self.last = b""

    @property
    def peer(self) -> str:
        return f"{self.host}:1"

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def is_loopback(self) -> bool:
        return True

    def write(self, octets: bytes) -> None:
        self.written_bytes += len(octets)
        self.last = octets

    def close(self) -> None:
        raise AssertionError("the broker closed the connection of a benchmark")

    def abort(self) -> None:
        raise AssertionError("the broker dropped the connection of a benchmark")

    def pause_reading(self) -> None:
        """It has had its share of the turn, and goes on in the next one."""

    def resume_reading(self) -> None:
        """Its turn has come; there is no socket to read."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return NullTimer()


class NullConsumer(Consumer):
    """Takes everything and does nothing with it, but for keeping it if it acknowledges."""

    def __init__(self, queue: Queue, tag: str = "c", **options: Any) -> None:
        super().__init__(tag, queue, **options)
        self.unacked: list[QueueEntry] = []

    def deliver(self, entries: list[QueueEntry]) -> int:
        if self.acknowledges:
            self.unacked += entries
        return len(entries)

    @property
    def room_bytes(self) -> int:
        return 1 << 40

    def suspend_if_full(self) -> bool:
        return False

    def on_finished(self) -> None:
        raise AssertionError("it does not close at the end")

    def on_queue_deleted(self) -> None:
        """Nobody to tell."""


class NoTimers:
    """Time stands still in here."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> NoTimer:
        return NoTimer()


class NoTimer:
    def cancel(self) -> None:
        """It never rings."""


class Stand:
    """A broker with one virtual host; ``connect`` gives open connections.

    ``audit_share``: of the messages that are audited, in a stream that keeps a MiB; 0: no audit.
    ``store``: that keeps persistent messages, not started yet; None: nothing is kept.
    """

    def __init__(self, *, audit_share: float = 0.0, store: MessageStore | None = None) -> None:
        keep_freed_memory()  # as the server does
        self.scheduled: list[Callable[[], None]] = []
        self.turn = Turn(self.scheduled.append)
        guest = User("guest", hash_password("guest"), permissions={"/": ALL_PERMISSIONS})
        users = UserRegistry([guest])
        clock = Clock()
        self.context = Context(
            clock=clock,
            turn=self.turn,
            users=users,
            logins=AuthChain([InternalBackend(users, NoWork())], users),
            mechanisms=MechanismRegistry(),
            identity=Identity("RabbitMQ", "4.2.0", "bench", "CPython", "Hareline"),
            limits=Limits(),
            report=_forget,
        )
        audit = None
        if audit_share:
            audit = AuditRecorder(
                self.turn,
                clock,
                NoTimers(),
                share=audit_share,
                refusal=str,
                stream_arguments={"x-queue-type": "stream", "x-max-length-bytes": AUDIT_BYTES},
            )
        self.vhost = self.context.vhosts["/"] = VirtualHost(
            "/",
            self.turn,
            clock=clock,
            timers=NoTimers(),
            report=_forget,
            store=MemoryStore() if store is None else store,
            definitions=DefinitionStore(),
            audit=audit,
        )
        self.vhost.open_audit()
        if store is not None:
            store.ask_for_turn = self.turn.arm
            self.turn.write_pending = store.write_pending

    def run_turns(self) -> None:
        """Finish turns until there is nothing left to do."""
        scheduled = self.scheduled
        while scheduled:
            scheduled.pop()()

    def connect(self, *channels: int) -> Connection:
        """A connection that has been through the handshake, with these channels open."""
        connection = Connection(self.context, NullTransport())
        for octets in (
            PROTOCOL_HEADER,
            encode_method(
                0, commands.Connection.StartOk, mechanism="PLAIN", response="\0guest\0guest"
            ),
            encode_method(0, commands.Connection.TuneOk, channel_max=2047, frame_max=FRAME_MAX),
            encode_method(0, commands.Connection.Open, virtual_host="/"),
            *[encode_method(number, commands.Channel.Open) for number in channels],
        ):
            connection.receive(octets)
        self.run_turns()
        assert connection.is_running, connection
        assert set(connection.channels.by_number) == set(channels)
        return connection

    def call(self, connection: Connection, method: type[Frame], **fields: object) -> None:
        """One method on channel 1, and its turn."""
        connection.receive(encode_method(1, method, **fields))
        self.run_turns()
        assert connection.is_running, connection

    def declare(self, connection: Connection, name: str) -> Queue:
        self.call(connection, commands.Queue.Declare, queue=name)
        return self.vhost.queues[name]

    def channel(self, connection: Connection) -> Channel:
        """Channel 1 of this connection."""
        return connection.channels.by_number[1]


def _forget(event: Event, **fields: object) -> None:
    """Benchmarks log nothing."""


def message(
    body: bytes, *, routing_key: str = "q", channel: int = 1, properties: bytes = NO_PROPERTIES
) -> Message:
    """As it is after a publish to the default exchange on that channel."""
    header = header_frame(channel, properties, len(body))
    content = header
    if body:
        content += body_frame_head(channel, len(body)) + body + FRAME_END_OCTET
    octets = short_string("") + short_string(routing_key)
    return Message(Address("", routing_key, octets), content, len(header), len(body), channel, 0)


def publish_octets(
    body: bytes,
    *,
    exchange: str = "",
    routing_key: str = "q",
    channel: int = 1,
    properties: bytes = NO_PROPERTIES,
    mandatory: bool = False,
) -> bytes:
    """One publish as a client frames it."""
    publish = encode_method(
        channel,
        commands.Basic.Publish,
        exchange=exchange,
        routing_key=routing_key,
        mandatory=mandatory,
    )
    framed = message(body, channel=channel, properties=properties)
    return publish + b"".join(content_frames(framed, channel, FRAME_MAX))


def ack_octets(first: int, count: int, *, channel: int = 1) -> bytes:
    """Single acks of ``count`` tags."""
    return b"".join(
        encode_method(channel, commands.Basic.Ack, delivery_tag=tag)
        for tag in range(first, first + count)
    )
