"""The decoder of frames: any octets, in pieces of any size, with lanes and without.

Whatever the octets are, three decoders must tell the same: one with lanes that gets all at once,
one with lanes that gets the pieces of the input, and one without lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Any, Final

from hareline.errors import AmqpError
from hareline.wire.constants import BASIC_ACK, BASIC_PUBLISH, FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from hareline.wire.decoder import Decoder, FrameSink, KnownRoute, PublishLane, SettleLane
from hareline.wire.encoder import body_frame_head, header_frame
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties, encode_properties
from tests.fuzz.target import Reader, Target, piece

FRAME_MAX: Final = 256
LANE_BODY_MAX: Final = 64
CHANNELS: Final = (1, 2)
_SIZE: Final = Struct(">HHQ")
_ACK: Final = Struct(">QB")

Event = tuple[object, ...]


class _Route(KnownRoute):
    def __init__(self, method: bytes, *, is_persistent: bool = False) -> None:
        self.method = method
        self.takes_runs = len(method) % 2 == 0
        self.is_persistent = is_persistent

    @property
    def persistent(self) -> _Route:
        return _Route(self.method, is_persistent=True)


class _Lane(PublishLane):
    def __init__(self, sink: _Sink, number: int) -> None:
        super().__init__()
        self._sink = sink
        self._number = number

    def publish(self, route: Any, flags: int, content: bytes, header_size: int, size: int) -> bool:
        self._note(route, content, header_size, size)
        return flags & 1 == 0

    def publish_checked(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        self._note(route, content, header_size, size)

    def publish_plain(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        self._note(route, content, header_size, size)

    def publish_run(
        self, route: Any, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        self.publish_each(route, contents, header_size, framing)

    def _note(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        body = content[header_size + 7 : -1] if size else b""
        assert len(body) == size, "the lane has another size than the frame"
        self._sink.events.append(
            ("publish", self._number, route.method, content[7 : header_size - 1], body)
        )


class _Acks(SettleLane):
    def __init__(self, sink: _Sink, number: int) -> None:
        self._sink = sink
        self._number = number

    def ack(self, tag: int, multiple: int) -> None:
        self._sink.events.append(("ack", self._number, tag, multiple))


class _Sink(FrameSink):
    """Puts contents together as a channel does; a publish method opens, whatever follows."""

    __slots__ = ("_contents", "_lanes", "decoder", "events")

    def __init__(self, *, has_lanes: bool) -> None:
        self.decoder = Decoder(self)
        self.decoder.frame_max = FRAME_MAX
        self.decoder.lane_body_max = LANE_BODY_MAX
        self.events: list[Event] = []
        self._contents: dict[int, list[bytes]] = {}
        self._lanes: dict[int, _Lane] = {}
        if has_lanes:
            self._lanes = {number: _Lane(self, number) for number in CHANNELS}
            self.decoder.publish_lanes.update(self._lanes)
            self.decoder.settle_lanes.update((each, _Acks(self, each)) for each in CHANNELS)

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        index = int.from_bytes(payload[:4], "big") if len(payload) >= 4 else 0
        parts = self._contents.get(number)
        if kind == FRAME_METHOD and index == BASIC_PUBLISH and number in CHANNELS:
            self._contents[number] = [payload]
            self.decoder.publish_lanes.pop(number, None)
        elif kind == FRAME_METHOD and index == BASIC_ACK and len(payload) == 13:
            name = "ack" if number in CHANNELS else "other ack"
            self.events.append((name, number, *_ACK.unpack(payload[4:])))
        elif parts is not None and (
            (kind == FRAME_HEADER and len(parts) == 1) or (kind == FRAME_BODY and len(parts) > 1)
        ):
            parts.append(payload)
            self._complete(number, parts)
        else:
            self.events.append((kind, number, payload))

    def _complete(self, number: int, parts: list[bytes]) -> None:
        method, header, *bodies = parts
        try:
            size = _SIZE.unpack_from(header)[2]
        except error:  # as a channel, which closes then
            del self._contents[number]
            return
        body = b"".join(bodies)
        if len(body) < size:
            return
        del self._contents[number]
        lane = self._lanes.get(number)
        if lane is not None:
            lane.routes.setdefault(method, _Route(method))
            self.decoder.publish_lanes[number] = lane
        self.events.append(("publish", number, method, header, body))

    def on_error(self, number: int, error: AmqpError) -> bool:
        self.events.append(("error", number, type(error), error.reply_text))
        return True


def run(octets: bytes) -> None:
    """The first piece of the input says where the rest is cut."""
    reader = Reader(octets)
    sizes = reader.piece()
    stream = reader.rest()
    whole, plain, cut = _Sink(has_lanes=True), _Sink(has_lanes=False), _Sink(has_lanes=True)
    whole.decoder.feed(stream)
    plain.decoder.feed(stream)
    at = 0
    for size in sizes:
        cut.decoder.feed(stream[at : at + size])
        at += size
    cut.decoder.feed(stream[at:])
    assert whole.events == plain.events, "lanes tell something else"
    assert cut.events == plain.events, "pieces tell something else"


def frame(kind: int, number: int, payload: bytes) -> bytes:
    return (
        bytes((kind,))
        + number.to_bytes(2, "big")
        + len(payload).to_bytes(4, "big")
        + (payload + b"\xce")
    )


def content(number: int, body: bytes, properties: Properties, chunk: int = 128) -> bytes:
    """Header and body frames."""
    octets = header_frame(number, encode_properties(properties), len(body))
    for start in range(0, len(body), chunk):
        part = body[start : start + chunk]
        octets += body_frame_head(number, len(part)) + part + b"\xce"
    return octets


def seeds() -> Sequence[bytes]:
    publish = encode_method(1, commands.Basic.Publish, exchange="x", routing_key="k")
    plain = publish + content(1, b"body", Properties(content_type="text"))
    empty = publish + content(1, b"", Properties(delivery_mode=2))
    chunked = publish + content(1, bytes(100), Properties(), chunk=40)
    ack = encode_method(2, commands.Basic.Ack, delivery_tag=7, multiple=True)
    heartbeat = frame(8, 0, b"")
    long = publish + content(1, bytes(65), Properties())
    streams = (
        plain * 4 + ack + heartbeat,
        empty * 3 + plain + ack * 2,
        chunked + plain * 2 + encode_method(1, commands.Queue.Declare, queue="q"),
        long * 2 + frame(3, 1, b""),
        frame(4, 1, b"ab") + plain,
        ack + frame(1, 1, bytes(300)),
    )
    return [piece(sizes) + stream for stream in streams for sizes in (b"", b"\1\5\21", b"\7" * 30)]


TARGET: Final = Target("decoder", run, seeds, words=(b"\xce", b"\0\x3c\0\x28", b"\0\x3c\0\x50"))
