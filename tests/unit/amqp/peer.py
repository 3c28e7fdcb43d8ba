"""A broker that is stepped by hand, and clients at the other end of its connections.

Nothing here has a socket, a thread or a real clock: octets go into ``Connection.receive``, the turn
is finished when a test asks for replies, time passes when a test says so. What comes back is cut
into frames and read by code of its own, and every frame is held against what was negotiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from hareline.amqp.connection import Connection
from hareline.amqp.context import Context, Identity, Limits
from hareline.amqp.ports import SocketFacts, Transport
from hareline.auth.backends import AuthChain, InternalBackend
from hareline.auth.login_limits import LoginLimits
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.passwords import hash_password
from hareline.auth.permissions import ALL_PERMISSIONS, Permissions, TopicPermissions
from hareline.auth.users import User, UserRegistry
from hareline.broker.vhost import VirtualHost
from hareline.clock import ManualClock
from hareline.events import Event
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.storage.memory import MemoryStore
from hareline.turn import Turn
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import Frame, commands, decode_method, encode_method, method_name
from hareline.wire.properties import Properties, decode_properties, encode_properties
from tests.support.login_work import AtOnce

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
TURNS_MAX: Final = 10_000  # more in a row without anything new is a loop
NO_PROPERTIES: Final = Properties()
CAPABILITIES: Final[dict[str, object]] = {
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}

_FRAME_HEAD: Final = Struct(">BHI")
_HEADER_HEAD: Final = Struct(">HHQ")  # class, weight, body size


class WireFrame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


class Received(NamedTuple):
    """A method from the broker, with its content when it carries one; or a heartbeat."""

    channel: int
    name: str
    method: Any
    properties: Properties | None = None
    property_octets: bytes = b""
    body: bytes = b""


class Refusal(NamedTuple):
    """What a close frame says; ``scope`` is the class that carried it."""

    scope: str
    code: int
    text: str
    class_id: int
    method_id: int


def _cancelled() -> None:
    raise AssertionError("a timer runs that was cancelled")


@dataclass(eq=False)
class ManualTimer:
    due_s: float
    callback: Callable[[], None]
    is_done: bool = False

    def cancel(self) -> None:
        """As asyncio's: it refers to nothing any more."""
        self.is_done = True
        self.callback = _cancelled


class RecordingTransport(Transport):
    """A socket that keeps what is written to it and remembers what was done to it."""

    def __init__(self, broker: SteppedBroker, *, is_loopback: bool) -> None:
        self._broker = broker
        self._is_loopback = is_loopback
        self.listener_product = ""
        self.port = 40000 + broker.accepted
        broker.accepted += 1
        self.written = b""
        self.writes = 0
        self.sent_bytes = 0
        self.state = "open"  # or "closed", or "dropped"
        self._is_reading = True

    @property
    def peer(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def host(self) -> str:
        return "127.0.0.1" if self._is_loopback else "192.0.2.7"

    @property
    def connection_name(self) -> str:
        return f"{self.host}:{self.port} -> 127.0.0.1:5672"

    def traffic_bytes(self) -> int:
        return self.sent_bytes

    def socket_facts(self) -> SocketFacts:
        return SocketFacts(
            host="127.0.0.1",
            port=5672,
            peer_host=self.host,
            peer_port=self.port,
            sent_bytes=self.sent_bytes,
            writes=self.writes,
        )

    @property
    def product(self) -> str:
        return self.listener_product

    @property
    def is_loopback(self) -> bool:
        return self._is_loopback

    @property
    def is_reading(self) -> bool:
        return self._is_reading

    def write(self, octets: bytes) -> None:
        if self.state == "open":
            self.written += octets
            self.writes += 1
            self.sent_bytes += len(octets)

    def close(self) -> None:
        self.state = "closed"

    def abort(self) -> None:
        self.state = "dropped"

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ManualTimer:
        return self._broker.call_later(delay_s, callback)


class RunningClock(ManualClock):
    """Every look at it takes a millisecond, so that much work takes many shares of time."""

    def running_s(self) -> float:
        self.monotonic_s += 0.001
        return self.monotonic_s


class SteppedBroker:
    """The protocol side of a broker with everything real but the time, the loop and the sockets.

    Users: guest (loopback only), and ``add_user`` for others. Virtual hosts: "/" and ``add_vhost``.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        mechanisms: Iterable[str] | None = None,
        store: MessageStore | None = None,
        definitions: DefinitionStore | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.definitions = definitions or DefinitionStore()
        self.clock = clock or ManualClock()
        self.accepted = 0
        self.timers: list[ManualTimer] = []
        self.scheduled: list[Callable[[], None]] = []
        self.reports: list[tuple[Event, dict[str, object]]] = []
        self.turn = Turn(self.scheduled.append)
        self.turn.write_pending = self.store.write_pending
        self.store.ask_for_turn = self.turn.arm
        self.users = UserRegistry()
        self.login_failures_max = 0
        registry = MechanismRegistry() if mechanisms is None else MechanismRegistry(mechanisms)
        self.context = Context(
            clock=self.clock,
            turn=self.turn,
            users=self.users,
            logins=AuthChain(
                [InternalBackend(self.users, AtOnce())],
                self.users,
                LoginLimits(lambda: self.login_failures_max, lambda: self.clock.monotonic_s),
            ),
            mechanisms=registry,
            identity=Identity("RabbitMQ", "4.2.0", "hareline@test", "CPython 3", "Hareline 1"),
            limits=limits or Limits(),
            report=self._report,
        )
        self.add_vhost("/")
        self.add_user("guest", "guest")

    def _report(self, event: Event, **fields: object) -> None:
        self.reports.append((event, fields))

    def reported(self, event: Event) -> list[dict[str, object]]:
        return [fields for reported, fields in self.reports if reported is event]

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ManualTimer:
        """What ``hareline.clock.Timers`` asks for: ``advance`` makes the call."""
        timer = ManualTimer(self.clock.monotonic_s + delay_s, callback)
        self.timers.append(timer)
        return timer

    def add_vhost(
        self,
        name: str,
        *,
        max_connections: int = 0,
        max_queues: int = 0,
        audit: AuditRecorder | None = None,
    ) -> VirtualHost:
        vhost = VirtualHost(
            name,
            self.turn,
            clock=self.clock,
            timers=self,
            report=self._report,
            store=self.store,
            definitions=self.definitions,
            max_queues=max_queues or None,
            audit=audit,
            counts=self.context.counts,
            whole=self.context.capacity,
        )
        self.context.vhosts[name] = vhost
        if max_connections:
            self.context.vhost_connection_limits[name] = max_connections
        return vhost

    def add_user(
        self,
        name: str,
        password: str,
        *,
        permissions: Permissions = ALL_PERMISSIONS,
        vhosts: Iterable[str] = ("/",),
        tags: Iterable[str] = (),
        topics: Mapping[str, TopicPermissions] | None = None,
    ) -> None:
        """``topics``: topic permissions in "/", by exchange."""
        self.users.add(
            User(
                name,
                hash_password(password),
                tags=frozenset(tags),
                permissions=dict.fromkeys(vhosts, permissions),
                topic_permissions={("/", name): each for name, each in (topics or {}).items()},
            )
        )

    @property
    def vhost(self) -> VirtualHost:
        return self.context.vhosts["/"]

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]

    # ------------------------------------------------------------------ time and turns

    def run_turns(self) -> None:
        """Finish turns until nothing is scheduled any more."""
        for _ in range(TURNS_MAX):
            if not self.scheduled:
                return
            self.scheduled.pop(0)()
        raise AssertionError(f"{TURNS_MAX} turns and still not done")

    def advance(self, seconds: float) -> None:
        """Let time pass, run the timers that fall due in their order, finish their turns."""
        end = self.clock.monotonic_s + seconds
        while True:
            pending = [timer for timer in self.timers if not timer.is_done and timer.due_s <= end]
            if not pending:
                break
            timer = min(pending, key=lambda timer: timer.due_s)
            timer.is_done = True
            self.clock.advance(round((timer.due_s - self.clock.monotonic_s) * 1000))
            timer.callback()
            self.run_turns()
        self.timers = [timer for timer in self.timers if not timer.is_done]
        self.clock.advance(round((end - self.clock.monotonic_s) * 1000))

    # ----------------------------------------------------------------------- clients

    def accept(self, *, is_loopback: bool = True) -> Peer:
        """A socket was accepted; nothing has been said yet."""
        return Peer(self, RecordingTransport(self, is_loopback=is_loopback))

    def connect(
        self,
        user: str = "guest",
        password: str | None = None,
        *,
        vhost: str = "/",
        frame_max: int = 131_072,
        channel_max: int = 2047,
        heartbeat_s: int = 0,
        capabilities: dict[str, object] | None = None,
        channels: Iterable[int] = (1,),
        qpid: str | None = None,
    ) -> Peer:
        """A client that went through the whole handshake and opened these channels.

        ``qpid``: it is Qpid's, with this client id.
        """
        peer = self.accept(is_loopback=user == "guest")
        peer.start(
            user, user if password is None else password, capabilities=capabilities, qpid=qpid
        )
        peer.expect(commands.Connection.Tune)
        peer.frame_max = frame_max
        peer.send(
            0,
            commands.Connection.TuneOk,
            frame_max=frame_max,
            channel_max=channel_max,
            heartbeat=heartbeat_s,
        )
        peer.call(0, commands.Connection.Open, virtual_host=vhost)
        for number in channels:
            peer.open(number)
        return peer


class Peer:
    """One client. ``send...`` and ``publish`` give octets to the broker; the others look back."""

    def __init__(self, broker: SteppedBroker, transport: RecordingTransport) -> None:
        self.broker = broker
        self.transport = transport
        self.connection = Connection(broker.context, transport)
        self.frame_max = 8192

    @property
    def user(self) -> User:
        """As whom it has logged in."""
        user = self.connection.client.user
        assert user is not None
        return user

    # ------------------------------------------------------------------------- out

    def send_octets(self, octets: bytes) -> None:
        self.connection.receive(octets)

    def send(self, number: int, method_class: type[Frame], **fields: object) -> None:
        self.send_octets(encode_method(number, method_class, **fields))

    def send_frame(self, kind: int, number: int, payload: bytes) -> None:
        self.send_octets(frame(kind, number, payload))

    def publish(
        self,
        number: int,
        routing_key: str,
        body: bytes = b"",
        *,
        properties: Properties = NO_PROPERTIES,
        **fields: object,
    ) -> None:
        self.send_octets(
            publish_octets(
                number, routing_key, body, properties, frame_max=self.frame_max, **fields
            )
        )

    def lose(self, reason: str = "") -> None:
        """The socket breaks."""
        self.transport.state = "dropped"
        self.connection.on_transport_lost(reason)
        self.broker.run_turns()

    # -------------------------------------------------------------------------- in

    def receive(self) -> list[Received]:
        """Everything the broker wrote since the last call, after finishing its turns."""
        self.broker.run_turns()
        octets, self.transport.written = self.transport.written, b""
        frames = split_frames(octets)
        for one in frames:
            assert len(one.payload) + 8 <= self.frame_max, "a frame above the negotiated size"
        return read_frames(frames)

    def expect(self, method_class: type[Frame]) -> Any:
        """The method of the one frame that came, which must be of this class."""
        received = self.receive()
        assert [one.name for one in received] == [method_name(method_class.index)], received
        return received[0].method

    def expect_nothing(self) -> None:
        assert self.receive() == []

    def call(self, number: int, method_class: type[Frame], **fields: object) -> Any:
        """Send a method, and return the one reply to it, which must be on the same channel."""
        self.send(number, method_class, **fields)
        received = self.receive()
        assert len(received) == 1, received
        assert received[0].channel == number, received
        assert received[0].name == f"{method_name(method_class.index)}-ok", received
        return received[0].method

    def refusal(self) -> Refusal:
        """The one close frame that came; a channel's is answered, so its number is free again."""
        received = self.receive()
        assert len(received) == 1, received
        number, name, method, *_ = received[0]
        assert name in ("channel.close", "connection.close"), received
        assert (name == "connection.close") == (number == 0), received
        if number:
            self.send(number, commands.Channel.CloseOk)
        return Refusal(
            name.removesuffix(".close"),
            method.reply_code,
            method.reply_text,
            method.class_id,
            method.method_id,
        )

    def refused(self, number: int, method_class: type[Frame], **fields: object) -> tuple[int, str]:
        """Code and text of the refusal of a method, which the close frame must name."""
        self.send(number, method_class, **fields)
        refusal = self.refusal()
        assert (refusal.class_id, refusal.method_id) == ids(method_class), refusal
        return refusal.code, refusal.text

    def publish_refused(self, number: int, routing_key: str, **fields: Any) -> tuple[int, str]:
        """As ``refused``, for a publish."""
        self.publish(number, routing_key, **fields)
        refusal = self.refusal()
        assert (refusal.class_id, refusal.method_id) == (60, 40), refusal
        return refusal.code, refusal.text

    def bodies(self) -> list[bytes]:
        """The bodies that were delivered or returned; nothing else may have come."""
        received = self.receive()
        assert all(one.properties is not None for one in received), received
        return [one.body for one in received]

    def is_read_from(self) -> bool:
        """Whether the broker reads this client's socket."""
        return self.transport.is_reading

    # ------------------------------------------------------------------ short stories

    def start(
        self,
        user: str,
        password: str,
        *,
        capabilities: dict[str, object] | None = None,
        qpid: str | None = None,
    ) -> None:
        """Protocol header and start-ok with PLAIN."""
        self.send_octets(PROTOCOL_HEADER)
        self.expect(commands.Connection.Start)
        self.start_ok("PLAIN", f"\0{user}\0{password}", capabilities=capabilities, qpid=qpid)

    def start_ok(
        self,
        mechanism: str,
        response: str | bytes,
        *,
        capabilities: dict[str, object] | None = None,
        qpid: str | None = None,
    ) -> None:
        properties: dict[str, object] = {
            "product": "test",
            "capabilities": CAPABILITIES if capabilities is None else capabilities,
        }
        if qpid is not None:  # what the client in Java says of itself
            properties = {
                "instance": qpid,
                "product": "qpid",
                "version": "6.4.0",
                "platform": "Java(TM) SE Runtime Environment",
                "qpid.client_process": "Apache Qpid JMS Client for AMQP 0-9-1/0-10",
                "qpid.client_pid": 1,
            }
        self.send(
            0,
            commands.Connection.StartOk,
            client_properties=properties,
            mechanism=mechanism,
            response=response,
            locale="en_US",
        )

    def open(self, number: int) -> None:
        self.call(number, commands.Channel.Open)

    def declare(self, name: str = "", **fields: object) -> str:
        """Declare a queue on channel 1; returns its name."""
        return str(self.call(1, commands.Queue.Declare, queue=name, **fields).queue)

    def declare_exchange(self, name: str, exchange_type: str = "direct", **fields: object) -> None:
        self.call(
            1, commands.Exchange.Declare, exchange=name, exchange_type=exchange_type, **fields
        )

    def bind(self, queue: str, exchange: str, routing_key: str = "", **fields: object) -> None:
        self.call(
            1,
            commands.Queue.Bind,
            queue=queue,
            exchange=exchange,
            routing_key=routing_key,
            **fields,
        )

    def fill(self, queue: str, *bodies: bytes) -> None:
        for body in bodies:
            self.publish(1, queue, body)

    def consume(self, queue: str, tag: str, *, number: int = 1, **fields: object) -> None:
        """Consume; what is delivered at once is for ``receive``."""
        self.send(number, commands.Basic.Consume, queue=queue, consumer_tag=tag, **fields)

    def subscribe(self, queue: str, tag: str, *, number: int = 1, **fields: object) -> None:
        """Consume from a queue that has nothing ready, and take consume-ok."""
        self.consume(queue, tag, number=number, **fields)
        assert self.expect(commands.Basic.ConsumeOk).consumer_tag == tag

    def get(self, queue: str, *, number: int = 1, no_ack: bool = False) -> Received | None:
        """basic.get; None for get-empty."""
        self.send(number, commands.Basic.Get, queue=queue, no_ack=no_ack)
        (received,) = self.receive()
        if received.name == "basic.get-empty":
            return None
        assert received.name == "basic.get-ok"
        return received

    def drain(self, queue: str) -> list[bytes]:
        """The bodies of everything ready, taken with basic.get and no acknowledgement."""
        bodies = []
        while (received := self.get(queue, no_ack=True)) is not None:
            bodies.append(received.body)
        return bodies

    def ack(self, tag: int, *, number: int = 1, multiple: bool = False) -> None:
        self.send(number, commands.Basic.Ack, delivery_tag=tag, multiple=multiple)

    def nack(
        self, tag: int, *, number: int = 1, multiple: bool = False, requeue: bool = True
    ) -> None:
        self.send(number, commands.Basic.Nack, delivery_tag=tag, multiple=multiple, requeue=requeue)


def read_frames(frames: Iterable[WireFrame]) -> list[Received]:
    """Put methods and their contents together; anything out of place is a failure."""
    received = []
    following = iter(frames)
    for kind, number, payload in following:
        if kind == HEARTBEAT:
            assert (number, payload) == (0, b"")
            received.append(Received(0, "heartbeat", None))
            continue
        assert kind == METHOD, f"a frame of type {kind} where a method must stand"
        received.append(_read_method(number, payload, following))
    return received


def _read_method(number: int, payload: bytes, following: Iterator[WireFrame]) -> Received:
    method = decode_method(payload)
    name = method_name(method.index)
    if name not in ("basic.deliver", "basic.get-ok", "basic.return"):
        return Received(number, name, method)
    kind, channel, header = next(following)
    assert (kind, channel) == (HEADER, number)
    class_id, weight, size = _HEADER_HEAD.unpack_from(header)
    assert (class_id, weight) == (60, 0)
    body = b""
    while len(body) < size:
        kind, channel, chunk = next(following)
        assert (kind, channel) == (BODY, number)
        assert chunk, "an empty body frame"
        body += chunk
    assert len(body) == size
    octets = header[_HEADER_HEAD.size :]
    return Received(number, name, method, decode_properties(octets), octets, body)


def split_frames(octets: bytes) -> list[WireFrame]:
    """Whole frames; octets that are none are a failure of whoever wrote them."""
    frames = []
    position = 0
    while position < len(octets):
        kind, number, size = _FRAME_HEAD.unpack_from(octets, position)
        end = position + _FRAME_HEAD.size + size
        assert end < len(octets), "a frame that is cut off"
        assert octets[end] == 0xCE, "a frame without its end octet"
        frames.append(WireFrame(kind, number, octets[position + _FRAME_HEAD.size : end]))
        position = end + 1
    return frames


def frame(kind: int, number: int, payload: bytes) -> bytes:
    return _FRAME_HEAD.pack(kind, number, len(payload)) + payload + b"\xce"


def header_payload(size: int, properties: Properties = NO_PROPERTIES, class_id: int = 60) -> bytes:
    return _HEADER_HEAD.pack(class_id, 0, size) + encode_properties(properties)


def publish_octets(
    number: int,
    routing_key: str,
    body: bytes = b"",
    properties: Properties = NO_PROPERTIES,
    *,
    frame_max: int = 131_072,
    **fields: object,
) -> bytes:
    """A publish as a client frames it; ``fields`` are exchange, mandatory, immediate."""
    parts = [
        encode_method(number, commands.Basic.Publish, routing_key=routing_key, **fields),
        frame(HEADER, number, header_payload(len(body), properties)),
    ]
    chunk = frame_max - 8
    parts += [
        frame(BODY, number, body[start : start + chunk]) for start in range(0, len(body), chunk)
    ]
    return b"".join(parts)


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Bodies that tell the order in which they were published."""
    return [b"%d" % number for number in range(first, first + count)]


def ids(method_class: type[Frame]) -> tuple[int, int]:
    return method_class.index >> 16, method_class.index & 0xFFFF
