"""A recovery beside the event loop: its shares of time, and who is told of its progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator

import pytest

from hareline.server import recovery
from hareline.server.recovery import PROGRESS_MIN_WORK, RecoveryLog, in_shares


class Steps:
    """Steps of a recovery that count themselves."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.done = 0
        self.has_ended = False

    def run(self) -> Generator[None, None, None]:
        try:
            for _ in range(self._count):
                self.done += 1
                yield
        finally:
            self.has_ended = True


async def test_all_steps_are_taken() -> None:
    steps = Steps(1000)
    await in_shares(steps.run())
    assert (steps.done, steps.has_ended) == (1000, True)


async def test_the_event_loop_gets_a_turn_after_each_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "RECOVERY_SHARE_S", 0.0)
    steps = Steps(100)
    seen: list[int] = []
    running = asyncio.ensure_future(in_shares(steps.run()))
    while not running.done():
        await asyncio.sleep(0)
        seen.append(steps.done)
    assert len(set(seen)) == 100


async def test_a_recovery_that_is_cancelled_ends_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery, "RECOVERY_SHARE_S", 0.0)
    steps = Steps(1_000_000)
    running = asyncio.ensure_future(in_shares(steps.run()))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert steps.has_ended
    assert steps.done < 1_000_000


def test_progress_is_shown_where_it_can_be(caplog: pytest.LogCaptureFixture) -> None:
    shown: list[tuple[int, int]] = []
    log = RecoveryLog(lambda done, all_work: shown.append((done, all_work)))
    with caplog.at_level(logging.DEBUG, "hareline"):
        log.on_progress(1, PROGRESS_MIN_WORK)
    assert shown == [(1, PROGRESS_MIN_WORK)]
    assert caplog.messages == []


def test_progress_is_logged_at_each_tenth_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    log = RecoveryLog(None)
    with caplog.at_level(logging.DEBUG, "hareline"):
        for percent in (1, 9, 10, 11, 19, 35, 36, 100, 100):
            log.on_progress(PROGRESS_MIN_WORK * percent, PROGRESS_MIN_WORK * 100)
    assert caplog.messages == [
        "recovery: 10 %",
        "recovery: 30 %",
        "recovery: 100 %",
    ]


def test_a_small_recovery_shows_and_logs_no_progress(caplog: pytest.LogCaptureFixture) -> None:
    shown: list[tuple[int, int]] = []
    with caplog.at_level(logging.DEBUG, "hareline"):
        for log in (RecoveryLog(lambda *work: shown.append(work)), RecoveryLog(None)):
            log.on_progress(PROGRESS_MIN_WORK - 1, PROGRESS_MIN_WORK - 1)
    assert (shown, caplog.messages) == ([], [])


def test_damage_and_what_cannot_be_restored_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = RecoveryLog(None)
    with caplog.at_level(logging.DEBUG, "hareline"):
        log.on_damage("a checksum is wrong", "skipped")
        log.on_impossible("/", "queue 'q'", "unknown argument")
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("ERROR", "journal damaged: a checksum is wrong"),
        ("WARNING", "not restored: queue 'q': unknown argument"),
    ]
