"""What the broker and the reader process say comes out as it went in, however it was cut."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from hareline.ranges.messages import (
    BUILD,
    BUILT,
    END,
    SENT,
    Build,
    Built,
    Envelope,
    Inbox,
    decode_build,
    decode_built,
    encode,
    encode_build,
    encode_built,
)


@given(st.lists(st.integers(1, 40), max_size=40))
def test_messages_come_out_whole_wherever_they_were_cut(cuts: list[int]) -> None:
    said = [Envelope(SENT, 7, b""), Envelope(END, 1, b"octets"), Envelope(SENT, 2**32 - 1, b"")]
    octets = b"".join(encode(*each) for each in said)
    inbox = Inbox()
    heard = []
    for cut in [*cuts, len(octets)]:
        heard += list(inbox.feed(octets[:cut]))
        octets = octets[cut:]
    assert heard == said


def test_what_is_to_be_built_and_what_was() -> None:
    inbox = Inbox()
    build = Build(1 << 40, 4096, array("Q", [1 << 32 | 5, 1 << 61]))
    built = Built(3, 1 << 33, "größer: no such file")
    first, second = inbox.feed(encode_build(9, build) + encode_built(9, built))
    assert (first.kind, first.number, decode_build(first.payload)) == (BUILD, 9, build)
    assert (second.kind, second.number, decode_built(second.payload)) == (BUILT, 9, built)
