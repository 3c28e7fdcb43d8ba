"""Times of the event loop."""

from __future__ import annotations

import gc
import time

from hareline.net.loop_watch import LoopWatch
from tests.support.turns import ManualTurn
from tests.support.waiting import until


async def test_a_loop_that_is_kept_busy_is_late() -> None:
    watch = LoopWatch(ManualTurn())
    watch.start()
    watch._due_s = time.monotonic() - 0.25
    watch._tick()
    assert watch.lag.last_s >= 0.25
    watch.stop()


async def test_it_measures_from_start_to_stop() -> None:
    turn = ManualTurn()
    watch = LoopWatch(turn)
    assert turn.watch is None
    watch.start()
    try:
        turn.arm()
        turn.step()
        assert watch.turns.count == 1
        gc.collect()
        assert watch.collections.count >= 1
        await until(lambda: watch.lag.count > 0, "a tick")
    finally:
        watch.stop()
    counted = watch.collections.count
    gc.collect()
    assert (watch.collections.count, turn.watch) == (counted, None)
    watch.stop()


async def test_two_watches_do_not_stop_each_other() -> None:
    one, other = LoopWatch(ManualTurn()), LoopWatch(ManualTurn())
    one.start()
    other.start()
    one.stop()
    gc.collect()
    assert (one.collections.count, other.collections.count) == (0, 1)
    other.stop()
