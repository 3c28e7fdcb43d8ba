"""A whole connection: octets of clients in, and only AMQP comes out.

An input is a script of what two clients of one broker do. Some steps send octets as they are; the
others build methods of names and arguments that fit together, so that much can happen. The broker
is real but for sockets, time and disk; in half of them messages are kept on a disk that fails.

Whatever is sent, no exception of ours is reported (541), everything that comes back is well-formed,
and when the clients are gone no message is left with one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hareline import events
from hareline.amqp.context import Limits
from hareline.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, PROTOCOL_HEADER
from hareline.wire.methods import Frame, commands, encode_method
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Array, Table, Timestamp
from tests.fuzz.decoder_target import content, frame
from tests.fuzz.tables_target import method_classes
from tests.fuzz.target import Reader, Target, piece
from tests.support.stores import FakeStore
from tests.unit.amqp.peer import Peer, SteppedBroker, read_frames, split_frames

STEPS_MAX: Final = 200
CONNECTS_MAX: Final = 8
LIMITS: Final = Limits(max_message_bytes=4096, channel_max=4, max_consumers_per_channel=8)

QUEUES: Final = ("", "a", "b", "c", "d", "amq.gen-x", "amq.rabbitmq.reply-to", "\udcff")
EXCHANGES: Final = ("", "x", "y", "amq.topic", "amq.headers", "amq.match", "amq.fanout", "amq.none")
TYPES: Final = (
    *("direct", "fanout", "topic", "headers", "x-delayed-message", "x-consistent-hash"),
    *("x-random", "x-jms-topic", "none"),
)
KEYS: Final = ("", "a", "b", "c", "d", "a.b", "a.*", "#", "amq.rabbitmq.reply-to", "#.#.a", "2")
NAMES: Final = (
    *("x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key"),
    *("x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode"),
    *("x-single-active-consumer", "x-queue-type", "x-max-age", "x-delivery-limit"),
    *("x-qpid-priorities", "x-default-priority", "x-sort-key", "x-sort-order", "x-sort-type"),
    *("x-last-value-key", "x-message-group-key", "x-message-group-type", "x-max-consumers"),
    *("x-message-group-default", "x-non-destructive", "x-default-filters", "x-min-message-ttl"),
    *("x-max-message-ttl", "x-expiry-check-period", "x-expires-if-empty", "x-hold-on-publish"),
    *("x-dead-letter-reasons", "x-dead-letter-transient", "x-dlq-auto", "x-archive-to"),
    *("x-message-durability", "x-qpid-capacity", "x-flow-resume-limit", "alternate-exchange"),
    *("x-delayed-type", "x-match", "hash-header", "hash-property", "x-priority", "x-filter"),
    *("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered", "x-cancel-on-ha-failover"),
    *("x-no-local", "no-local", "x-credit", "x-browse", "x-exclusive", "x-pull-only", "x-reader"),
    *("qpid.policy_type", "qpid.max_count", "qpid.max_size", "x-jms-selector", "x-group"),
    *("x-producer-id", "x-producer-sequence", "CC", "BCC", "x-delay", "JMSXGroupID", "x-death"),
    *("x-opt-delivery-delay", "x-opt-delivery-time", "x-qpid-not-valid-before", "n", "a", "deaths"),
    *("rjms_erlang_selector", "x-message-deduplication", "x-deduplication-header", "replayable"),
)
VALUES: Final[tuple[object, ...]] = (
    *(0, 1, 2, 5, 10, 255, 256, -1, 60_000, 2**31, 2**63 - 1, -(2**63), True, False, None),
    *("", "a", "b", "x", "y", "amq.topic", "amq.match", "stream", "quorum", "classic", "first"),
    *("reject-publish", "drop-head", "reject-publish-dlx", "last", "next", "any", "all", "1h"),
    *("standard", "shared", "ring", "flow_to_disk", "desc", "string", "number", "JMSXGroupID"),
    *("n > 1", "a = 'b' AND n IS NULL", "n", "{'=',{'ident',<<\"n\">>},1}.", "direct", "\udcff"),
    *(0.5, float("nan"), 1e300, b"\xff", Timestamp(0), Timestamp(2**64 - 1)),
    *(Array(["a", "b"]), Array([1, None]), Array([Table({"queue": "a", "reason": "expired"})])),
    *(Table({"a": 1}), Table({"x-filter-jms-selector": Array(["n > 1"])})),
)
PROPERTIES: Final = (
    Properties(),
    Properties(delivery_mode=2),
    Properties(priority=9),
    Properties(expiration="0"),
    Properties(expiration="50"),
    Properties(expiration="x"),
    Properties(user_id="guest"),
    Properties(user_id="other"),
    Properties(reply_to="amq.rabbitmq.reply-to", correlation_id="c"),
    Properties(reply_to="a", message_id="m", type="t", timestamp=Timestamp(5)),
)
METHODS: Final = method_classes()


class Script:
    """Runs one input. ``peers``: two clients, made again when the broker has closed them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._connects = 0
        mode = reader.octet() % 8
        self._is_raw = mode in (3, 7)
        self._store = FakeStore() if mode > 3 else None
        self.broker = SteppedBroker(LIMITS, store=self._store)
        self.peers = [self._connect(), self._connect()]
        self._steps: Sequence[Callable[[Peer], None]] = (
            self._octets,
            self._method,
            self._header,
            self._body,
            self._declare,
            self._publish,
            self._publish,
            self._consume,
            self._settle,
            self._settle,
            self._get,
            self._bind,
            self._transaction,
            self._qos,
            self._declare_exchange,
            self._remove,
            self._pass_time,
            self._alarm,
            self._leave,
            self._channel,
            self._socket,
            self._cancel,
            self._disk,
        )

    def run(self) -> None:
        reader = self._reader
        for _ in range(STEPS_MAX):
            if not reader:
                break
            step = reader.octet()
            which = step >> 7
            self._steps[step % 64 % len(self._steps)](self.peers[which])
            if step & 64:
                continue  # more comes in the same turn
            for each in (0, 1):
                self._look(each)
        for each in (0, 1):
            self._look(each)
            self.peers[each].lose()
        self._heal()
        self.broker.advance(30)
        self._check_the_end()

    def _connect(self) -> Peer:
        self._connects += 1
        if self._is_raw:
            peer = self.broker.accept()
            peer.frame_max = 131_072
            return peer
        return self.broker.connect(channels=(1, 2), frame_max=4096, channel_max=4)

    def _look(self, which: int) -> None:
        """Everything that came back is well-formed; a client that was closed comes again."""
        peer = self.peers[which]
        self.broker.run_turns()
        octets, peer.transport.written = peer.transport.written, b""
        if octets.startswith(PROTOCOL_HEADER):
            octets = octets[len(PROTOCOL_HEADER) :]
        for one in (frames := split_frames(octets)):
            assert len(one.payload) + 8 <= peer.frame_max, "a frame above the negotiated size"
        for received in read_frames(frames):
            if received.name.endswith(".close"):
                assert received.method.reply_code != 541, received
        assert not self.broker.reported(events.BROKER_FAILED), self._failures()
        if peer.transport.state != "open" and self._connects < CONNECTS_MAX:
            peer.lose()
            self.peers[which] = self._connect()

    def _failures(self) -> object:
        for fields in self.broker.reported(events.BROKER_FAILED):
            error = fields.get("exc_info")
            if isinstance(error, BaseException):
                raise error
        return self.broker.reported(events.BROKER_FAILED)

    def _check_the_end(self) -> None:
        assert not self.broker.reported(events.BROKER_FAILED), self._failures()
        assert not self.broker.context.connections
        for queue in self.broker.vhost.queues.values():
            assert queue.unacked_count == 0, f"{queue.name}: messages are left with a client"
            assert queue.ready_count >= 0
            assert queue.held_count >= 0
            entries = list(queue.lane.ready_entries())
            assert len(entries) == queue.ready_count, f"{queue.name}: the count of the ready ones"
            assert sum(each.message.size for each in entries) == queue.ready_bytes, queue.name

    # ------------------------------------------------------------------------ octets

    def _octets(self, peer: Peer) -> None:
        peer.send_octets(self._reader.piece())

    def _number(self) -> int:
        return self._reader.octet() % 4

    def _method(self, peer: Peer) -> None:
        reader = self._reader
        number, method = self._number(), METHODS[reader.octet() % len(METHODS)]
        index = method.index.to_bytes(4, "big")
        peer.send_octets(frame(FRAME_METHOD, number, index + reader.piece()))

    def _header(self, peer: Peer) -> None:
        reader = self._reader
        number, size = self._number(), reader.number()
        payload = b"\0\x3c\0\0" + size.to_bytes(8, "big") + reader.piece()
        peer.send_octets(frame(FRAME_HEADER, number, payload))

    def _body(self, peer: Peer) -> None:
        number = self._number()
        peer.send_octets(frame(FRAME_BODY, number, self._reader.piece()))

    # --------------------------------------------------------------- methods that fit

    def _pick(self, among: Sequence[str]) -> str:
        return among[self._reader.octet() % len(among)]

    def _table(self) -> Table:
        reader, table = self._reader, Table()
        for _ in range(reader.octet() % 5):
            table[self._pick(NAMES)] = VALUES[reader.octet() % len(VALUES)]
        return table

    def _flags(self, *names: str) -> dict[str, bool]:
        bits = self._reader.octet()
        return {name: bool(bits >> place & 1) for place, name in enumerate(names)}

    def _send(self, peer: Peer, method: type[Frame], **fields: object) -> None:
        number = self._reader.octet() % 2 + 1
        peer.send_octets(encode_method(number, method, **fields))

    def _declare(self, peer: Peer) -> None:
        self._send(
            peer,
            commands.Queue.Declare,
            queue=self._pick(QUEUES),
            arguments=self._table(),
            **self._flags("exclusive", "auto_delete", "passive", "nowait", "durable"),
        )

    def _declare_exchange(self, peer: Peer) -> None:
        self._send(
            peer,
            commands.Exchange.Declare,
            exchange=self._pick(EXCHANGES),
            exchange_type=self._pick(TYPES),
            arguments=self._table(),
            **self._flags("internal", "auto_delete", "passive", "nowait", "durable"),
        )

    def _bind(self, peer: Peer) -> None:
        bits = self._reader.octet()
        fields: dict[str, object] = {
            "routing_key": self._pick(KEYS),
            "arguments": self._table(),
            "nowait": bool(bits & 4),
        }
        if bits & 1:
            method: type[Frame] = commands.Exchange.Unbind if bits & 2 else commands.Exchange.Bind
            fields |= {"source": self._pick(EXCHANGES), "destination": self._pick(EXCHANGES)}
        else:
            method = commands.Queue.Unbind if bits & 2 else commands.Queue.Bind
            fields |= {"queue": self._pick(QUEUES), "exchange": self._pick(EXCHANGES)}
            if bits & 2:
                del fields["nowait"]
        self._send(peer, method, **fields)

    def _publish(self, peer: Peer) -> None:
        reader = self._reader
        number = reader.octet() % 2 + 1
        properties = PROPERTIES[reader.octet() % len(PROPERTIES)]
        headers = self._table()
        if headers:
            properties = Properties(
                headers=headers,
                delivery_mode=properties.delivery_mode,
                priority=properties.priority,
                expiration=properties.expiration,
                reply_to=properties.reply_to,
            )
        octets = encode_method(
            number,
            commands.Basic.Publish,
            exchange=self._pick(EXCHANGES),
            routing_key=self._pick(KEYS),
            **self._flags("mandatory", "immediate"),
        )
        octets += content(number, reader.piece(), properties)
        peer.send_octets(octets * (reader.octet() % 5))

    def _consume(self, peer: Peer) -> None:
        self._send(
            peer,
            commands.Basic.Consume,
            queue=self._pick(QUEUES),
            consumer_tag=self._pick(("", "one", "two")),
            arguments=self._table(),
            **self._flags("no_ack", "no_local", "exclusive", "nowait"),
        )

    def _cancel(self, peer: Peer) -> None:
        tag = self._pick(("one", "two", "three"))
        self._send(peer, commands.Basic.Cancel, consumer_tag=tag, **self._flags("nowait"))

    def _get(self, peer: Peer) -> None:
        queue = self._pick(QUEUES)
        self._send(peer, commands.Basic.Get, queue=queue, **self._flags("no_ack"))

    def _settle(self, peer: Peer) -> None:
        bits, tag = self._reader.octet(), self._reader.octet() % 16
        is_multiple, requeue = bool(bits & 1), bool(bits & 2)
        kind = bits >> 2 & 3
        if kind == 0:
            self._send(peer, commands.Basic.Ack, delivery_tag=tag, multiple=is_multiple)
        elif kind == 1:
            self._send(peer, commands.Basic.Reject, delivery_tag=tag, requeue=requeue)
        elif kind == 2:
            self._send(
                peer,
                commands.Basic.Nack,
                delivery_tag=tag,
                multiple=is_multiple,
                requeue=requeue,
            )
        else:
            self._send(peer, commands.Basic.Recover, requeue=requeue)

    def _transaction(self, peer: Peer) -> None:
        methods = (
            commands.Tx.Select,
            commands.Tx.Commit,
            commands.Tx.Rollback,
            commands.Confirm.Select,
        )
        self._send(peer, methods[self._reader.octet() % len(methods)])

    def _qos(self, peer: Peer) -> None:
        count = self._reader.octet() % 8
        size = self._reader.octet() % 2 * 100
        self._send(
            peer,
            commands.Basic.Qos,
            prefetch_count=count,
            prefetch_size=size,
            **self._flags("global_"),
        )

    def _remove(self, peer: Peer) -> None:
        kind = self._reader.octet() % 3
        if kind == 0:
            queue = self._pick(QUEUES)
            self._send(
                peer,
                commands.Queue.Delete,
                queue=queue,
                **self._flags("if_unused", "if_empty", "nowait"),
            )
        elif kind == 1:
            queue = self._pick(QUEUES)
            self._send(peer, commands.Queue.Purge, queue=queue, **self._flags("nowait"))
        else:
            exchange = self._pick(EXCHANGES)
            self._send(
                peer,
                commands.Exchange.Delete,
                exchange=exchange,
                **self._flags("if_unused", "nowait"),
            )

    def _channel(self, peer: Peer) -> None:
        methods = (
            commands.Channel.Open,
            commands.Channel.Close,
            commands.Channel.CloseOk,
            commands.Channel.Flow,
        )
        self._send(peer, methods[self._reader.octet() % len(methods)])

    # ---------------------------------------------------------------- what else happens

    def _pass_time(self, _peer: Peer) -> None:
        self.broker.advance(self._reader.number() / 100)

    def _alarm(self, _peer: Peer) -> None:
        alarms = self.broker.context.alarms
        if alarms.is_on:
            alarms.clear("memory")
        else:
            alarms.set("memory")

    def _leave(self, peer: Peer) -> None:
        """The socket breaks, or the operator closes it."""
        if self._reader.octet() % 2:
            peer.connection.force_close("closed by an operator")
            return
        which = self.peers.index(peer)
        peer.lose()
        self.peers[which] = self._connect()

    def _socket(self, peer: Peer) -> None:
        """The socket takes nothing more, or takes something again."""
        if self._reader.octet() % 2:
            peer.connection.on_socket_full()
        else:
            peer.connection.on_socket_drained()

    def _disk(self, _peer: Peer) -> None:
        """The disk is done with a batch or with all, is full, has room, is slow, or breaks."""
        store, what = self._store, self._reader.octet() % 16
        if store is None or store.failure:
            return
        if what < 6:
            if store.is_writing:
                store.sync()
        elif what < 12:
            store.sync_all()
        elif what == 15:
            store.fail("Input/output error")
        elif what == 14:
            store.is_slow = not store.is_slow
        else:
            store.refuse("" if store.refusal else "no room on disk")

    def _heal(self) -> None:
        """The disk, unless it is broken, has all that gathered."""
        store = self._store
        if store is not None and not store.failure:
            store.is_slow = False
            store.refuse("")
            store.sync_all()
            self.broker.run_turns()
            store.sync_all()


def run(octets: bytes) -> None:
    Script(Reader(octets)).run()


def seeds() -> Sequence[bytes]:
    """Short stories: each step with some octets behind it, and the first octets of a login."""
    declare = encode_method(1, commands.Queue.Declare, queue="a")
    start_ok = encode_method(
        0,
        commands.Connection.StartOk,
        client_properties=Table({"product": "p"}),
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    )
    tune_ok = encode_method(
        0, commands.Connection.TuneOk, frame_max=131_072, channel_max=4, heartbeat=1
    )
    opening = encode_method(0, commands.Connection.Open, virtual_host="/")
    login = [PROTOCOL_HEADER, start_ok, tune_ok, opening, encode_method(1, commands.Channel.Open)]
    found = [b"\3" + b"".join(b"\0" + piece(each) for each in (*login, declare))]
    found.append(b"\0\0" + piece(declare) + b"\0" + piece(content(1, b"b", Properties())))
    story = bytes((0, 4, 1, 0, 0, 0))  # declare "a"
    publish = bytes((5, 0, 1, 0, 0, 1, 0, 3)) + b"abc" + b"\4"
    consume = bytes((7, 1, 1, 0, 0, 0))
    found.append(story + publish + consume + bytes((8, 0, 1, 0)))
    found.append(story + publish + bytes((12, 0, 0)) + publish + bytes((12, 1, 0)))
    found.append(story + publish + bytes((10, 1, 0, 0)) + bytes((16, 1, 0)) + bytes((18, 0)))
    for name in range(len(NAMES)):
        value = name % len(VALUES)
        found.append(bytes((0, 4, 1, 1, name, value, 0, 0)) + publish + consume)
    found.append(b"\1" + bytes((1, 1, 7)) + piece(encode_properties(PROPERTIES[4])))
    durable = bytes((4, 4, 1, 0, 16, 0))
    lasting = bytes((5, 0, 1, 0, 0, 1, 0, 3)) + b"abc" + b"\4"
    confirms = bytes((12, 3, 0))
    for what in (0, 6, 12, 14, 15):
        disk = bytes((22, what))
        found.append(durable + confirms + lasting + disk + lasting + disk + consume + disk)
        found.append(durable + bytes((12, 0, 0)) + lasting + bytes((12, 1, 0)) + disk + consume)
    return found


WORDS: Final = (PROTOCOL_HEADER, b"\xce", b"\0\x32\0\x0a", b"\0\x3c\0\x28", b"\4\1\1")
TARGET: Final = Target("connection", run, seeds, WORDS, size_max=1024)
