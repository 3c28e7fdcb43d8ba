"""Who used how much of the processor while a scenario measured."""

from __future__ import annotations

import pytest

from benchmarks.macro import machine
from benchmarks.macro.scenario import Stopwatch

BROKER_PID = 1000
GENERATOR_PID = 2000


def test_the_generator_is_the_process_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {BROKER_PID: 10.0, GENERATOR_PID: 20.0}
    busy = [100.0]
    now = [5.0]
    monkeypatch.setattr(machine, "processor_seconds", used.__getitem__)
    monkeypatch.setattr(machine, "busy_seconds", lambda: busy[0])
    monkeypatch.setattr("benchmarks.macro.scenario.time.monotonic", lambda: now[0])
    watch = Stopwatch(BROKER_PID, GENERATOR_PID)
    used[BROKER_PID] += 1.0
    used[GENERATOR_PID] += 2.0
    busy[0] += 3.5
    now[0] += 2.0
    watch.stop()
    assert watch.elapsed_s == 2.0
    assert watch.cores == {"generator": 1.0, "broker": 0.5, "others": 0.25}


def test_a_process_that_is_gone_is_an_error_and_no_number() -> None:
    with pytest.raises(OSError, match="No such file"):
        Stopwatch(None, 2**22 + 1)  # above the largest process id that Linux gives
