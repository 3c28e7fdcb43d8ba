"""The end-of-turn routine: what is marked is run once, in the written order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.turn import (
    DISPATCH_S,
    WORK_PER_SHARE,
    WORK_PER_TURN,
    Dispatching,
    Draining,
    Receiving,
    Turn,
)
from tests.support.turns import ManualTurn


class Work(Dispatching, Draining):
    """A queue and a connection in one; writes down when it is called."""

    def __init__(self, log: list[str], name: str, unfinished: int = 0) -> None:
        self._log = log
        self._name = name
        self._unfinished = unfinished

    def dispatch(self) -> bool:
        self._log.append(f"dispatch {self._name}")
        self._unfinished -= 1
        return self._unfinished >= 0

    def finish_turn(self) -> None:
        self._log.append(f"finish {self._name}")


def test_queues_dispatch_before_connections_write() -> None:
    log: list[str] = []
    turn = ManualTurn()
    turn.mark_connection(Work(log, "c1"))
    turn.mark_queue(Work(log, "q1"))
    turn.mark_connection(Work(log, "c2"))
    turn.mark_queue(Work(log, "q2"))
    turn.step()
    assert log == ["dispatch q1", "dispatch q2", "finish c1", "finish c2"]


def test_a_turn_is_scheduled_at_the_first_mark_alone() -> None:
    turn = ManualTurn()
    assert not turn.is_armed
    for _ in range(3):
        turn.mark_queue(Work([], "q"))
        turn.mark_connection(Work([], "c"))
    assert len(turn.scheduled) == 1


def test_what_is_marked_is_run_once() -> None:
    log: list[str] = []
    turn = ManualTurn()
    turn.mark_queue(Work(log, "q"))
    turn.mark_connection(Work(log, "c"))
    assert turn.run() == 1
    turn.mark_connection(Work(log, "later"))
    turn.run()
    assert log == ["dispatch q", "finish c", "finish later"]


def test_a_queue_cut_short_by_its_share_is_dispatched_again_in_the_next_turn() -> None:
    log: list[str] = []
    turn = ManualTurn()
    turn.mark_queue(Work(log, "long", unfinished=2))
    turn.mark_queue(Work(log, "short"))
    was_behind: list[bool] = []
    while turn.is_armed:
        turn.step()
        was_behind.append(turn.is_behind)
    assert was_behind == [True, True, False]
    assert log == ["dispatch long", "dispatch short", "dispatch long", "dispatch long"]


def test_deliveries_of_a_turn_are_written_in_the_same_turn() -> None:
    """A dispatch marks the connections that it delivers to."""
    log: list[str] = []
    turn = ManualTurn()
    connection = Work(log, "c")

    class Delivering(Work):
        def dispatch(self) -> bool:
            turn.mark_connection(connection)
            return super().dispatch()

    turn.mark_queue(Delivering(log, "q"))
    assert turn.run() == 1
    assert log == ["dispatch q", "finish c"]


def test_what_a_connection_marks_while_it_writes_waits_for_the_next_turn() -> None:
    """An output that is empty again makes its consumers ask for more; others come first."""
    log: list[str] = []
    turn = ManualTurn()

    class Resuming(Work):
        def finish_turn(self) -> None:
            super().finish_turn()
            turn.mark_queue(Work(log, "q"))

    turn.mark_connection(Resuming(log, "c1"))
    turn.mark_connection(Work(log, "c2"))
    turn.step()
    assert log == ["finish c1", "finish c2"]
    turn.step()
    assert log[2:] == ["dispatch q"]


def test_the_end_of_a_turn_is_told_after_everything_and_before_the_next_is_asked_for() -> None:
    log: list[str] = []
    turn = ManualTurn()
    turn.on_finished = lambda: log.append("behind" if turn.is_behind else "level")
    turn.mark_queue(Work(log, "q", unfinished=2))
    turn.mark_connection(Work(log, "c"))
    turn.run()
    assert log == [
        *("dispatch q", "finish c", "behind"),
        *("dispatch q", "behind"),
        *("dispatch q", "level"),
    ]


def test_a_turn_may_be_asked_for_with_nothing_marked() -> None:
    log: list[str] = []
    turn = ManualTurn()
    turn.on_finished = lambda: log.append("finished")
    turn.arm()
    turn.arm()
    assert turn.run() == 1
    assert log == ["finished"]


class Broken(Work):
    def dispatch(self) -> bool:
        raise ZeroDivisionError

    def finish_turn(self) -> None:
        raise ZeroDivisionError


def test_a_bug_in_one_dispatch_keeps_nobody_else_from_theirs() -> None:
    log: list[str] = []
    turn = ManualTurn()
    turn.mark_queue(Work(log, "q1", unfinished=1))
    turn.mark_queue(Broken(log, "broken"))
    turn.mark_queue(Work(log, "q2"))
    turn.mark_connection(Work(log, "c"))
    with pytest.raises(ZeroDivisionError):
        turn.step()
    turn.run()
    assert log == ["dispatch q1", "dispatch q2", "dispatch q1", "finish c"]


def test_a_bug_in_one_write_keeps_nobody_else_from_theirs() -> None:
    log: list[str] = []
    turn = ManualTurn()
    turn.mark_queue(Work(log, "q", unfinished=1))
    turn.mark_connection(Work(log, "c1"))
    turn.mark_connection(Broken(log, "broken"))
    turn.mark_connection(Work(log, "c2"))
    with pytest.raises(ZeroDivisionError):
        turn.step()
    turn.run()
    assert log == ["dispatch q", "finish c1", "dispatch q", "finish c2"]


def test_nobody_needs_to_be_told() -> None:
    turn = ManualTurn()
    turn.mark_queue(Work([], "q", unfinished=1))
    assert turn.run() == 2


def test_the_schedule_function_is_given_finish_itself() -> None:
    scheduled: list[object] = []
    turn = Turn(scheduled.append)
    turn.mark_queue(Work([], "q"))
    assert scheduled == [turn.finish]


class Asking(Work):
    """A connection that gives the store something while it writes, and marks nothing."""

    def __init__(self, log: list[str], turn: Turn) -> None:
        super().__init__(log, "asking")
        self._turn = turn

    def finish_turn(self) -> None:
        super().finish_turn()
        self._turn.arm()


def test_a_turn_that_is_asked_for_while_connections_write_comes() -> None:
    log: list[str] = []
    turn = ManualTurn()

    def write_pending() -> bool:
        log.append("write")
        return False

    turn.write_pending = write_pending
    turn.mark_connection(Asking(log, turn))
    assert turn.run() == 2
    assert log == ["write", "finish asking", "write"]


def test_a_turn_that_the_store_asks_for_while_it_writes_comes() -> None:
    """With nothing to write it may still have something to free, with the next batch."""
    log: list[str] = []
    turn = ManualTurn()

    def write_pending() -> bool:
        log.append("write")
        if len(log) < 3:
            turn.arm()
        return False

    turn.write_pending = write_pending
    turn.arm()
    assert turn.run() == 3
    assert log == ["write"] * 3


# -------------------------------------------------------------------------------- shares of a turn


class Receiver(Receiving):
    """Has this much work to do, and stops after a share."""

    def __init__(self, log: list[str], name: str, turn: Turn, work: int) -> None:
        self._log = log
        self._name = name
        self._turn = turn
        self._work = work

    def go_on(self) -> None:
        self._log.append(self._name)
        done = min(self._work, WORK_PER_SHARE)
        self._work -= done
        self._turn.work += done
        if self._work:
            self._turn.wait_in_line(self)


def test_receivers_go_on_in_the_order_in_which_they_came() -> None:
    log: list[str] = []
    turn = ManualTurn()
    for name, shares in (("a", 2), ("b", 1), ("c", 3)):
        turn.wait_in_line(Receiver(log, name, turn, shares * WORK_PER_SHARE))
    turn.run()
    assert log == ["a", "b", "c", "a", "c", "c"]


def test_a_turn_reads_no_more_than_its_work_allows() -> None:
    log: list[str] = []
    turn = ManualTurn()
    shares = WORK_PER_TURN // WORK_PER_SHARE
    for number in range(2 * shares + 1):
        turn.wait_in_line(Receiver(log, str(number), turn, WORK_PER_SHARE))
    turn.step()
    assert log == [str(number) for number in range(shares)]
    assert turn.work == 0, "the next turn starts anew"
    turn.step()
    turn.step()
    assert len(log) == 2 * shares + 1
    assert not turn.is_armed


def test_one_that_waits_goes_on_though_others_have_read_all_that_a_turn_may() -> None:
    log: list[str] = []
    turn = ManualTurn()
    for name in ("a", "b"):
        turn.wait_in_line(Receiver(log, name, turn, 1))
    turn.work = WORK_PER_TURN
    turn.step()
    assert log == ["a"]
    turn.step()
    assert log == ["a", "b"]


def test_what_receivers_mark_is_done_in_the_same_turn() -> None:
    log: list[str] = []
    turn = ManualTurn()

    class Marking(Receiver):
        def go_on(self) -> None:
            super().go_on()
            turn.mark_queue(Work(log, "q"))
            turn.mark_connection(Work(log, "c"))

    turn.wait_in_line(Marking(log, "a", turn, 1))
    assert turn.run() == 1
    assert log == ["a", "dispatch q", "finish c"]


def test_dispatches_end_when_their_time_is_up_and_the_others_come_first_next_time() -> None:
    log: list[str] = []
    now = [0.0]
    scheduled: list[Callable[[], None]] = []
    turn = Turn(scheduled.append, lambda: now[0])

    class Slow(Work):
        def dispatch(self) -> bool:
            now[0] += DISPATCH_S * 0.6
            return super().dispatch()

    for name in ("q1", "q2", "q3", "q4"):
        turn.mark_queue(Slow(log, name, unfinished=1))
    turn.mark_connection(Work(log, "c"))
    scheduled.pop()()
    assert log == ["dispatch q1", "dispatch q2", "finish c"]
    assert turn.is_behind
    scheduled.pop()()
    assert log[3:] == ["dispatch q3", "dispatch q4"]
    while scheduled:
        scheduled.pop()()
    assert sorted(log[5:]) == ["dispatch q1", "dispatch q2", "dispatch q3", "dispatch q4"]
    assert not turn.is_behind


def test_a_watch_is_told_how_long_each_turn_took() -> None:
    turn = ManualTurn()
    times = iter([1.0, 1.25, 1.25, 1.5])
    turn.now = lambda: next(times)
    told: list[float] = []
    turn.watch = told.append
    turn.mark_queue(Work([], "q"))
    turn.step()
    assert told == [0.5]


def test_turns_that_are_behind_are_counted_with_what_they_left() -> None:
    turn = ManualTurn()
    for name in ("q1", "q2"):
        turn.mark_queue(Work([], name, unfinished=1))
    turn.step()
    assert (turn.behind_count, turn.left_count, turn.store_behind_count) == (1, 2, 0)
    turn.step()
    assert (turn.behind_count, turn.left_count) == (1, 2)
    turn.write_pending = lambda: True
    turn.mark_queue(Work([], "q3"))
    turn.step()
    assert (turn.behind_count, turn.left_count, turn.store_behind_count) == (2, 2, 1)
