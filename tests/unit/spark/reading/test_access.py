"""Sentences of both ways to ask, estimates, and repeats with growing pauses and an end."""

from __future__ import annotations

import time

import pytest

from hareline.spark.errors import BrokerUnreachable
from hareline.spark.reading import access
from hareline.spark.reading.access import Patience, StreamState


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


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock


def fail_often(patience: Patience) -> None:
    while True:
        patience.interrupted(ConnectionRefusedError("refused"))


def exhaust(patience: Patience) -> str:
    with pytest.raises(BrokerUnreachable) as given_up:
        fail_often(patience)
    return str(given_up.value)


def test_patience_lasts_for_the_retries_with_growing_pauses(clock: Clock) -> None:
    text = exhaust(Patience("http://h", "url", 10, 3))
    assert clock.now == pytest.approx(130)
    assert clock.pauses[0] <= 0.1
    assert max(clock.pauses) <= 2
    assert "http://h did not answer" in text
    assert "refused" in text


def test_without_retries_the_first_failure_is_the_last(clock: Clock) -> None:
    exhaust(Patience("http://h", "url", 10, 0))
    assert clock.pauses == []


def test_what_is_not_there_yet_is_waited_for_as_long(clock: Clock) -> None:
    patience = Patience("http://h", "url", 10, 3)
    while patience.pause():
        assert clock.now <= 130
    assert clock.now == pytest.approx(130)


def test_an_answer_renews_patience(clock: Clock) -> None:
    patience = Patience("http://h", "url", 10, 1)
    for _ in range(3):
        clock.now += 9
        patience.interrupted(TimeoutError())
        patience.reset()
    patience.interrupted(TimeoutError())
    clock.now += 20
    with pytest.raises(BrokerUnreachable, match="in 2 attempts: TimeoutError"):
        patience.interrupted(TimeoutError())


def test_useless_answers_are_counted(clock: Clock) -> None:
    patience = Patience("http://h", "url", 10, 2)
    assert [patience.may_repeat() for _ in range(3)] == [True, True, False]
