"""A publish that is recognised by a stencil does what it does frame by frame.

Each story is told to two brokers. In one of them no channel has a publish lane, so all that it is
sent comes to ``Publishing.publish_first``. What both write to their clients has to be the same,
octet for octet, and so has what is in their queues and with their stores.
"""

from __future__ import annotations

import dataclasses
import random
import secrets
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.amqp.publishing import AuditedPublishing, Publishing
from hareline.compiled import build
from hareline.errors import PreconditionFailed
from hareline.message import Message
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.queue import Queue
from hareline.wire.decoder import PublishLane
from hareline.wire.methods import commands, decode_method
from hareline.wire.properties import Properties
from hareline.wire.table import Table, Timestamp
from tests.support.stores import FakeStore

from .peer import SteppedBroker, publish_octets, split_frames

STREAM = {"x-queue-type": "stream"}
#: Exchanges and keys that publishes go to.
ADDRESSES = (
    ("", "q"),
    ("", "durable"),
    ("", "stream"),
    ("", "limited"),
    ("", "brief"),
    ("", "newest"),
    ("", "ranked"),
    ("", "archived"),
    ("", "nowhere"),
    ("all", "k"),
    ("wide", "k"),
    ("archived-x", "k"),
    ("amq.headers", ""),
)


class NoLanes(dict[int, PublishLane]):
    """Keeps no lane, so that every frame goes to the sink."""

    def __setitem__(self, number: int, lane: PublishLane) -> None:
        assert lane is not None


class World:
    """A broker, a publisher on channels 1, 2 (with confirms) and 3, and consumers beside it."""

    def __init__(self, *, has_lanes: bool, has_audit: bool = False) -> None:
        self.store = FakeStore()
        self.broker = SteppedBroker(store=self.store)
        vhost = "/"
        if has_audit:
            vhost = "audited"
            self._add_audited(vhost)
        self.broker.add_user("guest", "guest", vhosts=("/", "audited"))
        self.vhost = self.broker.context.vhosts[vhost]
        self.publisher = self.broker.connect(channels=(1, 2, 3), vhost=vhost)
        if not has_lanes:
            self.publisher.connection._decoder.publish_lanes = NoLanes()
        self.consumer = self.broker.connect(vhost=vhost, channels=(1, 2))
        self._declare()
        self.publisher.call(2, commands.Confirm.Select)
        self.written: list[bytes] = []

    def _add_audited(self, name: str) -> None:
        broker = self.broker
        audit = AuditRecorder(
            broker.turn,
            broker.clock,
            broker,
            share=1.0,
            refusal=str,
            stream_arguments=STREAM,
            now_us=lambda: broker.clock.now_ms * 1000,
        )
        broker.add_vhost(name, audit=audit).open_audit()

    def _declare(self) -> None:
        peer = self.consumer
        peer.declare("q")
        peer.declare("durable", durable=True)
        peer.declare("stream", durable=True, arguments=STREAM)
        limited = {"x-max-length": 7, "x-overflow": "reject-publish"}
        peer.declare("limited", arguments=limited)
        peer.declare("brief", arguments={"x-message-ttl": 1000})
        peer.declare("newest", arguments={"x-last-value-key": "tenant"})
        peer.declare("ranked", arguments={"x-max-priority": 4})
        peer.declare("archived", arguments={"x-archive-to": "stream"})
        peer.declare("eaten")
        peer.declare("acked")
        peer.declare("copies")
        peer.declare_exchange("all", "fanout")
        for queue in ("q", "durable", "eaten", "newest", "acked"):
            peer.bind(queue, "all")
        peer.declare_exchange("wide", "fanout")
        for number in range(20):
            peer.declare(f"wide-{number}")
            peer.bind(f"wide-{number}", "wide")
        peer.declare_exchange("archived-x", "fanout", arguments={"x-archive-to": "stream"})
        peer.bind("eaten", "archived-x")
        peer.bind("eaten", "amq.headers", arguments={"tenant": "t000001"})
        peer.subscribe("eaten", "eater", no_ack=True)
        peer.subscribe("acked", "acker", number=2)
        self.publisher.send(
            3,
            commands.Basic.Consume,
            queue="amq.rabbitmq.reply-to",
            consumer_tag="replies",
            no_ack=True,
        )
        self.publisher.expect(commands.Basic.ConsumeOk)

    def read(self, octets: bytes) -> None:
        """The publisher's socket gives these octets, and a turn follows."""
        self.publisher.send_octets(octets)
        self.broker.run_turns()
        for peer in (self.publisher, self.consumer):
            self.written.append(peer.transport.written)
            peer.transport.written = b""

    def outcome(self) -> dict[str, Any]:
        """All that may not depend on how a publish was recognised."""
        self.store.sync_all()
        self.read(b"")
        return {
            "written": self.written,
            "state": self.publisher.transport.state,
            "queues": {name: _state_of(queue) for name, queue in self.vhost.queues.items()},
            "reports": [event for event, _ in self.broker.reports],
        }


def _state_of(queue: Queue) -> tuple[Any, ...]:
    entries = [
        (
            entry.offset,
            entry.message.content,
            entry.message.header_size,
            entry.message.size,
            entry.message.channel,
            entry.message.address.octets,
            entry.message.expires_at_ms,
            min(entry.message.position, 1),  # which one depends on the order among queues
        )
        for entry in queue.order
    ]
    kept = sorted(queue.ledger.added) if queue.ledger is not None else []  # type: ignore[attr-defined]
    return entries, queue.next_offset, queue.ready_bytes, queue.ready_count, kept


def told(reads: Sequence[bytes], *, has_lanes: bool, has_audit: bool = False) -> dict[str, Any]:
    """What becomes of these reads in a broker."""
    numbers = count()
    with patch.object(secrets, "token_urlsafe", lambda size: f"{next(numbers):032d}"):
        world = World(has_lanes=has_lanes, has_audit=has_audit)
        for octets in reads:
            world.read(octets)
        return world.outcome()


def check(reads: Sequence[bytes], *, has_audit: bool = False) -> dict[str, Any]:
    """Tell both brokers; returns what both did."""
    fast = told(reads, has_lanes=True, has_audit=has_audit)
    slow = told(reads, has_lanes=False, has_audit=has_audit)
    for key, value in slow.items():
        assert fast[key] == value, key
    return fast


# ---------------------------------------------------------------------------- random stories

NAMES = st.sampled_from(["a", "tenant", "CC", "BCC", "x-producer-id", "x-producer-sequence", "é"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=6)
    | st.binary(max_size=5)
    | st.builds(Timestamp, st.integers(0, 2**63)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
HEADERS = st.one_of(
    st.none(),
    st.builds(Table, st.dictionaries(st.sampled_from(["a", "b", "tenant"]), VALUES, max_size=3)),
    st.builds(Table, st.dictionaries(NAMES, VALUES, max_size=3)),
    st.builds(lambda keys: Table({"CC": keys}), st.lists(st.sampled_from(["copies", "q"]))),
    st.builds(lambda keys: Table({"BCC": keys}), st.lists(st.sampled_from(["copies", "q"]))),
    st.builds(
        lambda seq: Table({"x-producer-id": "p", "x-producer-sequence": seq}), st.integers(-1, 4)
    ),
)
SHORT = st.none() | st.text("abc", max_size=4)
PROPERTIES = st.builds(
    Properties,
    content_type=SHORT,
    content_encoding=SHORT,
    headers=HEADERS,
    delivery_mode=st.none() | st.sampled_from([0, 1, 2, 2, 3]),
    priority=st.none() | st.integers(0, 9),
    correlation_id=SHORT,
    reply_to=st.none() | st.sampled_from(["r", "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-tp"]),
    expiration=st.none() | st.none() | st.sampled_from(["0", "5000", "no"]),
    message_id=SHORT,
    timestamp=st.none() | st.builds(Timestamp, st.integers(0, 2**63)),
    type=SHORT,
    user_id=st.none() | st.none() | st.sampled_from(["guest", "other"]),
    app_id=SHORT,
    cluster_id=SHORT,
)


@st.composite
def bursts(draw: st.DrawFn) -> bytes:
    """Publishes of one shape, or of two in turn, with values of their own."""
    number = draw(st.sampled_from([1, 2, 3]))
    shapes = draw(st.lists(PROPERTIES, min_size=1, max_size=2))
    addresses = draw(st.lists(st.sampled_from(ADDRESSES), min_size=1, max_size=2))
    sizes = draw(st.lists(st.sampled_from([0, 1, 3, 3, 20]), min_size=1, max_size=3))
    mandatory = draw(st.booleans())
    how_many = draw(st.integers(1, 9))
    numbers = random.Random(draw(st.integers(0, 1 << 16)))
    parts = []
    for index in range(how_many):
        exchange, key = addresses[index % len(addresses)]
        properties = shapes[index % len(shapes)]
        own = dataclasses.replace(properties)
        if own.message_id is not None:
            own.message_id = "".join(numbers.choices("abc", k=len(own.message_id)))
        if own.timestamp is not None:
            own.timestamp = Timestamp(numbers.getrandbits(63))
        body = numbers.randbytes(sizes[index % len(sizes)])
        parts.append(publish_octets(number, key, body, own, exchange=exchange, mandatory=mandatory))
    return b"".join(parts)


def cut(octets: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Reads of these sizes, and one for the rest."""
    reads, position = [], 0
    for size in sizes:
        reads.append(octets[position : position + size])
        position += size
    return [*reads, octets[position:]]


SIZES = st.lists(st.integers(0, 700), max_size=6)
STORIES = st.lists(bursts(), min_size=1, max_size=4).map(b"".join)


@given(STORIES, SIZES, st.booleans())
def test_random_publishes_do_what_they_do_frame_by_frame(
    octets: bytes, sizes: list[int], has_audit: bool
) -> None:
    check(cut(octets, sizes), has_audit=has_audit)


@given(STORIES, SIZES, st.data())
def test_damaged_publishes_do_what_they_do_frame_by_frame(
    octets: bytes, sizes: list[int], data: st.DataObject
) -> None:
    damaged = bytearray(octets)
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    start = data.draw(st.integers(0, len(damaged)))
    del damaged[start : start + data.draw(st.sampled_from([0, 0, 0, 1, 8, 50]))]
    check(cut(bytes(damaged), sizes))


# ------------------------------------------------------------------------------ single stories

DIRECT = "amq.rabbitmq.reply-to"
PAST_LIMITS = Table(text="x" * 70_000)


def shape(index: int, *, mode: int = 1, is_mixed: bool = False) -> Properties:
    """What a usual client sends, with values of this message's own."""
    return Properties(
        content_type="application/json",
        headers=Table({"tenant": f"t{index:06d}", "attempt": index, "nested": {"k": index}}),
        delivery_mode=1 + index % 2 if is_mixed else mode,
        message_id=f"m{index:09d}",
        timestamp=Timestamp(1_700_000_000 + index),
    )


def burst(
    first: int = 0, how_many: int = 8, *, number: int = 1, size: int = 9, **fields: Any
) -> bytes:
    """So many publishes that differ in their values only."""
    key = fields.pop("key", "q")
    more = fields.pop("more", {})
    return b"".join(
        publish_octets(number, key, b"%0*d" % (size, index), shape(index, **more), **fields)
        for index in range(first, first + how_many)
    )


def longest_run(reads: Sequence[bytes], *, has_audit: bool = False) -> int | None:
    """Tell both brokers; returns how many publishes the longest run of the one with lanes had.

    None in a compiled build, where nobody can listen to a call.
    """
    if build() == "compiled":
        check(reads, has_audit=has_audit)
        return None
    runs: list[int] = []
    lane_class = AuditedPublishing if has_audit else Publishing
    original = lane_class.publish_run

    def counting(
        lane: Any, route: Any, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        runs.append(len(contents))
        original(lane, route, contents, header_size, framing)

    with patch.object(lane_class, "publish_run", counting):
        check(reads, has_audit=has_audit)
    return max(runs, default=0)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("size", [0, 1, 9])
def test_what_differs_in_values_only_goes_on_together(number: int, size: int) -> None:
    reads = [burst(number=number, size=size)] * 3
    assert longest_run(reads) in (8, None)


def test_bodies_of_any_size_go_on_together() -> None:
    reads = [b"".join(burst(index, 1, size=1 + index % 5) for index in range(9))] * 2
    assert longest_run(reads) in (9, None)


def test_persistent_ones_are_not_taken_for_transient_ones() -> None:
    octets = burst(key="durable", more={"is_mixed": True})
    result = check([octets, octets, octets])
    _, _, _, _, kept = result["queues"]["durable"]
    assert kept == [offset for offset in range(24) if offset % 2]


@pytest.mark.parametrize(
    "special",
    [
        Properties(headers=Table(CC=["copies"])),
        Properties(headers=Table({"BCC": ["copies"], "k": 1})),
        Properties(headers=Table(CC="no list")),
        Properties(user_id="guest"),
        Properties(user_id="guess"),
        Properties(expiration="5000"),
        Properties(expiration="soon"),
        Properties(reply_to="amq.rabbitmq.reply-tp"),
        Properties(reply_to=DIRECT),
        Properties(headers=Table({"x-producer-id": "p", "x-producer-sequence": 1})),
        Properties(headers=Table({"x-producer-id": "p"})),
        Properties(headers=PAST_LIMITS),
        Properties(delivery_mode=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("number", [2, 3])  # with confirms, and with a consumer of replies
def test_one_that_asks_for_something_is_found_between_those_that_ask_for_nothing(
    special: Properties, number: int
) -> None:
    one = publish_octets(number, "durable", b"special", special)
    plain = burst(number=number, key="durable")
    # its shape comes often enough for a stencil that would match what only looks like it
    assert longest_run([plain, plain + one + plain, one * 5, one + plain]) in (8, None)


@pytest.mark.parametrize(
    ("often", "once"),
    [
        (Properties(user_id="guest"), Properties(user_id="guess")),
        (Properties(reply_to="amq.rabbitmq.reply-tp"), Properties(reply_to=DIRECT)),
        (Properties(headers=Table(cc=["copies"])), Properties(headers=Table(CC=["copies"]))),
        (Properties(headers=Table(bcc=["copies"])), Properties(headers=Table(BCC=["copies"]))),
        (Properties(delivery_mode=1), Properties(delivery_mode=2)),
        (
            Properties(headers=Table({"y-producer-": "p"})),
            Properties(headers=Table({"x-producer-": "p"})),
        ),
        (Properties(headers=Table(a="text")), Properties(headers=Table(a=b"text"))),
        (Properties(headers=Table(a={"CC": 1})), Properties(headers=Table(b={"CC": 1}))),
    ],
    ids=str,
)
def test_what_decides_is_shown_by_a_stencil(often: Properties, once: Properties) -> None:
    usual, odd = (publish_octets(3, "durable", b"body", one) for one in (often, once))
    assert len(usual) == len(odd)
    assert longest_run([usual * 8, usual * 8, usual * 4 + odd + usual * 4]) in (8, None)


@pytest.mark.parametrize(("exchange", "key"), ADDRESSES, ids=str)
@pytest.mark.parametrize("mandatory", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_every_destination_gets_what_it_would_get_frame_by_frame(
    exchange: str, key: str, mandatory: bool, number: int
) -> None:
    fields: dict[str, Any] = {
        "number": number,
        "exchange": exchange,
        "key": key,
        "mandatory": mandatory,
    }
    longest = longest_run([burst(**fields), burst(8, **fields), burst(16, **fields)])
    takes_runs = (exchange, key) in [
        ("", "q"),
        ("", "durable"),
        ("", "newest"),
        ("", "ranked"),
        ("", "nowhere"),
        ("all", "k"),
    ]
    assert longest is None or (longest == 8) == takes_runs


def test_routes_and_channels_that_take_turns_keep_their_publishes_apart() -> None:
    parts = []
    for index in range(30):
        exchange, key = ADDRESSES[index % 3 * 2]
        parts.append(burst(index, 1, number=1 + index % 3, exchange=exchange, key=key))
    check([b"".join(parts)] * 2)


def test_audit_hears_of_each_publish_in_its_place() -> None:
    reads = [burst(exchange="all", key="k"), burst(8, exchange="all", key="k")]
    assert longest_run(reads, has_audit=True) in (8, None)


def test_a_frame_that_ends_wrongly_ends_the_run_in_front_of_it() -> None:
    octets = bytearray(burst(0, 20))
    one = len(octets) // 20
    octets[one * 13 - 1] ^= 1
    assert longest_run([burst(), bytes(octets)]) in (12, None)


class TestOnTheWay:
    """What changes between two reads, or within one."""

    def test_a_run_that_the_store_keeps_is_confirmed_when_it_is_durable(self) -> None:
        octets = burst(number=2, key="durable", more={"mode": 2})
        assert longest_run([octets, octets]) in (8, None)
        for has_lanes in (True, False):
            world = World(has_lanes=has_lanes)
            world.read(octets)
            world.read(octets)
            assert world.written == [b""] * 4
            tags = []
            for _ in range(2):
                world.store.sync()
                world.read(b"")
                (frame,) = split_frames(world.written[-2])
                ack = decode_method(frame.payload)
                assert isinstance(ack, commands.Basic.Ack)
                assert ack.multiple
                tags.append(ack.delivery_tag)
            assert tags == [8, 16]

    def test_a_refusing_store_ends_the_runs_to_what_it_keeps(self) -> None:
        outcomes = []
        for has_lanes in (True, False):
            world = World(has_lanes=has_lanes)
            octets = burst(key="durable", number=2, more={"is_mixed": True})
            world.read(octets)
            world.store.refuse("no space left on device")
            world.read(octets)
            world.store.refuse("")
            world.read(octets)
            outcomes.append(world.outcome())
        assert outcomes[0] == outcomes[1]
        assert outcomes[0]["queues"]["durable"][1] == 8 + 4 + 8

    def test_a_binding_that_is_new_counts_from_the_next_read_on(self) -> None:
        for has_lanes in (True, False):
            world = World(has_lanes=has_lanes)
            world.read(burst(exchange="all", key="k"))
            world.read(burst(exchange="all", key="k"))
            world.consumer.bind("copies", "all")
            world.read(burst(exchange="all", key="k"))
            assert world.vhost.queues["copies"].next_offset == 8

    @pytest.mark.pure("replaces methods of a compiled class")
    def test_an_error_of_a_queue_closes_the_channel_and_nothing_is_published_behind_it(
        self,
    ) -> None:
        outcomes = []
        original = Queue.enqueue

        def failing(queue: Queue, message: Message) -> None:
            if message.body == b"%09d" % 11:
                raise PreconditionFailed("this one")
            original(queue, message)

        for has_lanes in (True, False):
            with (
                patch.object(Queue, "enqueue", failing),
                patch.object(Queue, "enqueue_run", Enqueueing.enqueue_run),
            ):
                world = World(has_lanes=has_lanes)
                world.read(burst())
                world.read(burst(8) + burst(16, number=2))
                outcomes.append(world.outcome()["queues"]["q"])
        assert outcomes[0] == outcomes[1]
        assert outcomes[0][1] == 8 + 3 + 8
