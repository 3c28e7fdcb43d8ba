"""Publishers and consumers over a socket pair, whose other end the test plays by hand."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import cast

import pytest

from benchmarks.macro import traffic
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    BASIC_DELIVER,
    Address,
    DeliveryMeter,
    DeliveryShape,
    Tape,
    ack_octets,
)
from benchmarks.macro.scenario import Stopwatch
from benchmarks.macro.scenarios.queue_backlog import HoldingLoop
from benchmarks.macro.traffic import AckMode, Consumer, Limits, Publisher, Reach, TrafficLoop

FRAME_MAX = 131_072
TAPE_COUNT = 4
# a stand-in for a delivery: frame head, method, tag, stamp and end octet are all a meter reads
SHAPE = DeliveryShape(BASIC_DELIVER, size=28, tag_offset=11, body_offset=19)


def deliveries(first: int, count: int) -> bytes:
    return b"".join(
        b"\x01\x00\x01\x00\x00\x00\x00"
        + BASIC_DELIVER
        + struct.pack(">QII", 1 + n, n % TAPE_COUNT, n // TAPE_COUNT)
        + b"\xce"
        for n in range(first, first + count)
    )


class Endpoint:
    """The little of a `Client` that traffic uses."""

    def __init__(self, sock: socket.socket, unread: bytes = b"") -> None:
        self.sock = sock
        self._unread = unread

    def take_unread(self) -> bytes:
        return self._unread


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(60)
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


def consumer_on(sock: socket.socket, mode: AckMode, unread: bytes = b"") -> Consumer:
    endpoint = cast("Client", Endpoint(sock, unread))
    return Consumer(endpoint, DeliveryMeter(SHAPE, 1, TAPE_COUNT), mode)


def publisher_on(
    sock: socket.socket,
    consumers: tuple[Consumer, ...] = (),
    *,
    confirms: bool = False,
    reach: Reach = Reach.ALL,
) -> Publisher:
    tape = Tape([Address("q")], 100, FRAME_MAX, count=TAPE_COUNT)
    endpoint = cast("Client", Endpoint(sock))
    return Publisher(endpoint, tape, consumers, confirms=confirms, reach=reach)


def tags_in(acks: bytes) -> list[tuple[int, bool]]:
    return [(tag, bool(bits)) for *_, tag, bits, _ in struct.iter_unpack(">BHIIQBB", acks)]


class TestConsumer:
    def test_octets_read_before_it_began_are_counted(self, pair: Pair) -> None:
        consumer = consumer_on(pair[0], AckMode.AUTO, deliveries(0, 2)[:-5])
        assert consumer.received == 1

    def test_each_delivery_is_acked_by_itself(self, pair: Pair) -> None:
        ours, theirs = pair
        consumer = consumer_on(ours, AckMode.SINGLE)
        theirs.sendall(deliveries(0, 5)[:-1])
        consumer.receive()
        assert tags_in(theirs.recv(1 << 16)) == [(tag, False) for tag in (1, 2, 3, 4)]

    def test_a_multiple_ack_follows_each_full_hundred(self, pair: Pair) -> None:
        ours, theirs = pair
        consumer = consumer_on(ours, AckMode.EVERY_100)
        for first, count in ((0, 99), (99, 152)):
            theirs.sendall(deliveries(first, count))
            consumer.receive()
        assert consumer.received == 251
        assert tags_in(theirs.recv(1 << 16)) == [(100, True), (200, True)]

    def test_acks_that_the_socket_does_not_take_are_sent_later(self, pair: Pair) -> None:
        ours, theirs = pair
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        consumer = consumer_on(ours, AckMode.SINGLE)
        count = 60_000
        consumer.settle(count)
        assert not consumer.send_rest()
        received = b""
        while len(received) < count * 21:
            received += theirs.recv(1 << 20)
            consumer.send_rest()
        assert tags_in(received) == [(tag, False) for tag in range(1, count + 1)]

    def test_acks_are_held_back_up_to_the_limit(self, pair: Pair) -> None:
        ours, theirs = pair
        consumer = consumer_on(ours, AckMode.EVERY_100)
        consumer.ack_limit = 150
        theirs.sendall(deliveries(0, 400))
        consumer.receive()
        assert (consumer.received, consumer.acked) == (400, 100)
        consumer.ack_limit = 350
        consumer.settle(min(consumer.received, consumer.ack_limit))
        assert tags_in(theirs.recv(1 << 16)) == [(100, True), (200, True), (300, True)]

    def test_a_closed_connection_is_an_error(self, pair: Pair) -> None:
        consumer = consumer_on(pair[0], AckMode.AUTO)
        pair[1].close()
        with pytest.raises(BenchmarkError, match="closed"):
            consumer.receive()


class TestPublisher:
    def test_laps_follow_each_other_in_the_stream(self, pair: Pair) -> None:
        ours, theirs = pair
        publisher = publisher_on(ours)
        for count in (3, 4, 9):
            publisher.publish_up_to(count)
        size = publisher.tape.frame_size
        octets = theirs.recv(1 << 16)
        assert len(octets) == 9 * size
        stamps = [struct.unpack_from(">II", octets, n * size - 101) for n in range(1, 10)]
        assert stamps == [(n % TAPE_COUNT, n // TAPE_COUNT) for n in range(9)]

    def test_a_full_socket_blocks_it_until_there_is_room(self, pair: Pair) -> None:
        ours, theirs = pair
        publisher = publisher_on(ours)
        publisher.publish_up_to(50_000)
        states = [publisher.is_blocked]
        received = 0
        while received < 50_000 * publisher.tape.frame_size:
            received += len(theirs.recv(1 << 20))
            publisher.publish_up_to(50_000)
            states.append(publisher.is_blocked)
        assert states[0]
        assert not states[-1]
        assert publisher.published == 50_000

    def test_its_slowest_consumer_and_its_confirms_limit_it(self, pair: Pair) -> None:
        ours, theirs = pair
        other, _far = socket.socketpair()
        with other, _far:
            consumers = (
                consumer_on(other, AckMode.AUTO, deliveries(0, 7)),
                consumer_on(other, AckMode.AUTO, deliveries(0, 5)),
            )
            publisher = publisher_on(ours, consumers, confirms=True)
            theirs.sendall(ack_octets(2, is_multiple=True))
            publisher.receive()
            assert publisher.allowed(in_flight_max=10, unconfirmed_max=1000) == 15
            assert publisher.allowed(in_flight_max=10, unconfirmed_max=3) == 5

    @pytest.mark.parametrize(("delivered", "is_right"), [(2, False), (3, True), (4, False)])
    def test_it_ends_well_only_when_as_much_came_as_was_published(
        self, pair: Pair, delivered: int, is_right: bool
    ) -> None:
        other, far = socket.socketpair()
        with other, far:
            consumer = consumer_on(other, AckMode.AUTO, deliveries(0, delivered))
            publisher = publisher_on(pair[0], (consumer,))
            publisher.publish_up_to(3)
            assert publisher.is_complete is (delivered >= 3)
            if is_right:
                publisher.verify_end()
            else:
                with pytest.raises(BenchmarkError, match="3 published"):
                    publisher.verify_end()

    def test_consumers_that_share_a_queue_are_counted_together(self, pair: Pair) -> None:
        others = [socket.socketpair() for _ in range(2)]
        counts = (7, 5)
        consumers = tuple(
            consumer_on(near, AckMode.AUTO, deliveries(0, count))
            for (near, _), count in zip(others, counts, strict=True)
        )
        publisher = publisher_on(pair[0], consumers, reach=Reach.ONE)
        assert publisher.allowed(in_flight_max=10, unconfirmed_max=0) == 22
        publisher.publish_up_to(12)
        assert publisher.is_complete
        publisher.verify_end()
        publisher.publish_up_to(13)
        with pytest.raises(BenchmarkError, match=r"13 published, but \[12\] delivered"):
            publisher.verify_end()
        for ends in others:
            for end in ends:
                end.close()

    @pytest.mark.parametrize(("delivered", "is_right"), [(0, True), (3, True), (4, False)])
    def test_where_messages_are_replaced_fewer_may_come_but_not_more(
        self, pair: Pair, delivered: int, is_right: bool
    ) -> None:
        ours, theirs = pair
        other, far = socket.socketpair()
        with other, far:
            consumer = consumer_on(other, AckMode.AUTO, deliveries(0, delivered))
            publisher = publisher_on(ours, (consumer,), confirms=True, reach=Reach.AT_MOST_ONE)
            assert publisher.allowed(in_flight_max=0, unconfirmed_max=3) == 3
            publisher.publish_up_to(3)
            was_complete = publisher.is_complete
            theirs.sendall(ack_octets(3, is_multiple=True))
            publisher.receive()
            assert (was_complete, publisher.is_complete) == (False, True)
            if is_right:
                publisher.verify_end()
            else:
                with pytest.raises(BenchmarkError, match="3 published"):
                    publisher.verify_end()

    def test_only_confirms_can_pace_what_may_never_be_delivered(self, pair: Pair) -> None:
        with pytest.raises(ValueError, match="confirms"):
            publisher_on(pair[0], reach=Reach.AT_MOST_ONE)

    def test_an_answer_it_did_not_ask_for_is_an_error(self, pair: Pair) -> None:
        ours, theirs = pair
        publisher = publisher_on(ours)
        theirs.sendall(ack_octets(1))
        with pytest.raises(BenchmarkError, match="answered a publisher"):
            publisher.receive()


class Peer:
    """The broker's end of a publisher and a consumer, played one step at a time."""

    def __init__(self, publisher: Publisher, publishing: socket.socket, consuming: socket.socket):
        self.publisher = publisher
        self.publishing, self.consuming = publishing, consuming
        self.confirmed = 0
        self.acked = 0

    def step(self) -> None:
        """Confirm what came; deliver as many messages as were acked."""
        for sock in (self.publishing, self.consuming):
            sock.setblocking(False)
        while True:
            try:
                self.publishing.recv(1 << 20)
            except BlockingIOError:
                break
        if self.publisher.published > self.confirmed:
            self.confirmed = self.publisher.published
            self.publishing.sendall(ack_octets(self.confirmed, is_multiple=True))
        try:
            acks = tags_in(self.consuming.recv(1 << 20))
        except BlockingIOError:
            return
        last = acks[-1][0]
        self.consuming.sendall(deliveries(1000 + self.acked, last - self.acked))
        self.acked = last


class TestHoldingLoop:
    def test_acks_never_outrun_confirms(self, pair: Pair) -> None:
        ours, theirs = pair
        other, far = socket.socketpair()
        with other, far:
            consumer = consumer_on(other, AckMode.EVERY_100, deliveries(0, 1000))
            publisher = publisher_on(ours, (consumer,), confirms=True, reach=Reach.ONE)
            peer = Peer(publisher, theirs, far)
            loop = HoldingLoop(publisher)
            for _ in range(20):
                loop._run_for(0.0)
                peer.step()
                assert peer.acked <= peer.confirmed
            assert peer.acked >= 1000
            loop.close()

    def test_a_queue_that_gives_nothing_is_an_error(self, pair: Pair) -> None:
        other, far = socket.socketpair()
        with other, far:
            consumer = consumer_on(other, AckMode.EVERY_100)
            publisher = publisher_on(pair[0], (consumer,), confirms=True, reach=Reach.ONE)
            loop = HoldingLoop(publisher)
            with pytest.raises(BenchmarkError, match="no message came through"):
                loop.hold(0.0, 0.001, Stopwatch(None))
            loop.close()


class TestTrafficLoop:
    def test_a_drain_waits_until_nothing_more_comes(self, pair: Pair) -> None:
        ours, theirs = pair
        other, far = socket.socketpair()
        with other, far:
            consumer = consumer_on(other, AckMode.AUTO)
            publisher = publisher_on(ours, (consumer,), confirms=True, reach=Reach.AT_MOST_ONE)
            loop = TrafficLoop([publisher], [consumer], Limits(0, 3))
            theirs.sendall(ack_octets(2, is_multiple=True))
            far.sendall(deliveries(0, 2))
            publisher.publish_up_to(2)
            loop._drain()
            assert consumer.received == 2
            loop.close()

    def test_a_warm_up_ends_when_so_many_are_published(self, pair: Pair) -> None:
        ours, theirs = pair
        publisher = publisher_on(ours, confirms=True, reach=Reach.AT_MOST_ONE)
        loop = TrafficLoop([publisher], [], Limits(0, 10))
        theirs.sendall(ack_octets(10, is_multiple=True))
        loop.warm_up(15)
        assert 15 <= publisher.published <= 20
        loop.close()

    def test_a_warm_up_that_comes_to_a_stop_is_told(
        self, pair: Pair, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(traffic, "DRAIN_TIMEOUT_S", -1.0)
        publisher = publisher_on(pair[0], confirms=True, reach=Reach.AT_MOST_ONE)
        loop = TrafficLoop([publisher], [], Limits(0, 10))
        with pytest.raises(BenchmarkError, match="10 of 15 published, and no more of them"):
            loop.warm_up(15)
        loop.close()

    def test_a_consumer_of_several_queues_is_due_each_copy(self, pair: Pair) -> None:
        other, far = socket.socketpair()
        with other, far:
            consumer = consumer_on(other, AckMode.AUTO, deliveries(0, 9))
            tape = Tape([Address("q")], 100, FRAME_MAX, count=TAPE_COUNT)
            endpoint = cast("Client", Endpoint(pair[0]))
            publisher = Publisher(
                endpoint, tape, (consumer,), confirms=False, reach=Reach.ONE, copies=3
            )
            assert publisher.allowed(in_flight_max=10, unconfirmed_max=0) == 13
            publisher.publish_up_to(3)
            assert publisher.is_complete
            publisher.verify_end()
            publisher.publish_up_to(4)
            with pytest.raises(BenchmarkError, match=r"4 published, but \[9\] delivered"):
                publisher.verify_end()
