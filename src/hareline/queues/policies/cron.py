"""Cron expressions: five fields as in crontab(5), in UTC.

Minute, hour, day of month, month, day of week; each ``*``, a number, a range, a list of these, with
a step behind ``*`` or a range. Months and days of the week may be names; 7 is Sunday too. If both
days are restricted, either is enough; a day field that begins with ``*`` does not restrict.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

TEXT_MAX: Final = 256
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_MS_PER_MINUTE: Final = 60_000
_MONTHS_AHEAD: Final = 480  # every date there is comes within 40 years, leap days included
_MONTHS: Final = ("jan feb mar apr may jun jul aug sep oct nov dec", 1)
_DAYS: Final = ("sun mon tue wed thu fri sat", 0)
_FIELDS: Final = (
    ("minute", 0, 59, ("", 0)),
    ("hour", 0, 23, ("", 0)),
    ("day of month", 1, 31, ("", 0)),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)


class InvalidCron(ValueError):
    """Raised for a text that is no cron expression; says which part is wrong."""


class Cron:
    """A cron expression. Raises InvalidCron.

    ``text``: as it was given.
    """

    __slots__ = ("_days", "_hours", "_minutes", "_months", "_needs_both", "_weekdays", "text")

    def __init__(self, text: str) -> None:
        if len(text) > TEXT_MAX:
            raise InvalidCron(f"more than {TEXT_MAX} characters")
        fields = text.split()
        if len(fields) != len(_FIELDS):
            raise InvalidCron(f"{len(fields)} fields instead of {len(_FIELDS)}")
        self.text = text
        minutes, hours, days, months, weekdays = (
            _values(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True)
        )
        self._minutes, self._hours = sorted(minutes), sorted(hours)
        self._days, self._months = days, months
        self._weekdays = {day % 7 for day in weekdays}
        self._needs_both = fields[2].startswith("*") or fields[4].startswith("*")
        if self.next_ms(0) is None:
            raise InvalidCron("no such day in any month")

    def next_ms(self, after_ms: int) -> int | None:
        """The first time after an instant, both in epoch milliseconds; None: not before 10000."""
        try:
            start = _EPOCH + timedelta(minutes=after_ms // _MS_PER_MINUTE + 1)
        except OverflowError:
            return None
        year, month, first_day = start.year, start.month, start.day
        earliest = (start.hour, start.minute)
        for _ in range(_MONTHS_AHEAD):
            if month in self._months:
                weekday, length = monthrange(year, month)  # of the first day, Monday is 0
                for day in range(first_day, length + 1):
                    if self._has_day(day, (weekday + day) % 7):
                        time = self._first_time(earliest)
                        if time is not None:
                            return (datetime(year, month, day, *time, tzinfo=UTC) - _EPOCH) // _MS
                    earliest = (0, 0)
            first_day, earliest = 1, (0, 0)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            if year > MAXYEAR:
                return None
        return None

    def _has_day(self, day: int, weekday: int) -> bool:
        is_day, is_weekday = day in self._days, weekday in self._weekdays
        return is_day and is_weekday if self._needs_both else is_day or is_weekday

    def _first_time(self, earliest: tuple[int, int]) -> tuple[int, int] | None:
        for hour in self._hours:
            if hour >= earliest[0]:
                for minute in self._minutes:
                    if (hour, minute) >= earliest:
                        return hour, minute
        return None


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> Cron:
    """The expression, shared by all that have the same text. Raises InvalidCron."""
    return Cron(text)


def _values(field: str, name: str, low: int, high: int, words: tuple[str, int]) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            numbers = (low, high)
        else:
            numbers = (_number(first, words), _number(last if dash else first, words))
        every = _number(step, ("", 0)) if slash else 1
        if (
            not low <= numbers[0] <= numbers[1] <= high
            or every < 1
            or (slash and not dash and span != "*")
        ):
            raise InvalidCron(f"'{part[:40]}' is not a {name}")
        found.update(range(numbers[0], numbers[1] + 1, every))
    return found


def _number(text: str, words: tuple[str, int]) -> int:
    """The number that a text means; -1 for any other text. ``words``: names, and the first's."""
    names = words[0].split()
    if text.lower() in names:
        return names.index(text.lower()) + words[1]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else -1
