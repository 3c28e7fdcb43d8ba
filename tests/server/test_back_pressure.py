"""Who is slow waits, or is waited for at the socket; nobody is buffered for without bound."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pamqp import commands, frame

from hareline.amqp.connection import Connection
from hareline.amqp.output import OUTPUT_TURN_MAX_BYTES
from hareline.net.shell import UNREAD_OUTPUT_MAX, ConnectionShell
from hareline.queues.core import lane
from hareline.server.broker import Broker
from hareline.settings import Limits, Settings
from tests.support.broker_thread import BrokerThread, StartBroker
from tests.support.messages import make_message
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
HIGH_BYTES = 65_536
MIB = 1 << 20
#: A socket that is asked for this little holds little, wherever the system draws the line.
SMALL_BUFFER = 4096
#: What the kernel may hold of a connection on both sides of the loopback.
KERNEL_BYTES = 8 * MIB
#: So many turns that some requests are answered before they are over, however slow their client is.
DEEP = 400_000


@pytest.fixture
def narrow(start_broker: StartBroker) -> BrokerThread:
    """A broker whose connections count as full early."""
    return start_broker(Settings(limits=Limits(write_buffer_high_bytes=HIGH_BYTES)))


def preload(broker: BrokerThread, name: str, count: int, body: bytes) -> None:
    """Put messages into a queue without sending them; they are one message, many times."""

    def enqueue(inside: Broker) -> None:
        queue = inside.context.vhosts["/"].queues[name]
        message = make_message(body, routing_key=name)
        for _ in range(count):
            queue.enqueue(message)

    broker.ask(enqueue)


def buffered_bytes(broker: BrokerThread) -> int:
    """What waits in the process for the socket of the connection that waits for most."""

    def look(inside: Broker) -> int:
        shells = [connection.transport for connection in inside.context.connections]
        assert all(isinstance(shell, ConnectionShell) for shell in shells)
        return max(
            shell._transport.get_write_buffer_size() + sum(map(len, connection.output.frames))
            for connection in inside.context.connections
            if isinstance(shell := connection.transport, ConnectionShell)
            and shell._transport
            and isinstance(connection, Connection)
        )

    return broker.ask(look)


def wait_until_steady(look: Callable[[], object]) -> None:
    """Wait until what is looked at has been the same many times in a row."""
    last, times = look(), 0

    def is_steady() -> bool:
        nonlocal last, times
        now = look()
        times = times + 1 if now == last else 0
        last = now
        return times >= 20

    wait_for(is_steady, DEADLINE_S, "it to come to rest")


@contextmanager
def reading(raw: RawClient) -> Iterator[None]:
    """Somebody reads everything from this client's socket and throws it away."""

    def read() -> None:
        while raw.socket.recv(MIB):
            pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield
    raw.send(commands.Connection.Close(reply_code=200, reply_text="", class_id=0, method_id=0), 0)
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


# ------------------------------------------------------------------------- consumers


@pytest.mark.acceptance
def test_the_queue_of_a_consumer_that_does_not_read_grows_and_the_broker_does_not(
    narrow: BrokerThread,
) -> None:
    slow = narrow.client(receive_buffer=SMALL_BUFFER).open()
    slow.declare("q")
    slow.consume("q", no_ack=True)
    preload(narrow, "q", 4000, bytes(10_000))
    wait_until_steady(lambda: narrow.ask_queue("q", lambda queue: queue.ready_count))
    assert buffered_bytes(narrow) <= HIGH_BYTES + OUTPUT_TURN_MAX_BYTES + 20_000
    ready_bytes = narrow.ask_queue("q", lambda queue: queue.ready_bytes)
    assert ready_bytes >= 40_000_000 - KERNEL_BYTES

    for number in range(100):
        slow.publish("q", b"%d" % number)
    bodies = slow.read_bodies(4100)
    assert bodies[4000:] == [b"%d" % number for number in range(100)]
    assert set(bodies[:4000]) == {bytes(10_000)}


def test_a_consumer_that_does_not_read_keeps_nothing_from_others(narrow: BrokerThread) -> None:
    slow = narrow.client(receive_buffer=SMALL_BUFFER).open()
    quick = narrow.client().open()
    for name in ("shared", "own"):
        slow.declare(name)
    slow.consume("shared", no_ack=True)
    preload(narrow, "shared", 2000, bytes(10_000))
    wait_until_steady(lambda: narrow.ask_queue("shared", lambda queue: queue.ready_count))
    left = narrow.ask_queue("shared", lambda queue: queue.ready_count)

    quick.consume("own", tag="own")
    quick.publish("own", b"mine")
    assert quick.read_bodies(1) == [b"mine"]
    quick.consume("shared", tag="shared")
    assert len(quick.read_bodies(left)) == left
    assert narrow.ask_queue("shared", lambda queue: queue.ready_count) == 0


@pytest.mark.acceptance
def test_a_consumer_that_reads_again_goes_on_where_it_stopped(narrow: BrokerThread) -> None:
    raw = narrow.client(receive_buffer=SMALL_BUFFER).open()
    raw.declare("q")
    raw.consume("q", no_ack=False)
    count = 600
    raw.publish("q", *[b"%04d" % number + bytes(20_000) for number in range(count)])
    bodies: list[bytes] = []
    while len(bodies) < count:
        bodies += raw.read_bodies(100)
        raw.send(commands.Basic.Ack(delivery_tag=len(bodies), multiple=True))
        wait_until_steady(lambda: narrow.ask_queue("q", lambda queue: queue.ready_count))
    assert [int(body[:4]) for body in bodies] == list(range(count))
    narrow.wait_until(
        lambda inside: inside.context.vhosts["/"].queues["q"].unacked_count == 0, "the acks"
    )


def test_one_message_larger_than_all_buffers_is_delivered(narrow: BrokerThread) -> None:
    raw = narrow.client(receive_buffer=SMALL_BUFFER).open()
    raw.declare("q")
    raw.consume("q", no_ack=False)
    body = bytes(range(256)) * 40_000
    raw.publish("q", body, b"after")
    assert raw.read_bodies(2) == [body, b"after"]


# ------------------------------------------------ replies, returns and confirms unread


@pytest.mark.acceptance
def test_who_reads_no_get_oks_is_not_answered_for_ever(narrow: BrokerThread) -> None:
    raw = narrow.client(receive_buffer=SMALL_BUFFER).open()
    raw.declare("q")
    preload(narrow, "q", 5000, bytes(5000))
    request = frame.marshal(commands.Basic.Get(queue="q", no_ack=True), 1)
    raw.send_octets(request * 5000)
    wait_until_steady(lambda: narrow.ask_queue("q", lambda queue: queue.ready_count))
    assert narrow.ask_queue("q", lambda queue: queue.ready_bytes) >= 25_000_000 - KERNEL_BYTES
    assert buffered_bytes(narrow) <= HIGH_BYTES + OUTPUT_TURN_MAX_BYTES + 2 * 5100
    assert len(raw.read_bodies(5000)) == 5000


@pytest.mark.acceptance
def test_one_read_cannot_ask_for_more_than_the_broker_has_room_for(narrow: BrokerThread) -> None:
    """One large message, asked for and given back again and again, all in one piece."""
    raw = narrow.client(receive_buffer=SMALL_BUFFER).open()
    raw.declare("q")
    preload(narrow, "q", 1, bytes(MIB))
    requests = b"".join(
        frame.marshal(commands.Basic.Get(queue="q"), 1)
        + frame.marshal(commands.Basic.Nack(delivery_tag=tag, requeue=True), 1)
        for tag in range(1, 101)
    )
    raw.send_octets(requests)
    narrow.wait_until(
        lambda inside: inside.context.vhosts["/"].queues["q"].delivered_count > 0, "a get"
    )
    wait_until_steady(lambda: narrow.ask_queue("q", lambda queue: queue.delivered_count))
    assert narrow.ask_queue("q", lambda queue: queue.delivered_count) < 20
    assert buffered_bytes(narrow) <= HIGH_BYTES + 2 * OUTPUT_TURN_MAX_BYTES + MIB
    assert set(raw.read_bodies(100)) == {bytes(MIB)}


@pytest.mark.acceptance
def test_who_reads_no_returns_is_not_read_from(narrow: BrokerThread) -> None:
    raw = narrow.client(receive_buffer=SMALL_BUFFER).open()
    octets = raw.publish_octets("nowhere", bytes(50_000), mandatory=True)
    count = raw.send_until_nobody_reads(octets)
    assert buffered_bytes(narrow) <= UNREAD_OUTPUT_MAX * HIGH_BYTES + 2 * MIB
    assert len(raw.read_bodies(count)) == count
    raw.send_the_rest()
    assert raw.read_bodies(1) == [bytes(50_000)]


def test_who_reads_no_confirms_loses_none(narrow: BrokerThread) -> None:
    raw = narrow.client(receive_buffer=SMALL_BUFFER).open()
    raw.declare("q")
    raw.select_confirms()
    for _ in range(20):
        raw.publish("q", *[b"x"] * 500)
    raw.read_confirms(10_000)
    assert raw.ready_count("q") == 10_000


@pytest.mark.acceptance
def test_a_client_that_reads_nothing_can_be_stopped(narrow: BrokerThread) -> None:
    raw = narrow.client(receive_buffer=SMALL_BUFFER).open()
    raw.send_until_nobody_reads(raw.publish_octets("nowhere", bytes(50_000), mandatory=True))
    narrow.begin_to_stop(0.2)
    narrow.wait_until_stopped()


# ------------------------------------------------------------------------ publishers


def test_publishers_take_turns_while_dispatch_is_behind(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them waits until a deep queue has drained; each turn reads one of them at most."""
    monkeypatch.setattr(lane, "ENTRIES_PER_TURN", 1)
    consumer = broker.client().open()
    publishers = [broker.client().open() for _ in range(5)]
    consumer.declare("deep")
    consumer.consume("deep", no_ack=True)
    consumer.declare("q")
    for publisher in publishers:
        publisher.select_confirms()
        publisher.publish("q", b"0")
        publisher.read_confirms(1)
    with reading(consumer):
        preload(broker, "deep", DEEP, b"x")
        for sequence in range(2, 5):
            for publisher in publishers:
                publisher.publish("q", b"x")
            for publisher in publishers:
                publisher.read_confirms(sequence)
        assert broker.ask_queue("deep", lambda queue: queue.ready_count) > 0
    assert publishers[0].ready_count("q") == 20


@pytest.mark.acceptance
def test_a_flood_of_publishes_does_not_outrun_a_consumer_that_keeps_up(
    broker: BrokerThread,
) -> None:
    """Whether it can keep up depends on the machine."""
    consumer, publisher = broker.client().open(), broker.client().open()
    consumer.declare("q")
    consumer.consume("q", no_ack=True)
    octets = publisher.publish_octets("q", bytes(100)) * 1000
    deepest = 0
    with reading(consumer):
        for _ in range(100):
            publisher.send_octets(octets)
            depth = broker.ask_queue("q", lambda queue: queue.ready_count)
            deepest = max(deepest, depth)
        broker.wait_until(
            lambda inside: inside.context.vhosts["/"].queues["q"].settled_count == 100_000,
            "all deliveries",
        )
    assert deepest < 50_000


def test_who_does_not_publish_is_read_while_dispatch_is_behind(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "ENTRIES_PER_TURN", 1)
    consumer, other = broker.client().open(), broker.client().open()
    consumer.declare("deep")
    consumer.consume("deep", no_ack=True)
    with reading(consumer):
        preload(broker, "deep", DEEP, b"x")
        for _ in range(5):
            other.declare("", exclusive=True)
        assert broker.ask_queue("deep", lambda queue: queue.ready_count) > 0
