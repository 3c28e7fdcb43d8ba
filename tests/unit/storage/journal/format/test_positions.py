"""A position is a segment and an offset; a file's name is a segment's number."""

from __future__ import annotations

from hareline.storage.journal.format.positions import (
    SEGMENT_NUMBER_MAX,
    number_of_name,
    offset_of,
    position_of,
    segment_name,
    segment_of,
)


def test_positions_grow_with_segments_and_offsets() -> None:
    assert position_of(2, 0) > position_of(1, (1 << 32) - 1) > position_of(1, 0) > 0
    assert (segment_of(position_of(5, 77)), offset_of(position_of(5, 77))) == (5, 77)
    assert position_of(SEGMENT_NUMBER_MAX, (1 << 32) - 1) < 1 << 62


def test_names_of_segments() -> None:
    assert segment_name(0xAB) == "00000000000000ab.log"
    assert number_of_name("00000000000000ab.log") == 0xAB
    for name in ("ab.log", "00000000000000AB.log", "00000000000000ab", "00000000000000ab.log.gz"):
        assert number_of_name(name) is None
