"""What cutting and recognising frames costs, with a sink that does nothing.

    python -m benchmarks.micro.bench_decoder [--json FILE] [--repetitions N]

Octets are fed in pieces of 64 KiB, as the socket gives them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.micro.stand import USUAL_PROPERTIES, ack_octets, publish_octets
from benchmarks.micro.timing import finish, measure
from hareline.errors import AmqpError
from hareline.wire.constants import HEARTBEAT_FRAME
from hareline.wire.decoder import Decoder, FrameSink, KnownRoute, PublishLane, SettleLane
from hareline.wire.methods import commands, encode_method

PIECE_BYTES = 65_536
MESSAGES = 20_000


class NullLane(PublishLane):
    """Says of each publish whether the next may repeat it."""

    def __init__(self, *, is_plain: bool) -> None:
        super().__init__()
        self._is_plain = is_plain

    def publish(self, route: Any, flags: int, content: bytes, header_size: int, size: int) -> bool:
        return self._is_plain

    def publish_checked(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        """Nothing becomes of it."""

    def publish_plain(self, route: Any, content: bytes, header_size: int, size: int) -> None:
        """Nothing becomes of it."""

    def publish_run(
        self, route: Any, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        """Nothing becomes of them."""


class NullRoute(KnownRoute):
    """Where publishes go that nothing becomes of."""

    def __init__(self) -> None:
        self.takes_runs = True

    @property
    def persistent(self) -> NullRoute:
        return self


class NullSettling(SettleLane):
    def ack(self, tag: int, multiple: int) -> None:
        """Nothing becomes of it."""


class NullSink(FrameSink):
    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """Nothing becomes of it."""

    def on_error(self, number: int, error: AmqpError) -> bool:
        raise error


def main() -> None:
    bench_publishes()
    bench_other_frames()
    finish()


def bench_publishes() -> None:
    one = publish_octets(bytes(100))
    feed("publish, 100 B, like the one before", one * MESSAGES, MESSAGES)
    feed("publish, 100 B, known address", one * MESSAGES, MESSAGES, is_plain=False)
    usual = publish_octets(bytes(100), properties=USUAL_PROPERTIES)
    feed("publish, 100 B, 2 properties, like the one before", usual * MESSAGES, MESSAGES)
    pair = one + publish_octets(bytes(101))
    feed("publish, 100 B and 101 B in turn", pair * (MESSAGES // 2), MESSAGES)
    two = one + publish_octets(bytes(100), routing_key="r")
    feed("publish, 100 B, to two addresses in turn", two * (MESSAGES // 2), MESSAGES)
    large = publish_octets(bytes(16_384))
    feed("publish, 16 KiB, like the one before", large * 2000, 2000)
    feed("publish, 100 B, no lane: 3 frames", one * 5000, 5000, has_lane=False)
    feed("publish, 100 B, in pieces of 1000 octets", one * 5000, 5000, piece=1000)


def bench_other_frames() -> None:
    feed("ack", ack_octets(1, MESSAGES), MESSAGES, "frame")
    nack = encode_method(1, commands.Basic.Nack, delivery_tag=1)
    feed("nack, which has no lane", nack * MESSAGES, MESSAGES, "frame")
    feed("heartbeat", HEARTBEAT_FRAME * MESSAGES, MESSAGES, "frame")


def feed(
    name: str,
    octets: bytes,
    count: int,
    unit: str = "message",
    *,
    is_plain: bool = True,
    has_lane: bool = True,
    piece: int = PIECE_BYTES,
) -> None:
    """Feed these octets, which hold ``count`` of what the name says."""
    decoder = Decoder(NullSink())
    decoder.frame_max = decoder.lane_body_max = 131_072
    lane = NullLane(is_plain=is_plain)
    for key in ("q", "r"):
        method = publish_octets(b"", routing_key=key)
        size = int.from_bytes(method[3:7], "big")
        lane.routes[method[7 : 7 + size]] = NullRoute()
    if has_lane:
        decoder.publish_lanes[1] = lane
    decoder.settle_lanes[1] = NullSettling()
    pieces = [octets[start : start + piece] for start in range(0, len(octets), piece)]

    def decode() -> None:
        for data in pieces:
            decoder.feed(data)

    measure(name, decode, count, unit)
    assert decoder.missing_bytes == 0


if __name__ == "__main__":
    main()
