"""Time that stands still within a turn, and a clock that tests move by hand."""

from __future__ import annotations

import time

import pytest

from hareline.clock import Clock, ManualClock


def test_a_new_clock_tells_the_time() -> None:
    before = time.time()
    clock = Clock()
    assert before * 1000 - 1 <= clock.now_ms <= time.time() * 1000
    assert clock.monotonic_s <= time.monotonic()


def test_time_moves_at_a_refresh_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.1239)
    monkeypatch.setattr(time, "monotonic", lambda: 50.5)
    clock = Clock()
    assert (clock.now_ms, clock.monotonic_s) == (1_700_000_000_123, 50.5)
    monkeypatch.setattr(time, "time", lambda: 1_700_000_001.0)
    monkeypatch.setattr(time, "monotonic", lambda: 51.25)
    assert (clock.now_ms, clock.monotonic_s) == (1_700_000_000_123, 50.5)
    clock.refresh()
    assert (clock.now_ms, clock.monotonic_s) == (1_700_000_001_000, 51.25)


def test_running_time_moves_within_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.monotonic_s + 0.25)
    assert clock.running_s() == clock.monotonic_s + 0.25


def test_messages_of_a_turn_share_one_int_object() -> None:
    clock = Clock()
    assert clock.now_ms is clock.now_ms


def test_a_manual_clock_moves_when_told_to() -> None:
    clock = ManualClock(now_ms=5000)
    assert (clock.now_ms, clock.monotonic_s) == (5000, 0.0)
    clock.refresh()
    clock.advance(1500)
    clock.refresh()
    assert (clock.now_ms, clock.monotonic_s) == (6500, 1.5)


def test_work_takes_no_time_on_a_manual_clock_but_what_a_test_says() -> None:
    clock = ManualClock()
    clock.advance(1000)
    assert (clock.running_s(), clock.running_s()) == (1.0, 1.0)
    clock.work_s = 0.5
    assert (clock.running_s(), clock.running_s()) == (1.5, 2.0)
    assert clock.monotonic_s == 1.0


def test_a_manual_clock_starts_at_an_instant_that_looks_like_one() -> None:
    assert ManualClock().now_ms == 1_700_000_000_000
