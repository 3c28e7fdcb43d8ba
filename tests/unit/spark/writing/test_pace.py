"""The rate of a task, by a clock that the test turns."""

from __future__ import annotations

import pytest

from hareline.spark.errors import InvalidOption
from hareline.spark.writing.pace import Pace, share_of, tasks_at_once


def test_rows_come_evenly_at_the_rate() -> None:
    pace = Pace(1000, start=0.0)
    now = 0.0
    rows = 0
    while rows < 5000:
        now += pace.wait_after(pace.portion, now)
        rows += pace.portion
        assert rows <= 1000 * now + pace.portion
    assert now == pytest.approx(5.0)


def test_a_slow_rate_waits_row_by_row() -> None:
    pace = Pace(0.5, start=0.0)
    assert pace.portion == 1
    assert pace.wait_after(1, 0.0) == 2.0
    assert pace.wait_after(1, 2.0) == 2.0


def test_a_pause_is_not_made_up_for() -> None:
    pace = Pace(100, start=0.0)
    assert pace.wait_after(100, 60.0) == 0.0
    assert pace.wait_after(100, 60.0) == 1.0


def test_a_task_that_is_a_little_behind_does_not_wait() -> None:
    pace = Pace(100, start=0.0)
    assert pace.wait_after(100, 1.5) == 0.0
    assert pace.wait_after(100, 1.5) == 0.5


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[2,4]"}, 2),
        ({"spark.master": "local[*]"}, 8),
        ({"spark.master": "local[*,4]"}, 8),
        ({"spark.master": "spark://host", "spark.cores.max": "6"}, 6),
        ({"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ({"spark.executor.instances": "3"}, 3),
        ({"spark.master": "spark://host"}, None),
        ({}, None),
    ],
)
def test_tasks_at_once_are_read_from_the_settings(
    settings: dict[str, str], tasks: int | None
) -> None:
    assert tasks_at_once(settings, processors=8) == tasks


def test_the_rate_is_shared_by_the_tasks_that_run_at_once() -> None:
    assert share_of(1000, None, {"spark.master": "local[4]"}, 2) == 250
    assert share_of(1000, 10, {"spark.master": "local[4]"}, 2) == 100


def test_an_unknown_number_of_tasks_asks_for_the_option() -> None:
    with pytest.raises(InvalidOption, match="give maxRateTasks"):
        share_of(1000, None, {"spark.master": "spark://host"}, 2)
