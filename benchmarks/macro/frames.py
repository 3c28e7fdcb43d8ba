"""Octets that are prepared before the clock runs, and meters that count what comes back.

Used by every scenario. The point of this module is that the load generator touches no single
message while it measures: publishes are slices of one cyclic `Tape`, single acks are slices of one
`SingleAcks` template, and deliveries are counted by dividing the octets received by the size of one
delivery. Nothing here does I/O.

Every body starts with its place on the tape and the lap of the tape, both unsigned 32 bit, so that
the k-th message of a publisher carries ``(k % tape.count, k // tape.count)``. A `DeliveryMeter`
checks that, and the delivery tag, on one delivery of every chunk it is fed: a single octet lost,
inserted or misplaced anywhere before makes the check fail.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pamqp import commands, frame, header

from benchmarks.macro.errors import BenchmarkError

FRAME_HEAD_SIZE: Final = 7
FRAME_OVERHEAD: Final = 8  # head and end octet
FRAME_END: Final = 0xCE
STAMP_SIZE: Final = 8  # index and lap at the start of a body
SMALLEST_BODY: Final = STAMP_SIZE
TAPE_TARGET_OCTETS: Final = 128 * 1024  # about what one send() takes, and it stays in the L2 cache
TAPE_LONGEST: Final = 1000

BASIC_DELIVER: Final = b"\x00\x3c\x00\x3c"
BASIC_GET_OK: Final = b"\x00\x3c\x00\x47"
SETTLE_FRAME_SIZE: Final = 21  # basic.ack, nack: head 7, class and method 4, tag 8, bits 1, end 1

_SETTLE_FRAME: Final = struct.Struct(">BHIIQBB")
_STAMP: Final = struct.Struct(">II")
_BASIC_ACK: Final = 0x003C0050
_BASIC_NACK: Final = 0x003C0078


@dataclass(frozen=True)
class Address:
    """Where one message of a tape goes, and the properties it carries."""

    routing_key: str
    exchange: str = ""
    properties: commands.Basic.Properties | None = None


def publish_octets(address: Address, body: bytes, frame_max: int, channel: int = 1) -> bytes:
    """The method, header and body frames of one publish, as they go on the wire."""
    publish = commands.Basic.Publish(exchange=address.exchange, routing_key=address.routing_key)
    content = header.ContentHeader(body_size=len(body), properties=address.properties)
    head = frame.marshal(publish, channel) + frame.marshal(content, channel)
    return head + body_frames(body, frame_max, channel)


def body_frames(body: bytes, frame_max: int, channel: int = 1) -> bytes:
    """A body cut into frames, as it goes on the wire."""
    payload_max = frame_max - FRAME_OVERHEAD
    parts: list[bytes] = []
    for start in range(0, len(body), payload_max):
        payload = body[start : start + payload_max]
        parts += (struct.pack(">BHI", 3, channel, len(payload)), payload, b"\xce")
    return b"".join(parts)


def stamped_body(size_bytes: int, index: int, lap: int = 0) -> bytes:
    """A body of that many octets with its stamp in front."""
    if size_bytes < SMALLEST_BODY:
        raise ValueError(f"a body holds its {STAMP_SIZE} octet stamp, so not {size_bytes} octets")
    return _STAMP.pack(index, lap) + b"x" * (size_bytes - STAMP_SIZE)


class Tape:
    """The publishes of one publisher, encoded once and sent over and over.

    All publishes on a tape have one size, so a count of octets sent is a count of messages.
    The tape addresses its messages to `addresses` in turn.
    """

    __slots__ = ("_lap_offset", "count", "frame_size", "octets")

    def __init__(
        self, addresses: Sequence[Address], body_size: int, frame_max: int, count: int = 0
    ) -> None:
        one = len(publish_octets(addresses[0], stamped_body(body_size, 0), frame_max))
        wanted = count or min(TAPE_LONGEST, max(4, TAPE_TARGET_OCTETS // one))
        self.count = -(-wanted // len(addresses)) * len(addresses)  # whole turns of the addresses
        frames = [
            publish_octets(
                addresses[index % len(addresses)], stamped_body(body_size, index), frame_max
            )
            for index in range(self.count)
        ]
        if {len(octets) for octets in frames} != {one}:
            raise ValueError("the addresses of a tape must encode to publishes of one size")
        self.frame_size = one
        self.octets = bytearray(b"".join(frames))
        first_payload = min(body_size, frame_max - FRAME_OVERHEAD)
        later_frames = max(0, -(-body_size // (frame_max - FRAME_OVERHEAD)) - 1)
        tail = 1 + (body_size - first_payload) + later_frames * FRAME_OVERHEAD
        self._lap_offset = one - tail - first_payload + 4

    def octets_of(self, count: int) -> int:
        """How many octets the first `count` messages have, over all laps."""
        return count * self.frame_size

    def begun_in(self, octets: int) -> int:
        """How many messages have at least their first octet among the first `octets`."""
        return -(-octets // self.frame_size)

    def is_between(self, octets: int) -> bool:
        """Whether a message ends at that octet."""
        return self.octets_of(self.begun_in(octets)) == octets

    def piece(self, first: int, count: int) -> bytes:
        """The publishes from `first` on, counted over all laps; in order, and within one lap."""
        lap, place = divmod(first, self.count)
        if lap and not place:
            self.begin_lap(lap)
        start = self.octets_of(place)
        return bytes(self.octets[start : self.octets_of(place + count)])

    def meter(
        self, shape: DeliveryShape, *, first_tag: int | None, is_ordered: bool = True
    ) -> Meter:
        """Counts deliveries of this tape, from the one with `first_tag` on."""
        return DeliveryMeter(shape, first_tag, self.count, is_ordered=is_ordered)

    def begin_lap(self, lap: int) -> None:
        """Write the number of the lap into every body; call it when the tape is at its start.

        One strided assignment per octet that changes: a few microseconds for a thousand bodies.
        """
        before, after = (lap - 1).to_bytes(4, "big"), lap.to_bytes(4, "big")
        for place in range(4):
            if before[place] != after[place]:
                column = bytes((after[place],)) * self.count
                self.octets[self._lap_offset + place :: self.frame_size] = column


class SingleAcks:
    """basic.ack frames for runs of consecutive delivery tags, cut from one template.

    The template holds 65,536 frames whose low two tag octets never change; the upper six are
    rewritten when the run passes a multiple of 65,536.
    """

    __slots__ = ("_octets", "_upper", "_view")

    _RUN: Final = 0x10000

    def __init__(self, channel: int = 1) -> None:
        self._octets = bytearray(
            b"".join(ack_octets(tag, channel=channel) for tag in range(self._RUN))
        )
        self._view = memoryview(self._octets)
        self._upper = 0

    def pieces(self, first_tag: int, last_tag: int) -> list[memoryview | bytes]:
        """The frames that ack `first_tag` to `last_tag`; a view stays good until the next call."""
        pieces: list[memoryview | bytes] = []
        tag = first_tag
        while tag <= last_tag:
            upper, low = divmod(tag, self._RUN)
            high = min(self._RUN, low + last_tag - tag + 1)
            if upper != self._upper:
                if pieces:
                    pieces[-1] = bytes(pieces[-1])
                self._rewrite_upper(upper)
            pieces.append(self._view[low * SETTLE_FRAME_SIZE : high * SETTLE_FRAME_SIZE])
            tag += high - low
        return pieces

    def _rewrite_upper(self, upper: int) -> None:
        for place, octet in enumerate(upper.to_bytes(6, "big")):
            self._octets[11 + place :: SETTLE_FRAME_SIZE] = bytes((octet,)) * self._RUN
        self._upper = upper


def ack_octets(delivery_tag: int, *, is_multiple: bool = False, channel: int = 1) -> bytes:
    """One basic.ack frame."""
    return _SETTLE_FRAME.pack(1, channel, 13, _BASIC_ACK, delivery_tag, int(is_multiple), FRAME_END)


@dataclass(frozen=True)
class DeliveryShape:
    """The size of one delivery of a consumer, and where in it the things to check stand.

    A scenario learns it from its first delivery, which is parsed frame by frame, because brokers
    may cut large bodies differently.
    """

    method: bytes
    size: int
    tag_offset: int
    body_offset: int


class Meter(ABC):
    """Counts deliveries in a stream of octets that is cut anywhere, and checks some of them.

    `first_tag` is the delivery tag of the first delivery that is fed, or None where tags do not
    count up (RabbitMQ gives each direct reply the same one). `octets` is what was fed so far.
    """

    __slots__ = ("first_tag", "octets", "shape")

    def __init__(self, shape: DeliveryShape, first_tag: int | None) -> None:
        self.shape = shape
        self.first_tag = first_tag
        self.octets = 0

    @property
    @abstractmethod
    def count(self) -> int:
        """Whole deliveries so far."""

    @abstractmethod
    def octets_of(self, count: int) -> int:
        """How many octets the first `count` deliveries have."""

    @abstractmethod
    def feed(self, chunk: memoryview) -> int:
        """Take octets in; the number of whole deliveries so far. Checks the first head it finds.

        :raises BenchmarkError: that delivery is not the one expected at its place.
        """

    @property
    def is_between(self) -> bool:
        """Whether what was fed so far ends with a whole delivery."""
        return self.octets == self.octets_of(self.count)

    def skip(self, count: int) -> None:
        """Count the first deliveries, which the caller has read."""
        self.octets = self.octets_of(count)


class DeliveryMeter(Meter):
    """Counts deliveries that all have one size.

    `tape_count` is the length of the tape they come from. Messages are expected in the order they
    were published, unless `is_ordered` is False: then any message of the tape will do, as what a
    priority queue gives is not that order.
    """

    __slots__ = ("_body_offset", "_head_size", "_is_ordered", "_tape_count")

    def __init__(
        self,
        shape: DeliveryShape,
        first_tag: int | None,
        tape_count: int,
        *,
        is_ordered: bool = True,
    ) -> None:
        super().__init__(shape, first_tag)
        self._tape_count = tape_count
        self._is_ordered = is_ordered
        self._body_offset = shape.body_offset
        self._head_size = shape.body_offset + STAMP_SIZE

    @property
    def count(self) -> int:
        return self.octets // self.shape.size

    def octets_of(self, count: int) -> int:
        return count * self.shape.size

    def feed(self, chunk: memoryview) -> int:
        start = self.octets
        size = self.shape.size
        length = len(chunk)
        self.octets = start + length
        skip = -start % size
        if skip + self._head_size <= length:
            self._check(chunk, skip, (start + skip) // size)
        return self.octets // size

    def _check(self, chunk: memoryview, at: int, sequence: int) -> None:
        tag_at, body_at = at + self.shape.tag_offset, at + self._body_offset
        method = bytes(chunk[at + FRAME_HEAD_SIZE : at + FRAME_HEAD_SIZE + 4])
        tag = int.from_bytes(chunk[tag_at : tag_at + 8], "big")
        found: tuple[bytes, int, int, int] = (method, tag, *_STAMP.unpack_from(chunk, body_at))
        lap, index = divmod(sequence, self._tape_count)
        if not self._is_ordered and found[2] < self._tape_count:
            index, lap = found[2:]
        expected_tag = tag if self.first_tag is None else self.first_tag + sequence
        expected = (self.shape.method, expected_tag, index, lap)
        if found != expected or (at and chunk[at - 1] != FRAME_END):
            raise BenchmarkError(
                f"delivery {sequence} is not the one expected: (method, tag, index, lap) is {found}"
                f", not {expected}; octets {bytes(chunk[max(0, at - 8) : at + 160])!r}"
            )


class ConfirmMeter:
    """Counts what a broker confirms, by single and by multiple acks, in whatever order.

    Invariant: every publish up to `_low` is confirmed, and those in `_above` beyond it.
    """

    __slots__ = ("_above", "_low", "_rest")

    def __init__(self) -> None:
        self._low = 0
        self._above: set[int] = set()
        self._rest = b""

    @property
    def count(self) -> int:
        return self._low + len(self._above)

    def feed(self, octets: bytes) -> int:
        """Take octets in; the number of confirmed publishes so far.

        :raises BenchmarkError: a nack, a frame that is no confirm, or a confirm given twice.
        """
        if self._rest:
            octets = self._rest + octets
        usable = len(octets) - len(octets) % SETTLE_FRAME_SIZE
        self._rest = octets[usable:]
        low, above = self._low, self._above
        for _, _, _, method, tag, multiple, _ in _SETTLE_FRAME.iter_unpack(octets[:usable]):
            if method != _BASIC_ACK:
                what = "nacked" if method == _BASIC_NACK else "answered by another frame"
                raise BenchmarkError(f"publish {tag} was {what}: {octets[:160]!r}")
            if tag <= low or tag in above:
                raise BenchmarkError(f"publish {tag} was confirmed twice")
            if multiple:
                low = tag
                if above:
                    above = {other for other in above if other > tag}
            elif tag == low + 1:
                low = tag
            else:
                above.add(tag)
            while above and low + 1 in above:
                low += 1
                above.discard(low)
        self._low, self._above = low, above
        return low + len(above)
