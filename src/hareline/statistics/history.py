"""History of one object's numbers: a row for each sample that differs from the one before it.

A ``Series`` has a level for each step of its retention: new rows go to the first, older ones move
to the next, where the last row of each step remains. An idle object keeps a single row. ``at`` is
exact for times within the first level, and within a step for older ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple


class Level(NamedTuple):
    """Rows of the last ``span_s`` seconds, one for each ``step_s`` of them at most."""

    span_s: int
    step_s: int


Retention = tuple[Level, ...]

#: RabbitMQ's sample_retention_policies: of the whole broker, and of single objects.
GLOBAL: Final[Retention] = (
    Level(605, 5),
    Level(3_660, 60),
    Level(29_400, 600),
    Level(86_400, 1_800),
)
BASIC: Final[Retention] = (Level(605, 5), Level(3_600, 60))

#: How long a row may stay above its time: rows are moved some at a time.
TRIM_SLACK_MS: Final = 60_000
NEVER: Final = 1 << 62


class Series:
    """``last``: the values of the newest row. ``trim_ms``: when ``trim`` has something to do.

    ``mark`` is the sampler's, of the object when it was last seen to change, at ``changed_ms``.
    """

    __slots__ = ("_levels", "_retention", "changed_ms", "last", "mark", "trim_ms")

    def __init__(self, retention: Retention, width: int) -> None:
        self._retention = retention
        self._levels: list[array[int]] = [array("q")]
        self.last: tuple[int, ...] = (0,) * width
        self.mark = -1
        self.changed_ms = 0
        self.trim_ms = NEVER

    def append(self, now_ms: int, values: tuple[int, ...]) -> None:
        """Add a row; times only grow."""
        self.last = values
        self._levels[0].extend((now_ms, *values))
        if self.trim_ms == NEVER:
            self.trim_ms = now_ms + self._retention[0].span_s * 1000 + TRIM_SLACK_MS

    def at(self, time_ms: int) -> tuple[int, ...] | None:
        """The values at this time; None before the first row."""
        width = len(self.last) + 1
        for rows in self._levels:
            index = _rows_up_to(rows, width, time_ms)
            if index:
                return tuple(rows[(index - 1) * width + 1 : index * width])
        return None

    def value_at(self, time_ms: int, column: int) -> int | None:
        """One of the values at this time; None before the first row."""
        width = len(self.last) + 1
        for rows in self._levels:
            index = _rows_up_to(rows, width, time_ms)
            if index:
                return rows[(index - 1) * width + 1 + column]
        return None

    def reached_ms(self, column: int, value: int) -> int | None:
        """The time of the first row in which a number that only grows is ``value`` or more."""
        width = len(self.last) + 1
        for rows in reversed(self._levels):
            if rows and rows[column + 1 - width] >= value:
                row = bisect_left(
                    range(len(rows) // width), value, key=lambda row: rows[row * width + column + 1]
                )
                return rows[row * width]
        return None

    @property
    def newest_ms(self) -> int:
        """The time of the newest row."""
        width = len(self.last) + 1
        for rows in self._levels:
            if rows:
                return rows[-width]
        return -NEVER

    def trim(self, now_ms: int) -> None:
        """Move rows that are too old to the next level; the last one drops them."""
        width = len(self.last) + 1
        levels, retention = self._levels, self._retention
        due_ms = NEVER
        for number, level in enumerate(retention):
            if number == len(levels):
                break
            rows = levels[number]
            span_ms = level.span_s * 1000
            count = _rows_up_to(rows, width, now_ms - span_ms - 1)
            if count and number + 1 < len(retention):
                if number + 1 == len(levels):
                    levels.append(array("q"))
                _fold(levels[number + 1], rows[: count * width], width, retention[number + 1])
                rows = levels[number] = rows[count * width :]  # in as much memory as it needs
            elif count > 1:  # one row says what the values were when the span began
                rows = levels[number] = rows[(count - 1) * width :]
            is_last_row = number + 1 == len(retention) and len(rows) == width
            if rows and not is_last_row:
                due_ms = min(due_ms, rows[0] + span_ms + TRIM_SLACK_MS)
        self.trim_ms = max(due_ms, now_ms + 1) if due_ms != NEVER else NEVER


def _fold(rows: array[int], older: array[int], width: int, level: Level) -> None:
    """Add ``older`` behind ``rows``: of each step only the last."""
    step_ms = level.step_s * 1000
    for start in range(0, len(older), width):
        if rows and rows[-width] // step_ms == older[start] // step_ms:
            del rows[-width:]
        rows.extend(older[start : start + width])


def _rows_up_to(rows: array[int], width: int, time_ms: int) -> int:
    """Number of rows up to this time."""
    if not rows or rows[0] > time_ms:
        return 0
    if rows[-width] <= time_ms:
        return len(rows) // width
    return bisect_right(range(len(rows) // width), time_ms, key=lambda row: rows[row * width])
