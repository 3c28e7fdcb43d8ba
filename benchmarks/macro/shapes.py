"""How alike the messages of a load are: the three shapes, and tapes and meters for each.

Scenarios that publish ask `make_tape` for a tape of their shape. *Alike* is the plain `Tape`. The
messages of the other two have ids, a timestamp and headers of their own, which are made up from a
fixed seed, so that each broker gets the same octets.

Invariant: no two messages of a run are equal. Each carries its place on the tape, the number of the
stream and, in the end of its message-id, the lap of the tape, which is written before a lap begins;
so a broker that remembers messages it has seen cannot profit from a tape that goes round.
"""

from __future__ import annotations

import itertools
import operator
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from random import Random
from typing import Final

from pamqp import commands, common, frame

from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    FRAME_END,
    FRAME_HEAD_SIZE,
    FRAME_OVERHEAD,
    STAMP_SIZE,
    Address,
    DeliveryShape,
    Meter,
    Tape,
    body_frames,
    stamped_body,
)

Properties = commands.Basic.Properties


class Shape(Enum):
    """How much the messages of a load have in common."""

    DIFFERING = "differing"
    ANY = "any"
    ALIKE = "alike"

    @property
    def spoken(self) -> str:
        return _SPOKEN[self]


_SPOKEN: Final = {
    Shape.DIFFERING: "own ids, timestamp and headers, all of one length",
    Shape.ANY: "number, names and lengths of all that varies",
    Shape.ALIKE: "alike but for the octets of the body",
}

#: so many different messages, if they have the octets; the broker remembers at most 16,384
MESSAGES: Final = 24_000
TAPE_OCTETS_MAX: Final = 64 << 20
#: digits of the lap, at the end of a message-id
LAP_DIGITS: Final = 6
HEADERS_MAX: Final = 8

_STREAMS_MAX: Final = 256
_SEED: Final = 9_001
_FIRST_TIMESTAMP: Final = 1_700_000_000
_LONGEST_ID: Final = 40
# fmt: off
_WORDS: Final = (
    "account", "batch", "cluster", "correlation", "customer", "device", "environment", "id", "kind",
    "locale", "order", "partition", "priority", "region", "retry", "schema", "session", "shard",
    "site", "span", "tenant", "topic", "trace", "unit", "user", "version", "warehouse", "zone",
)
# fmt: on


class ShapedTape(Tape):
    """Publishes that differ, encoded once and sent over and over, each lap with ids of its own.

    They go to `addresses` in turn; what the properties of an address say, each of its messages
    says too. `stream` tells publishers of one run apart. With `Shape.DIFFERING` all publishes have
    one size.
    """

    __slots__ = ("_lap_places", "content_ends", "content_starts", "head_sizes", "is_even", "starts")

    def __init__(
        self,
        shape: Shape,
        addresses: Sequence[Address],
        body_size: int,
        frame_max: int,
        *,
        count: int = 0,
        stream: int = 0,
    ) -> None:
        each = len(addresses)
        wanted = count or max(4, min(MESSAGES, TAPE_OCTETS_MAX // body_size))
        self.count = -(-wanted // each) * each  # whole turns of the addresses
        bases = tuple(_base_of(address) for address in addresses)
        properties = _properties_of(shape, bases, self.count, stream)
        sizes = _body_sizes(shape, body_size, self.count)
        methods = [_publish_frame(address) for address in addresses]
        #: octets of the tape before each message, and all of them; before each content header too
        self.starts = [0]
        self.content_starts: list[int] = []
        self.head_sizes: list[int] = []
        self._lap_places: list[int] = []
        parts: list[bytes] = []
        at = 0
        for index in range(self.count):
            method = methods[index % each]
            octets, lap_at = properties[index]
            head = _header_frame(octets, sizes[index])
            body = body_frames(stamped_body(sizes[index], index), frame_max)
            self.content_starts.append(at + len(method))
            self.head_sizes.append(len(head))
            # behind frame head, class, weight and body size
            self._lap_places.append(at + len(method) + FRAME_HEAD_SIZE + 12 + lap_at)
            at += len(method) + len(head) + len(body)
            self.starts.append(at)
            parts += (method, head, body)
        #: octets of the first contents, without their method frames
        self.content_ends = list(
            itertools.accumulate(
                end - start for start, end in zip(self.content_starts, self.starts[1:], strict=True)
            )
        )
        self.octets = bytearray(b"".join(parts))
        self.frame_size = self.starts[1]
        self.is_even = all(
            start == index * self.frame_size for index, start in enumerate(self.starts)
        )

    def octets_of(self, count: int) -> int:
        laps, rest = divmod(count, self.count)
        return laps * self.starts[-1] + self.starts[rest]

    def begun_in(self, octets: int) -> int:
        laps, rest = divmod(octets, self.starts[-1])
        return laps * self.count + bisect_left(self.starts, rest)

    def begin_lap(self, lap: int) -> None:
        """Write the number of the lap into every message-id.

        Where all have one size: a strided assignment for each digit that changes. Otherwise some
        0.1 us a message.
        """
        octets, digits = self.octets, lap_digits(lap)
        if self.is_even:
            before, first = lap_digits(lap - 1), self._lap_places[0]
            for place in range(LAP_DIGITS):
                if digits[place] != before[place]:
                    column = digits[place : place + 1] * self.count
                    octets[first + place :: self.frame_size] = column
        else:
            for at in self._lap_places:
                octets[at : at + LAP_DIGITS] = digits

    def head_of(self, index: int, lap: int) -> bytes:
        """The content header frame of message `index` in that lap, whatever the tape is at."""
        start = self.content_starts[index]
        head = bytearray(self.octets[start : start + self.head_sizes[index]])
        at = self._lap_places[index] - start
        head[at : at + LAP_DIGITS] = lap_digits(lap)
        return bytes(head)

    def lap_in(self, head: bytes, index: int) -> int:
        """The lap that the content header frame of message `index` names.

        :raises ValueError: there are no digits at its place.
        """
        at = self._lap_places[index] - self.content_starts[index]
        return int(head[at : at + LAP_DIGITS], 16)

    def meter(
        self,
        shape: DeliveryShape,
        *,
        first_tag: int | None,
        is_ordered: bool = True,
    ) -> Meter:
        """Counts deliveries of this tape. `shape` is what its first message looks like."""
        return ShapedMeter(self, shape, first_tag, is_ordered=is_ordered)


class ShapedMeter(Meter):
    """Counts deliveries of a `ShapedTape` in a stream of octets that is cut anywhere.

    On one delivery of each chunk tag, properties and the start of the body must be those due there.
    `is_ordered` may be False for an even tape: then any of its messages may come.

    :raises BenchmarkError: the broker gives a content header of another size than it got.
    """

    __slots__ = ("_ends", "_is_ordered", "_method_size", "_tape")

    def __init__(
        self, tape: ShapedTape, shape: DeliveryShape, first_tag: int | None, *, is_ordered: bool
    ) -> None:
        super().__init__(shape, first_tag)
        self._tape = tape
        self._is_ordered = is_ordered
        if not is_ordered and not tape.is_even:
            raise ValueError("only messages of one size can be counted in another order")
        self._method_size = shape.body_offset - FRAME_HEAD_SIZE - tape.head_sizes[0]
        content = tape.starts[1] - tape.content_starts[0]
        if shape.size - self._method_size != content:
            raise BenchmarkError(
                f"a message whose header and body took {content} octets was delivered in "
                f"{shape.size - self._method_size}"
            )
        #: where each delivery of a lap ends; quickly made, as the clock may run already
        size = self._method_size
        methods = range(size, size * (tape.count + 1), size)
        self._ends: list[int] = list(map(operator.add, tape.content_ends, methods))

    @property
    def count(self) -> int:
        laps, rest = divmod(self.octets, self._ends[-1])
        return laps * self._tape.count + bisect_right(self._ends, rest)

    def octets_of(self, count: int) -> int:
        laps, rest = divmod(count, self._tape.count)
        return laps * self._ends[-1] + (self._ends[rest - 1] if rest else 0)

    def feed(self, chunk: memoryview) -> int:
        start = self.octets
        self.octets = start + len(chunk)
        whole = self.count
        sequence = self._first_from(start)
        skip = self.octets_of(sequence) - start
        head_size = self._tape.head_sizes[sequence % self._tape.count]
        needed = skip + self._method_size + head_size + FRAME_HEAD_SIZE + STAMP_SIZE
        if needed <= len(chunk):
            self._check(chunk, skip, sequence)
        return whole

    def _first_from(self, octets: int) -> int:
        """The first delivery that begins there or later."""
        laps, rest = divmod(octets, self._ends[-1])
        return laps * self._tape.count + (bisect_left(self._ends, rest) + 1 if rest else 0)

    def _check(self, chunk: memoryview, at: int, sequence: int) -> None:
        tape = self._tape
        lap, index = divmod(sequence, tape.count)
        head_at = at + self._method_size
        if not self._is_ordered:
            lap, index = self._found_at(chunk, head_at)
        head = tape.head_of(index, lap)
        body_at = head_at + len(head) + FRAME_HEAD_SIZE
        tag_at = at + self.shape.tag_offset
        tag = int.from_bytes(chunk[tag_at : tag_at + 8], "big")
        found = (
            bytes(chunk[at + FRAME_HEAD_SIZE : at + FRAME_HEAD_SIZE + 4]),
            tag,
            bytes(chunk[head_at : head_at + len(head)]),
            bytes(chunk[body_at : body_at + STAMP_SIZE]),
        )
        tag_due = tag if self.first_tag is None else self.first_tag + sequence
        due = (self.shape.method, tag_due, head, stamped_body(STAMP_SIZE, index))
        if found != due or (at and chunk[at - 1] != FRAME_END):
            raise BenchmarkError(
                f"delivery {sequence} is not the one expected: (method, tag, content header, stamp)"
                f" is {found}, not {due}"
            )

    def _found_at(self, chunk: memoryview, head_at: int) -> tuple[int, int]:
        """Lap and index that the delivery itself names; another message fails the comparison."""
        size = self._tape.head_sizes[0]
        body_at = head_at + size + FRAME_HEAD_SIZE
        index = int.from_bytes(chunk[body_at : body_at + 4], "big") % self._tape.count
        try:
            return self._tape.lap_in(bytes(chunk[head_at : head_at + size]), index), index
        except ValueError:
            return 0, index


def make_tape(
    shape: Shape,
    addresses: Sequence[Address],
    body_size: int,
    frame_max: int,
    *,
    count: int = 0,
    stream: int = 0,
) -> Tape:
    """A tape of that shape; bodies have `body_size` octets, or on average where they vary.

    `count` is the least number of messages on it, 0 for the usual one; `stream` tells tapes of one
    run apart, up to 255.
    """
    if shape is Shape.ALIKE:
        return Tape(addresses, body_size, frame_max, count)
    return ShapedTape(shape, addresses, body_size, frame_max, count=count, stream=stream)


def properties_of(
    shape: Shape, number: int, *, base: common.FieldTable | None = None, mode: int | None = None
) -> Properties:
    """The properties of message `number`: the same in each run, with the digits of lap 0.

    `base` are headers that it has besides; `mode` is its delivery mode.
    """
    rng = Random(_SEED * 1_000_003 + number)
    stamp = datetime.fromtimestamp(_FIRST_TIMESTAMP + number, UTC)
    lap = lap_digits(0).decode()
    if shape is Shape.DIFFERING:
        return Properties(
            message_id=f"00{number:08x}{rng.getrandbits(64):016x}{lap}",
            correlation_id=f"{rng.getrandbits(64):016x}",
            timestamp=stamp,
            headers={
                "attempt": rng.randrange(1 << 16, 1 << 31),  # four octets each
                "tenant": f"t{rng.randrange(10**6):06d}",
                "trace": f"{rng.getrandbits(128):032x}",
                **(base or {}),
            },
            delivery_mode=mode,
        )
    id_size = rng.randint(0, _LONGEST_ID - 16)
    return Properties(
        content_type=rng.choice((None, "application/json", "text/plain")),
        message_id=f"00{number:08x}{_digits(rng, id_size)}{lap}",
        correlation_id=_digits(rng, rng.randint(1, _LONGEST_ID)),
        timestamp=stamp,
        headers={
            **{_name(rng): _value(rng) for _ in range(rng.randint(0, HEADERS_MAX))},
            **(base or {}),
        },
        delivery_mode=mode,
    )


def lap_digits(lap: int) -> bytes:
    """The number of a lap as it stands in a message-id."""
    return b"%06x" % (lap & 0xFFFFFF)


def _digits(rng: Random, size: int) -> str:
    return f"{rng.getrandbits(4 * size):0{size}x}" if size else ""


def _name(rng: Random) -> str:
    return "-".join(rng.sample(_WORDS, rng.randint(1, 3)))


def _value(rng: Random) -> common.FieldValue:
    kind = rng.random()
    if kind < 0.6:
        return _digits(rng, rng.randint(0, 40))
    if kind < 0.9:
        return rng.getrandbits(rng.choice((7, 15, 31, 62)))
    return kind < 0.95


@dataclass(frozen=True)
class _Base:
    """What all messages to one address have in common; hashable, as the properties are kept."""

    mode: int | None
    headers: tuple[tuple[str, common.FieldValue], ...]


def _base_of(address: Address) -> _Base:
    given = address.properties or Properties()
    return _Base(given.delivery_mode, tuple((given.headers or {}).items()))


@lru_cache(maxsize=16)
def _plain_properties_of(
    shape: Shape, bases: tuple[_Base, ...], count: int
) -> list[tuple[bytes, int]]:
    """Encoded properties of `count` messages, with the place of the message-id's first digit."""
    found = []
    for number in range(count):
        base = bases[number % len(bases)]
        properties = properties_of(shape, number, base=dict(base.headers), mode=base.mode)
        octets = properties.marshal()
        assert properties.message_id is not None
        found.append((octets, octets.index(properties.message_id.encode())))
    return found


def _properties_of(
    shape: Shape, bases: tuple[_Base, ...], count: int, stream: int
) -> list[tuple[bytes, int]]:
    """The same for one stream, with the place of the lap's digits; the cost is in the cache."""
    if not 0 <= stream < _STREAMS_MAX:
        raise ValueError(f"streams are numbered from 0 to {_STREAMS_MAX - 1}, not {stream}")
    digits = b"%02x" % stream
    if len(set(bases)) == 1:
        bases = bases[:1]
    found = []
    for octets, at in _plain_properties_of(shape, bases, count):
        id_size = octets[at - 1]
        mine = octets[:at] + digits + octets[at + 2 :] if stream else octets
        found.append((mine, at + id_size - LAP_DIGITS))
    return found


@lru_cache(maxsize=4)
def _body_sizes(shape: Shape, body_size: int, count: int) -> list[int]:
    """All alike, or anything from a stamp to twice that size."""
    if shape is not Shape.ANY:
        return [body_size] * count
    rng = Random(_SEED)
    smallest = min(STAMP_SIZE, body_size)
    return [body_size, *(rng.randint(smallest, 2 * body_size - smallest) for _ in range(count - 1))]


def _publish_frame(address: Address) -> bytes:
    publish = commands.Basic.Publish(exchange=address.exchange, routing_key=address.routing_key)
    return frame.marshal(publish, 1)


def _header_frame(properties: bytes, body_size: int) -> bytes:
    size = 12 + len(properties)
    head = struct.pack(">BHIHHQ", 2, 1, size, 60, 0, body_size)
    return b"".join((head, properties, b"\xce"))


assert FRAME_OVERHEAD == FRAME_HEAD_SIZE + 1
