"""Publishers, consumers and the one loop that moves octets between them and the broker.

Used by the throughput scenarios. One thread, non-blocking sockets, and no work per message: a
publisher sends slices of its tape, a consumer divides octets by the size of a delivery. The loop
looks at the sockets at most every `POLL_INTERVAL_S`, so that the generator handles hundreds of
messages at a time however finely the broker writes, and leaves the processor to the broker.

Invariant: a publisher is never more than `in_flight_max` messages ahead of its slowest consumer,
nor more than `unconfirmed_max` ahead of its confirms.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    ConfirmMeter,
    Meter,
    SingleAcks,
    Tape,
    ack_octets,
)
from benchmarks.macro.scenario import Stopwatch

POLL_INTERVAL_S: Final = 0.0005
ACK_EVERY: Final = 100
DRAIN_TIMEOUT_S: Final = 120.0
NO_LIMIT: Final = 1 << 62
BURST_MAX: Final = 10_000  # messages before the loop looks at the consumers again

_RECEIVE_OCTETS: Final = 1 << 20
_SEND_OCTETS_AT_ONCE: Final = 1 << 18


class AckMode(Enum):
    AUTO = "auto-ack"
    EVERY_100 = "one multiple ack each 100"
    SINGLE = "one ack each"


class Reach(Enum):
    """How many of a publisher's consumers get one of its messages."""

    ALL = "each gets it"
    ONE = "one of them gets it"
    AT_MOST_ONE = "one gets it, or none where a newer message took its place"


class Consumer:
    """Counts deliveries on a connection that consumes, and acks them as its mode says.

    Deliveries before the meter's first tag are the caller's, and so are those it has skipped.
    `ack_limit` holds acks back: so many of the deliveries counted may be acked.
    """

    __slots__ = (
        "_acked",
        "_acks",
        "_buffer",
        "_mode",
        "_tag_before_first",
        "_unsent",
        "_view",
        "ack_limit",
        "meter",
        "sock",
    )

    def __init__(self, client: Client, meter: Meter, mode: AckMode) -> None:
        self.sock = client.sock
        self.ack_limit = NO_LIMIT
        self.meter = meter
        self._mode = mode
        self._tag_before_first = (meter.first_tag or 1) - 1
        self._acked = 0
        self._acks = SingleAcks() if mode is AckMode.SINGLE else None
        self._unsent = b""
        self._buffer = bytearray(_RECEIVE_OCTETS)
        self._view = memoryview(self._buffer)
        self.sock.setblocking(False)
        unread = client.take_unread()
        if unread:
            self.meter.feed(memoryview(unread))

    @property
    def received(self) -> int:
        return self.meter.count

    @property
    def acked(self) -> int:
        """How many of the deliveries counted are acked."""
        return self._acked

    def receive(self) -> None:
        """Take in what there is and ack it.

        :raises BenchmarkError: the connection is closed, or a delivery is not the one expected.
        """
        try:
            size = self.sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        if not size:
            raise BenchmarkError("the broker closed the connection of a consumer")
        count = self.meter.feed(self._view[:size])
        if self._mode is not AckMode.AUTO:
            self.settle(min(count, self.ack_limit))

    def settle(self, count: int) -> None:
        """Ack the first `count` deliveries as far as the mode wants and the socket takes."""
        if self._unsent and not self.send_rest():
            return
        acked, before = self._acked, self._tag_before_first
        if self._acks is not None:
            if count > acked:
                self._acked = count
                for piece in self._acks.pieces(before + acked + 1, before + count):
                    self._send(piece)
        elif count - acked >= ACK_EVERY:
            last = count - count % ACK_EVERY
            self._acked = last
            ends = range(acked + ACK_EVERY, last + 1, ACK_EVERY)
            self._send(b"".join(ack_octets(before + end, is_multiple=True) for end in ends))

    def send_rest(self) -> bool:
        """Send acks that the socket did not take before; whether none are left."""
        if self._unsent:
            self._send(b"")
        return not self._unsent

    def _send(self, octets: memoryview | bytes) -> None:
        if self._unsent:
            octets = self._unsent + bytes(octets)
        try:
            sent = self.sock.send(octets)
        except BlockingIOError:
            sent = 0
        self._unsent = bytes(octets[sent:]) if sent < len(octets) else b""


class Publisher:
    """Sends its tape as far as it is allowed to, and counts confirms where it asked for them.

    `copies` is how many deliveries of a message its consumers get together with `Reach.ONE`, where
    one connection consumes from several queues.
    """

    __slots__ = (
        "_confirms",
        "_lap",
        "_offset",
        "_view",
        "consumers",
        "copies",
        "is_blocked",
        "octets",
        "reach",
        "sock",
        "tape",
    )

    def __init__(
        self,
        client: Client,
        tape: Tape,
        consumers: Sequence[Consumer],
        *,
        confirms: bool,
        reach: Reach = Reach.ALL,
        copies: int = 1,
    ) -> None:
        if reach is Reach.AT_MOST_ONE and not confirms:
            raise ValueError(
                "what may never be delivered is paced by its confirms, so ask for them"
            )
        self.sock = client.sock
        self.tape = tape
        self.consumers = consumers
        self.reach = reach
        self.copies = copies
        self.octets = 0
        self.is_blocked = False
        self._view = memoryview(tape.octets)
        self._offset = 0
        self._lap = 0
        self._confirms = ConfirmMeter() if confirms else None
        self.sock.setblocking(False)

    @property
    def published(self) -> int:
        """Messages of which at least the first octet is sent."""
        return self.tape.begun_in(self.octets)

    def receive(self) -> None:
        """Take confirms in. :raises BenchmarkError: the broker says anything else."""
        try:
            octets = self.sock.recv(_RECEIVE_OCTETS)
        except BlockingIOError:
            return
        if not octets:
            raise BenchmarkError("the broker closed the connection of a publisher")
        if self._confirms is None:
            raise BenchmarkError(f"the broker answered a publisher: {octets[:160]!r}")
        self._confirms.feed(octets)

    def allowed(self, in_flight_max: int, unconfirmed_max: int) -> int:
        """How many messages may be published in all, given what has come back so far."""
        limit = NO_LIMIT
        if self.reach is Reach.ALL:
            limit = min([consumer.received for consumer in self.consumers]) + in_flight_max
        elif self.reach is Reach.ONE:
            limit = self.received // self.copies + in_flight_max
        if self._confirms is not None:
            limit = min(limit, self._confirms.count + unconfirmed_max)
        return limit

    @property
    def confirmed(self) -> int:
        return 0 if self._confirms is None else self._confirms.count

    @property
    def received(self) -> int:
        """What its consumers received in all."""
        return sum([consumer.received for consumer in self.consumers])

    def publish_up_to(self, count: int) -> None:
        """Send until `count` messages are published in all, or the socket takes no more."""
        missing = self.tape.octets_of(count) - self.octets
        length = len(self._view)
        while missing > 0:
            end = min(length, self._offset + missing, self._offset + _SEND_OCTETS_AT_ONCE)
            try:
                sent = self.sock.send(self._view[self._offset : end])
            except BlockingIOError:
                self.is_blocked = True
                return
            self.octets += sent
            missing -= sent
            self._offset += sent
            if self._offset == length:
                self._offset = 0
                self._lap += 1
                self.tape.begin_lap(self._lap)
        self.is_blocked = False

    def verify_end(self) -> None:
        """:raises BenchmarkError: more or less came back than was published."""
        delivered: list[int] = []
        if self.reach is Reach.ALL:
            delivered = [consumer.received for consumer in self.consumers]
        elif self.reach is Reach.ONE or self.received > self.published:
            delivered = [self.received]
        if any(count != self.published * self.copies for count in delivered):
            raise BenchmarkError(f"{self.published} published, but {delivered} delivered")
        if self._confirms is not None and self._confirms.count != self.published:
            confirmed = self._confirms.count
            raise BenchmarkError(f"{self.published} published, but [{confirmed}] confirmed")
        if not all(consumer.meter.is_between for consumer in self.consumers):
            raise BenchmarkError("the last delivery is incomplete or has octets behind it")

    @property
    def is_complete(self) -> bool:
        """Whether all that was published has come back."""
        return self.allowed(0, 0) >= self.published and self.tape.is_between(self.octets)


@dataclass(frozen=True)
class Limits:
    """How far ahead publishers may run; see the invariant above."""

    in_flight_max: int
    unconfirmed_max: int


class TrafficLoop:
    """Drives all publishers and consumers of one scenario."""

    def __init__(
        self, publishers: Sequence[Publisher], consumers: Sequence[Consumer], limits: Limits
    ) -> None:
        self._publishers = publishers
        self._consumers = consumers
        self._limits = limits
        # a publisher waits for a fair part of its window, so that it sends few and large pieces
        self._batch = max(1, min(limits.in_flight_max, limits.unconfirmed_max) // 20)
        self._selector = selectors.DefaultSelector()
        members: list[Publisher | Consumer] = [*publishers, *consumers]
        for member in members:
            self._selector.register(member.sock, selectors.EVENT_READ, member)
        self._write_wanted: set[Publisher] = set()

    @property
    def delivered(self) -> int:
        return sum(consumer.received for consumer in self._consumers)

    @property
    def published(self) -> int:
        return sum(publisher.published for publisher in self._publishers)

    def warm_up(self, count: int) -> None:
        """Run until `count` messages are published, however long that takes.

        :raises BenchmarkError: no more are delivered, so that the window stays shut.
        """
        published, moved = self.published, time.monotonic()
        while published < count:
            self._run_for(0.0)
            now = time.monotonic()
            if self.published != published:
                published, moved = self.published, now
            elif now - moved > DRAIN_TIMEOUT_S:
                raise BenchmarkError(f"{published} of {count} published, and no more of them")

    def measure(self, warm_up_s: float, seconds: float, watch: Stopwatch) -> tuple[float, float]:
        """Warm up, measure, stop publishing, wait for the rest.

        Returns deliveries and publishes per second.

        :raises BenchmarkError: what came back is not what was published, or it never came.
        """
        self._run_for(warm_up_s)
        delivered, published = self.delivered, self.published
        watch.start()
        self._run_for(seconds)
        watch.stop()
        delivered, published = self.delivered - delivered, self.published - published
        self._drain()
        return delivered / watch.elapsed_s, published / watch.elapsed_s

    def close(self) -> None:
        self._selector.close()

    def _run_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        limits = self._limits
        batch = self._batch
        while True:
            for publisher in self._publishers:
                allowed = publisher.allowed(limits.in_flight_max, limits.unconfirmed_max)
                published = publisher.published
                if publisher.is_blocked or allowed - published >= batch:
                    publisher.publish_up_to(min(allowed, published + BURST_MAX))
            self._poll(0.1)
            if time.monotonic() >= deadline:
                return
            time.sleep(POLL_INTERVAL_S)

    def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while not all(publisher.is_complete for publisher in self._publishers):
            for publisher in self._publishers:
                publisher.publish_up_to(publisher.published)  # the rest of a message half sent
            self._poll(0.01)
            if time.monotonic() > deadline:
                break
        # what should not come must have its chance to come
        while self._poll(0.02) and time.monotonic() < deadline:
            pass
        for publisher in self._publishers:
            publisher.verify_end()

    def _poll(self, timeout_s: float) -> bool:
        """Take in what there is; False if nothing came within `timeout_s`."""
        self._watch_blocked()
        for consumer in self._consumers:
            consumer.send_rest()
        ready = self._selector.select(timeout_s)
        for key, events in ready:
            if events & selectors.EVENT_READ:
                key.data.receive()
        return bool(ready)

    def _watch_blocked(self) -> None:
        """Be woken by a socket that took no more, and only as long as it did not."""
        for publisher in self._publishers:
            if publisher.is_blocked != (publisher in self._write_wanted):
                events = selectors.EVENT_READ
                if publisher.is_blocked:
                    events |= selectors.EVENT_WRITE
                    self._write_wanted.add(publisher)
                else:
                    self._write_wanted.discard(publisher)
                self._selector.modify(publisher.sock, events, publisher)
