"""Work in shares of time: everybody's turn comes, and every job comes to its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.clock import ManualClock
from hareline.later import ITEMS_PER_LOOK, SHARE_S, Job, Later, Loss, Shares
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn

STEP_S = SHARE_S / 8


class Steps(Job):
    """So many steps, each of which takes a part of a share."""

    def __init__(self, clock: ManualClock, steps: int) -> None:
        self.clock = clock
        self.left = steps
        self.shares: list[int] = []
        self.go_on: Callable[[], None] | None = None
        self.is_blocked = False

    def run(self, until_s: float) -> bool:
        before = self.left
        while self.left:
            self.left -= 1
            self.clock.monotonic_s += STEP_S
            if self.clock.monotonic_s >= until_s:
                break
        self.shares.append(before - self.left)
        return not self.left

    def waits(self, go_on: Callable[[], None]) -> bool:
        if self.is_blocked:
            self.go_on = go_on
        return self.is_blocked


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shares(turn: ManualTurn, clock: ManualClock) -> Shares:
    return Shares(turn, clock)


def run_turns(turn: ManualTurn) -> int:
    count = 0
    while turn.is_armed:
        turn.step()
        assert not turn.is_behind, "publishers are made to pause"
        count += 1
    return count


def test_little_is_done_at_once(shares: Shares, turn: ManualTurn, clock: ManualClock) -> None:
    job = Steps(clock, 7)
    assert shares.start(job, lambda: pytest.fail("it was told already"))
    assert job.shares == [7]
    assert not turn.is_armed


def test_much_takes_many_turns(shares: Shares, turn: ManualTurn, clock: ManualClock) -> None:
    job = Steps(clock, 30)
    done: list[int] = []
    assert not shares.start(job, lambda: done.append(job.left))
    assert job.shares == [8]
    assert run_turns(turn) == 3
    assert job.shares == [8, 8, 8, 6]
    assert done == [0]


def test_jobs_share_a_turn(shares: Shares, turn: ManualTurn, clock: ManualClock) -> None:
    jobs = [Steps(clock, 20) for _ in range(4)]
    for job in jobs:
        shares.add(job)
    assert run_turns(turn) == 10
    assert [job.shares for job in jobs] == [[2] * 10] * 4


def test_more_jobs_than_a_turn_has_time_for_all_come_to_their_end(
    shares: Shares, turn: ManualTurn, clock: ManualClock
) -> None:
    jobs = [Steps(clock, 3) for _ in range(100)]
    for job in jobs:
        shares.add(job)
    turn.step()
    assert [len(job.shares) for job in jobs] == [1] * 8 + [0] * 92, "all that there is time for"
    turn.step()
    assert [len(job.shares) for job in jobs] == [1] * 16 + [0] * 84
    run_turns(turn)
    assert [job.shares for job in jobs] == [[1] * 3] * 100


def test_a_job_that_fails_takes_no_other_along(
    shares: Shares, turn: ManualTurn, clock: ManualClock
) -> None:
    class Broken(Steps):
        def run(self, until_s: float) -> bool:
            raise ZeroDivisionError

    jobs = [Steps(clock, 20), Broken(clock, 1), Steps(clock, 20)]
    for job in jobs:
        shares.add(job)
    with pytest.raises(ZeroDivisionError):
        turn.step()
    run_turns(turn)
    assert jobs[0].left == jobs[2].left == 0


def test_a_job_that_waits_takes_no_turn(
    shares: Shares, turn: ManualTurn, clock: ManualClock
) -> None:
    job = Steps(clock, 20)
    job.is_blocked = True
    done: list[bool] = []
    assert not shares.start(job, lambda: done.append(True))
    assert not turn.is_armed
    assert job.go_on is not None
    job.is_blocked = False
    job.go_on()
    run_turns(turn)
    assert done == [True]


def test_all_that_is_left_is_done_when_the_broker_stops(
    shares: Shares, turn: ManualTurn, clock: ManualClock
) -> None:
    waiting, running = Steps(clock, 100), Steps(clock, 100)
    waiting.is_blocked = True
    done: list[Job] = []
    for job in (waiting, running):
        shares.start(job, lambda job=job: done.append(job))  # type: ignore[misc]
    shares.finish()
    assert not waiting.left
    assert not running.left
    assert len(done) == 2
    assert waiting.go_on is not None
    waiting.go_on()  # the store's callback comes all the same
    run_turns(turn)
    assert len(done) == 2


class TestItems:
    @pytest.mark.parametrize("slows_publishers", [False, True])
    def test_those_that_a_turn_has_no_time_for_come_in_the_next(
        self, turn: ManualTurn, slows_publishers: bool
    ) -> None:
        looks = iter(range(100))
        turn.now = lambda: float(next(looks))
        got: list[int] = []
        later = Later(turn, got.append, slows_publishers=slows_publishers)
        for number in range(ITEMS_PER_LOOK + 3):
            later.add(number)
        turn.step()
        assert got == list(range(ITEMS_PER_LOOK))
        assert turn.is_behind is slows_publishers
        turn.step()
        assert got == list(range(ITEMS_PER_LOOK + 3))
        assert not turn.is_behind
        assert not turn.is_armed

    @pytest.mark.parametrize("slows_publishers", [False, True])
    def test_a_bug_with_one_keeps_no_other_back(
        self, turn: ManualTurn, slows_publishers: bool
    ) -> None:
        got: list[float] = []
        later = Later[int](turn, lambda n: got.append(1 / n), slows_publishers=slows_publishers)
        for number in (1, 0, 2):
            later.add(number)
        with pytest.raises(ZeroDivisionError):
            turn.step()
        turn.run()
        assert got == [1.0, 0.5]


def test_losses_are_counted_and_reported_once_a_second() -> None:
    timers = ManualTimers()
    told: list[tuple[int, str]] = []
    loss = Loss(timers, lambda count, reason: told.append((count, reason)))
    loss.add("no room")
    loss.add("the store has failed")
    assert told == []
    timers.advance(1000)
    loss.add("no room")
    timers.advance(5000)
    assert told == [(2, "the store has failed"), (1, "no room")]
    assert loss.count == 3
