"""What both ways to ask the broker say, and what follows from the state of a stream."""

from __future__ import annotations

import pytest

from hareline.spark.reading import access
from hareline.spark.reading.access import StreamState


def test_octets_are_estimated_by_the_mean() -> None:
    assert StreamState("q", "i", 10, 20, 500).octets_of(3) == 150
    assert StreamState("q", "i", 10, 10, 0).octets_of(3) == 0
    assert StreamState("q", "", 0, 0, 0, is_end_known=False).octets_of(3) == 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (access.gone_text("q", 2, 6), ("messages 2 to 5 were dropped", "failOnDataLoss=false")),
        (access.lost_text("q", 10, 6), ("up to 9 were promised", "ends before 6")),
        (access.too_large_text("q", 7, 30, 20), ("message 7", "30 octets", "startingOffsets")),
        (access.no_right_text("u", "q", "/", "no"), ("user 'u'", "in virtual host '/'", "read")),
        (access.not_a_stream_text("q", "is classic"), ("is classic; declare it with",)),
    ],
)
def test_sentences_name_what_and_say_what_to_do(text: str, parts: tuple[str, ...]) -> None:
    assert "'q'" in text
    assert all(part in text for part in parts)


def test_the_way_out_is_named_once() -> None:
    text = access.not_a_stream_text("q", "declare it with x-archive-to")
    assert text.count("x-archive-to") == 1
