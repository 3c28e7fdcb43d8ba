"""Positions of readers in a stream: which pin is the lowest, and how long it counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.clock import ManualClock
from hareline.errors import PreconditionFailed
from hareline.queues.policies import reader_positions
from hareline.queues.policies.deadline_timer import NEVER
from hareline.queues.policies.reader_positions import (
    PIN_MS,
    ReaderPosition,
    ReaderPositions,
)


def put(
    positions: ReaderPositions, clock: ManualClock, name: str, offset: int, *, pin: bool = True
) -> None:
    positions.put(name, ReaderPosition(offset, pin, clock.now_ms))


def test_the_lowest_pin_counts_and_positions_without_one_do_not() -> None:
    clock = ManualClock()
    positions = ReaderPositions(clock)
    assert positions.pinned_offset == positions.pin_ends_ms == NEVER
    put(positions, clock, "free", 1, pin=False)
    assert positions.pinned_offset == NEVER
    put(positions, clock, "b", 20)
    put(positions, clock, "a", 10)
    assert positions.pinned_offset == 10
    put(positions, clock, "a", 30)
    assert positions.pinned_offset == 20
    assert positions.remove("b")
    assert positions.pinned_offset == 30
    put(positions, clock, "a", 30, pin=False)
    assert positions.pinned_offset == NEVER


def test_a_pin_that_is_not_renewed_ends_after_seven_days() -> None:
    clock = ManualClock()
    positions = ReaderPositions(clock)
    put(positions, clock, "old", 1)
    clock.advance(PIN_MS - 1)
    put(positions, clock, "new", 5)
    assert positions.pinned_offset == 1
    assert positions.pin_ends_ms == clock.now_ms + 1
    assert positions.counts(positions.positions["old"])
    clock.advance(1)
    assert positions.pinned_offset == 5
    assert not positions.counts(positions.positions["old"])
    put(positions, clock, "old", 2)
    assert positions.pinned_offset == 2
    clock.advance(PIN_MS)
    assert positions.pinned_offset == NEVER
    assert len(positions) == 2


def test_one_reader_too_many_is_refused_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_positions, "READERS_MAX", 2)
    clock = ManualClock()
    positions = ReaderPositions(clock)
    put(positions, clock, "a", 1)
    put(positions, clock, "b", 1)
    with pytest.raises(PreconditionFailed, match="there are 2 readers already; delete one"):
        put(positions, clock, "c", 1)
    put(positions, clock, "a", 2)
    assert positions.remove("b")
    assert not positions.remove("b")
    put(positions, clock, "c", 1)
    assert positions.positions.keys() == {"a", "c"}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "pin", "remove", "wait"]),
        st.sampled_from("abc"),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_readers_do_the_lowest_is_that_of_a_look_at_all(
    steps: list[tuple[str, str, int]],
) -> None:
    clock = ManualClock()
    positions = ReaderPositions(clock)
    for step, name, offset in steps:
        if step == "remove":
            positions.remove(name)
        elif step == "wait":
            clock.advance(offset * PIN_MS // 3)
        else:
            put(positions, clock, name, offset, pin=step == "pin")
        pinned = [
            (each.offset, each.put_ms + PIN_MS)
            for each in positions.positions.values()
            if each.is_pinned and clock.now_ms < each.put_ms + PIN_MS
        ]
        assert positions.pinned_offset == min(pinned, default=(NEVER, NEVER))[0]
        assert (positions.pin_ends_ms == NEVER) is (not pinned)
