"""What building the frames costs that go out once per message.

python -m benchmarks.micro.bench_encoder [--json FILE] [--repetitions N]
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.micro.stand import USUAL_PROPERTIES, message
from benchmarks.micro.timing import finish, measure
from hareline.wire.encoder import (
    TAG_AND_FLAG,
    ack_frame,
    content_frames,
    deliver_prefix,
    deliver_suffix,
    get_ok_frame,
    nack_frame,
    return_frame,
    short_string,
)

FRAMES = 50_000
FRAME_MAX = 131_072
TAG = short_string("amq.ctag-0123456789abcdefghijkl")
ADDRESS = short_string("amq.topic") + short_string("stock.berlin.sold")


def main() -> None:
    small, large, huge = (message(bytes(size)) for size in (100, 16_384, 1 << 20))
    prefix, suffix = deliver_prefix(1, TAG, ADDRESS), deliver_suffix(ADDRESS)
    for name, frame in (
        ("ack", lambda: ack_frame(1, 123_456, True)),
        ("nack", lambda: nack_frame(1, 123_456, False)),
        ("get-ok", lambda: get_ok_frame(1, 123_456, False, ADDRESS, 1000)),
        ("return", lambda: return_frame(1, 312, "NO_ROUTE", ADDRESS)),
        ("deliver: prefix and suffix, once per address", _envelope),
        (
            "deliver: joined with 100 B as received",
            lambda: b"".join((prefix, TAG_AND_FLAG.pack(1, False), suffix, small.content)),
        ),
        ("content, 100 B, for another channel", lambda: content_frames(small, 2, FRAME_MAX)),
        ("content, 16 KiB, for another channel", lambda: content_frames(large, 2, FRAME_MAX)),
    ):
        repeat(name, frame)
    repeat("content, 16 KiB, in frames of 4 KiB", lambda: content_frames(large, 1, 4096), 5000)
    repeat("content, 1 MiB, in frames of 128 KiB", lambda: content_frames(huge, 1, FRAME_MAX), 200)
    repeat("other properties for 100 B", lambda: small.replace(properties=USUAL_PROPERTIES))
    finish()


def _envelope() -> tuple[bytes, bytes]:
    return deliver_prefix(1, TAG, ADDRESS), deliver_suffix(ADDRESS)


def repeat(name: str, function: Callable[[], object], times: int = FRAMES) -> None:
    def loop() -> None:
        for _ in range(times):
            function()

    measure(name, loop, times, "frame")


if __name__ == "__main__":
    main()
