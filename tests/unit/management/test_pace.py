"""Shares of the loop's time: one answer works at a time, and everything else gets its turn."""

from __future__ import annotations

import asyncio

import pytest

from hareline.management import pace
from hareline.management.pace import Pace


class SteppedTime:
    """A clock that moves by 1 s with each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "perf_counter", SteppedTime())


async def work(made: Pace, name: str, pauses: int, log: list[str]) -> None:
    async with made.share() as share:
        for _ in range(pauses):
            log.append(name)
            await share.pause()


@pytest.mark.usefixtures("stepped")
async def test_answers_take_turns_when_their_shares_are_used_up() -> None:
    log: list[str] = []
    made = Pace(share_s=0.5)  # each pause is one too late
    await asyncio.gather(work(made, "a", 3, log), work(made, "b", 3, log))
    assert log == ["a", "b", "a", "b", "a", "b"]


@pytest.mark.usefixtures("stepped")
async def test_other_callbacks_come_between_shares() -> None:
    log: list[str] = []
    made = Pace(share_s=0.5)
    working = asyncio.create_task(work(made, "a", 3, log))
    while not working.done():
        log.append("loop")
        await asyncio.sleep(0)
    assert log.count("a") == 3
    first, last = log.index("a"), len(log) - 1 - log[::-1].index("a")
    assert log[first : last + 1].count("loop") >= 2


@pytest.mark.usefixtures("stepped")
async def test_an_answer_within_its_share_is_not_interrupted() -> None:
    log: list[str] = []
    made = Pace(share_s=100.0)
    await asyncio.gather(work(made, "a", 3, log), work(made, "b", 3, log))
    assert log == ["a", "a", "a", "b", "b", "b"]


@pytest.mark.usefixtures("stepped")
async def test_an_answer_that_is_given_up_lets_the_next_one_work() -> None:
    log: list[str] = []
    made = Pace(share_s=0.5)
    first = asyncio.create_task(work(made, "a", 1_000, log))
    second = asyncio.create_task(work(made, "b", 3, log))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled()
    assert log.count("b") == 3


async def test_an_error_ends_the_share() -> None:
    made = Pace()
    with pytest.raises(ValueError, match="no"):
        async with made.share():
            raise ValueError("no")
    async with made.share() as share:
        await share.pause()
