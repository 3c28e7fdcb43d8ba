"""One timer, set to the next instant."""

from __future__ import annotations

import pytest

from hareline.queues.policies.deadline_timer import LOOK_AGAIN_MS, NEVER, DeadlineTimer
from tests.support.timed_queue import TimedQueue


def make_timer(place: TimedQueue) -> tuple[DeadlineTimer, list[int]]:
    rings: list[int] = []
    return DeadlineTimer(place.environment, lambda: rings.append(place.now_ms)), rings


def test_it_rings_once_at_its_instant(place: TimedQueue) -> None:
    timer, rings = make_timer(place)
    due_ms = place.now_ms + 500
    timer.set(due_ms)
    assert timer.at_ms == due_ms
    place.pass_time(499)
    assert rings == []
    place.pass_time(60_000)
    assert rings == [due_ms]
    assert timer.at_ms == NEVER


def test_an_instant_that_has_passed_rings_at_once(place: TimedQueue) -> None:
    timer, rings = make_timer(place)
    timer.set(place.now_ms - 5_000)
    assert rings == []
    place.pass_time(0)
    assert rings == [place.now_ms]


@pytest.mark.parametrize("later_ms", [LOOK_AGAIN_MS + 1, 10**12, NEVER])
def test_it_does_not_wait_for_a_far_instant(place: TimedQueue, later_ms: int) -> None:
    timer, rings = make_timer(place)
    timer.set(place.now_ms + later_ms)
    place.pass_time(LOOK_AGAIN_MS - 1)
    assert rings == []
    place.pass_time(1)
    assert rings == [place.now_ms]


def test_a_new_instant_takes_the_place_of_the_old_one(place: TimedQueue) -> None:
    timer, rings = make_timer(place)
    timer.set(place.now_ms + 100)
    timer.set(place.now_ms + 50)
    timer.set(place.now_ms + 200)
    assert len(place.timers.pending) == 1
    place.pass_time(199)
    assert rings == []
    place.pass_time(1)
    assert len(rings) == 1


def test_a_cancelled_timer_is_silent_and_may_be_set_again(place: TimedQueue) -> None:
    timer, rings = make_timer(place)
    timer.cancel()
    timer.set(place.now_ms + 100)
    timer.cancel()
    assert timer.at_ms == NEVER
    assert place.timers.pending == []
    place.pass_time(LOOK_AGAIN_MS)
    assert rings == []
    timer.set(place.now_ms + 1)
    place.pass_time(1)
    assert len(rings) == 1


def test_it_may_be_set_again_while_it_rings(place: TimedQueue) -> None:
    rings: list[int] = []

    def ring() -> None:
        rings.append(place.now_ms)
        if len(rings) < 3:
            timer.set(place.now_ms + 10)

    timer = DeadlineTimer(place.environment, ring)
    start_ms = place.now_ms
    timer.set(start_ms + 10)
    place.pass_time(100)
    assert rings == [start_ms + 10, start_ms + 20, start_ms + 30]
