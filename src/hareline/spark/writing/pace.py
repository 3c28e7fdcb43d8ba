"""The share of ``maxRate`` that one task has, and how long it has to wait to keep to it.

``task`` asks after each portion of rows. Invariant: no second has more rows than the share, but
for one portion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.spark.errors import InvalidOption

#: Portions of a second, so that waits are short and rows come evenly.
_PORTIONS: Final = 20


class Pace:
    """``rate`` rows a second from ``start`` on."""

    def __init__(self, rate: float, start: float) -> None:
        self._rate = rate
        self._start = start
        self._rows = 0
        #: How many rows to publish before the next question.
        self.portion = max(1, int(rate / _PORTIONS))

    def wait_after(self, rows: int, now: float) -> float:
        """Seconds to wait now that ``rows`` more were published; 0 if the task is behind."""
        due = self._start + (self._rows + rows) / self._rate
        self._rows += rows
        if now > due + 1:  # do not make up for what was lost longer than a second ago
            self._start, self._rows = now, 0
            return 0.0
        return max(0.0, due - now)


def share_of(rate: int, tasks: int | None, settings: Mapping[str, str], processors: int) -> float:
    """Rows a second for one of ``tasks`` tasks, or of as many as Spark runs at once.

    ``settings`` are those of Spark. Raises InvalidOption if they do not say how many.
    """
    if tasks is None:
        tasks = tasks_at_once(settings, processors)
    if tasks is None:
        raise InvalidOption(
            "maxRate is shared by all tasks that run at the same time, and this cluster's settings "
            "do not say how many: give maxRateTasks, the number of cores that the write may use"
        )
    return rate / tasks


def tasks_at_once(settings: Mapping[str, str], processors: int) -> int | None:
    """How many tasks Spark runs at the same time, None if its settings do not say."""
    master = settings.get("spark.master", "")
    if master == "local":
        return 1
    if master.startswith("local["):
        threads = master.removeprefix("local[").rstrip("]").partition(",")[0]
        return processors if threads == "*" else int(threads)
    if settings.get("spark.cores.max", "").isdecimal():
        return int(settings["spark.cores.max"])
    executors = settings.get("spark.executor.instances", "")
    cores = settings.get("spark.executor.cores", "1")
    if executors.isdecimal() and cores.isdecimal():
        return int(executors) * int(cores)
    return None
