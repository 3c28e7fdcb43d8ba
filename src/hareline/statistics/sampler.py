"""The one sampler of a broker: histories of its objects' numbers, and their rates.

``net.sampling`` runs ``sample`` at each interval, a share at a time. ``Source`` objects name the
objects. A tick looks at a ``mark`` of each object, one integer that differs when anything of it has
changed, and stores numbers only then; after it the sums are those of all newest rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from hareline.clock import Clock
from hareline.statistics.history import Retention, Series
from hareline.statistics.windows import Window

Key = tuple[str, ...]

#: Of ``message_stats``: counters that are shown together.
STATS_GROUPS: Final = (
    ("publish", "confirm", "return_unroutable", "drop_unroutable"),
    ("publish_in", "publish_out"),
    (
        *("deliver", "deliver_no_ack", "deliver_get", "get", "get_no_ack", "get_empty"),
        *("ack", "redeliver"),
    ),
    ("disk_reads", "disk_writes"),
)

#: How long a share of a tick may take, and how many objects are visited between looks at the clock.
SHARE_S: Final = 0.002
OBJECTS_PER_LOOK: Final = 64

#: A wall clock that differs by more than this from what it was, beside the monotonic one, was set.
STEP_MS: Final = 1000


class Source(ABC):
    """One kind of objects. ``names``: of their numbers, in the order of ``values``."""

    kind: str
    names: tuple[str, ...]
    retention: Retention

    @abstractmethod
    def visit(self) -> Iterable[tuple[Key, str, int, Any]]:
        """Of each object its key, the group it is summed up in, its mark, and the object."""

    @abstractmethod
    def values(self, key: Key, found: Any) -> tuple[int, ...]:
        """The numbers of an object that ``visit`` has yielded."""

    @abstractmethod
    def take_ended(self) -> Iterable[tuple[Key, str]]:
        """Keys and groups of the objects that have ended since the last call."""


class SumSource(ABC):
    """Numbers that are worked out once a tick, from the sums or from the process."""

    kind: str
    names: tuple[str, ...]
    retention: Retention

    @abstractmethod
    def rows(self, sums: Sums) -> Iterable[tuple[Key, tuple[int, ...]]]:
        """Key and values of each object."""


class Sums:
    """Sums of the newest rows: of all objects of a kind, and of each group of them."""

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[tuple[str, str | None], list[int]] = {}

    def of(self, kind: str, group: str | None = None) -> tuple[int, ...]:
        """The sums over one group of objects, or all of this kind; () if there never was one."""
        return tuple(self._by_group.get((kind, group), ()))

    def move(self, kind: str, group: str, before: tuple[int, ...], values: tuple[int, ...]) -> None:
        """An object had the values ``before``, and has these now."""
        for key in ((kind, group), (kind, None)):
            sums = self._by_group.get(key)
            if sums is None:
                sums = self._by_group[key] = [0] * len(values)
            for column, value in enumerate(values):
                sums[column] += value - before[column]


class Sampler:
    """Rates and histories of everything that the sources name.

    ``sources`` has those of objects by their kinds, ``sums`` the sums over these. Rows have the
    times of the monotonic clock, because the wall clock may be set back; what is returned has those
    of the wall clock as it is set now.
    """

    def __init__(
        self,
        clock: Clock,
        sources: Iterable[Source],
        sum_sources: Iterable[SumSource] = (),
    ) -> None:
        self._clock = clock
        self._sources = list(sources)
        self._sum_sources = list(sum_sources)
        self.sources: dict[str, Source] = {source.kind: source for source in self._sources}
        self._series: dict[str, dict[Key, Series]] = {}
        self._columns: dict[str, dict[str, int]] = {}
        named = [(source.kind, source.names) for source in self._sources]
        named += [(source.kind, source.names) for source in self._sum_sources]
        for kind, names in named:
            self._series[kind] = {}
            self._columns[kind] = {name: at for at, name in enumerate(names)}
        self.sums = Sums()
        self._ticks_ms: deque[int] = deque(maxlen=2)  # of the newest tick, and the one before
        self._now_ms = 0  # on the monotonic clock, as all times in here
        self._wall_ms = 0  # to be added to what is returned

    # ------------------------------------------------------------------------ sampling

    def sample(self) -> Iterator[None]:
        """Take one sample of everything; yields after each share of its work."""
        self._clock.refresh()
        self._now_ms = now_ms = round(self._clock.monotonic_s * 1000)
        if abs(self._clock.now_ms - now_ms - self._wall_ms) > STEP_MS:
            self._wall_ms = self._clock.now_ms - now_ms
        for source in self._sources:
            yield from self._visit_all(source)
        self._finish()

    def _visit_all(self, source: Source) -> Iterator[None]:
        clock = self._clock
        visited = iter(source.visit())
        end_s = clock.running_s() + SHARE_S
        while objects := list(islice(visited, OBJECTS_PER_LOOK)):
            self._visit(source, objects)
            if clock.running_s() >= end_s:
                yield
                end_s = clock.running_s() + SHARE_S

    def _visit(self, source: Source, objects: list[tuple[Key, str, int, Any]]) -> None:
        series_of = self._series[source.kind]
        now_ms = self._now_ms
        for key, group, mark, found in objects:
            series = series_of.get(key)
            if series is None:
                if not mark:
                    continue  # it has done nothing yet
                series = series_of[key] = Series(source.retention, len(source.names))
            if series.mark != mark:
                series.mark = mark
                series.changed_ms = now_ms
                self._take(source.kind, group, series, source.values(key, found))
            if series.trim_ms <= now_ms:
                series.trim(now_ms)

    def _take(self, kind: str, group: str, series: Series, values: tuple[int, ...]) -> None:
        before = series.last
        if values != before:
            self.sums.move(kind, group, before, values)
            series.append(self._now_ms, values)

    def _finish(self) -> None:
        """Forget what has ended, and work out the sums, in one go: they belong together."""
        for source in self._sources:
            series_of = self._series[source.kind]
            for key, group in source.take_ended():
                series = series_of.pop(key, None)
                if series is not None:
                    self.sums.move(source.kind, group, series.last, (0,) * len(series.last))
        now_ms = self._now_ms
        for summing in self._sum_sources:
            before = self._series[summing.kind]
            series_of = self._series[summing.kind] = {}
            for key, values in summing.rows(self.sums):
                series = before.get(key)
                if series is None:
                    series = Series(summing.retention, len(values))
                series_of[key] = series
                if values != series.last:
                    series.append(now_ms, values)
                if series.trim_ms <= now_ms:
                    series.trim(now_ms)
        self._ticks_ms.append(now_ms)

    # ------------------------------------------------------------------------- reading

    def rate(self, kind: str, key: Key, name: str) -> float:
        """Per second, between the last two samples; 0.0 where nothing is known."""
        found = self._find(kind, key, name)
        if found is None or len(self._ticks_ms) < 2:
            return 0.0
        return self._rate(*found)

    def rates(self, kind: str, key: Key) -> Mapping[str, float]:
        """The rates of all numbers of an object; {} if none has changed between the last samples.

        For lists, which show them all: the series is looked up once.
        """
        series = self._series.get(kind, {}).get(key)
        if series is None or len(self._ticks_ms) < 2:
            return {}
        before_ms, now_ms = self._ticks_ms
        if series.newest_ms <= before_ms or now_ms <= before_ms:
            return {}
        last = series.last
        before = series.at(before_ms) or (0,) * len(last)
        span_ms = now_ms - before_ms
        return {
            name: round((last[column] - before[column]) * 1000 / span_ms, 3)
            for name, column in self._columns[kind].items()
        }

    def _rate(self, series: Series, column: int) -> float:
        if len(self._ticks_ms) < 2:
            return 0.0
        before_ms, now_ms = self._ticks_ms
        if series.newest_ms <= before_ms or now_ms <= before_ms:
            return 0.0
        before = series.value_at(before_ms, column) or 0
        return round((series.last[column] - before) * 1000 / (now_ms - before_ms), 3)

    def latest(self, kind: str, key: Key) -> dict[str, int]:
        """The numbers of the newest sample; {} where nothing is known."""
        series = self._series.get(kind, {}).get(key)
        if series is None:
            return {}
        return dict(zip(self._columns[kind], series.last, strict=True))

    def changed_ms(self, kind: str, key: Key) -> int | None:
        """Time at which the object was last seen to change; None if not known."""
        series = self._series.get(kind, {}).get(key)
        return None if series is None else series.changed_ms + self._wall_ms

    def reached_ms(self, kind: str, key: Key, name: str, value: int) -> int | None:
        """Time at which a counter was first seen at ``value`` or more; None if not known."""
        found = self._find(kind, key, name)
        reached_ms = None if found is None else found[0].reached_ms(found[1], value)
        return None if reached_ms is None else reached_ms + self._wall_ms

    def details(
        self, kind: str, key: Key, name: str, window: Window | None = None
    ) -> dict[str, object]:
        """RabbitMQ's ``*_details`` of a number.

        ``{"rate": 1.2}``, and with a window ``samples`` (newest first), ``avg`` and ``avg_rate``.
        """
        found = self._find(kind, key, name)
        details: dict[str, object] = {"rate": 0.0 if found is None else self._rate(*found)}
        if window is not None:
            details |= self._samples(found, window)
        return details

    def _find(self, kind: str, key: Key, name: str) -> tuple[Series, int] | None:
        series = self._series.get(kind, {}).get(key)
        if series is None:
            return None
        column = self._columns[kind].get(name)
        return None if column is None else (series, column)

    def _samples(self, found: tuple[Series, int] | None, window: Window) -> dict[str, object]:
        """Samples at whole steps of time, the newest first; 0 before anything was counted."""
        step_ms = window.increment_s * 1000
        wall_ms = self._wall_ms
        last_ms = (self._ticks_ms[-1] + wall_ms if self._ticks_ms else 0) // step_ms * step_ms
        times = range(last_ms, last_ms - window.age_s * 1000 - 1, -step_ms)
        if found is None:
            numbers = [0] * len(times)
        else:
            series, column = found
            numbers = [series.value_at(time_ms - wall_ms, column) or 0 for time_ms in times]
        span_ms = times[0] - times[-1]
        rate = (numbers[0] - numbers[-1]) * 1000 / span_ms if span_ms else 0.0
        return {
            "samples": [
                {"sample": number, "timestamp": time_ms}
                for number, time_ms in zip(numbers, times, strict=True)
            ],
            "avg_rate": rate,
            "avg": sum(numbers) / len(numbers),
        }


def message_stats(
    sampler: Sampler | None,
    kind: str,
    key: Key,
    counts: Mapping[str, int],
    window: Window | None = None,
) -> dict[str, object]:
    """Counters with their ``*_details`` in RabbitMQ's shape; {} where nothing was counted.

    As there, a group of counters is shown as soon as one of them has counted anything.
    """
    shown: dict[str, int] = {}
    for group in STATS_GROUPS:
        numbers = {name: counts[name] for name in group if name in counts}
        if any(numbers.values()):
            shown |= numbers
    return with_details(sampler, kind, key, shown, window)


def with_details(
    sampler: Sampler | None,
    kind: str,
    key: Key,
    numbers: Mapping[str, int],
    window: Window | None = None,
) -> dict[str, object]:
    """Numbers with their ``*_details``; of depths too, which may all be 0."""
    shown: dict[str, object] = {}
    if sampler is not None and window is not None:
        for name, value in numbers.items():
            shown[name] = value
            shown[f"{name}_details"] = sampler.details(kind, key, name, window)
        return shown
    rates: Mapping[str, float] = {} if sampler is None else sampler.rates(kind, key)
    for name, value in numbers.items():
        shown[name] = value
        shown[f"{name}_details"] = {"rate": rates.get(name, 0.0)}
    return shown
