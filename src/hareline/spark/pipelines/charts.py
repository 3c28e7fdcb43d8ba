"""Charts as inline SVG: lines over time, spans on an axis of powers of ten, and stacked bars.

Used by the page of a report, whose style sheet has the colours: a chart names classes only, so it
fits light and dark. Each chart is drawn for a width in pixels; the page has each of them twice, for
screens and for phones, since a picture that shrinks has letters that cannot be read.

Invariant: all text of users is escaped, and nothing refers outside the page.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDE: Final = 900
NARROW: Final = 380

_LEFT: Final = 64  # of labels on the axis
_RIGHT: Final = 14
_TOP: Final = 10
_BOTTOM: Final = 26
_HEIGHT: Final = 230
_ROW_HEIGHT: Final = 40
_LETTER: Final = 6.8  # of the width of a letter, on average
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000),
)
_DAY_S: Final = 86_400

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Line:
    """Values for each point in time, None where there is none; ``style``: a class of colour."""

    name: str
    style: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Span:
    """Some values of one thing on one axis, from the lowest to the highest."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Bar:
    """The parts of one thing: name, class of colour and value of each."""

    name: str
    parts: Sequence[tuple[str, str, float]]


def shown(text: str) -> str:
    """Text of users for a page: escaped, and what would not be seen, or turn the line, replaced."""
    return escape("".join(each if _is_visible(each) else "\ufffd" for each in text))


def lines(
    starts_s: Sequence[int],
    bin_s: int,
    series: Sequence[Line],
    form: Format,
    *,
    width: int,
    label: str,
    is_log: bool = False,
) -> str:
    """Lines over time. ``starts_s``: the start of each point's interval; ``form``: of values."""
    values = [value for line in series for value in line.values if value is not None]
    axis = _log_ticks(values) if is_log else _ticks(max(values, default=0))
    right, bottom = width - _RIGHT, _HEIGHT - _BOTTOM
    first, last = starts_s[0], starts_s[-1] + bin_s

    def x_of(second: float) -> float:
        return _LEFT + (second - first) / (last - first) * (right - _LEFT)

    def y_of(value: float) -> float:
        return bottom - _share(value, axis, is_log=is_log) * (bottom - _TOP)

    parts = [
        f'<path class="grid" d="M{_LEFT} {y_of(tick):.1f}H{right}"/>'
        f'<text class="tick end" x="{_LEFT - 8}" y="{y_of(tick) + 4:.1f}">{form(tick)}</text>'
        for tick in axis
    ]
    parts += [
        f'<text class="tick middle" x="{x_of(second):.1f}" y="{_HEIGHT - 6}">{text}</text>'
        for second, text in _time_ticks(first, last, (right - _LEFT) / 64)
        if _LEFT + 8 <= x_of(second) <= right - 8
    ]
    for line in series:
        points = [
            None if value is None else (x_of(start + bin_s / 2), y_of(value))
            for start, value in zip(starts_s, line.values, strict=True)
        ]
        parts.append(_path(points, line.style))
    step = x_of(first + bin_s) - _LEFT
    for index, start in enumerate(starts_s):
        told = "\n".join(
            f"{line.name}: {form(value)}"
            for line in series
            if (value := line.values[index]) is not None
        )
        if told:
            when = datetime.datetime.fromtimestamp(start, datetime.UTC).strftime("%d %b %H:%M:%S")
            parts.append(
                f'<rect class="hit" x="{x_of(start):.1f}" y="{_TOP}" width="{step:.2f}" '
                f'height="{bottom - _TOP}"><title>{when} UTC\n{shown(told)}</title></rect>'
            )
    return _svg(width, _HEIGHT, label, parts)


def spans(
    rows: Sequence[Span],
    names: Sequence[str],
    form: Format,
    *,
    width: int,
    label: str,
) -> str:
    """A row for each span with a dot for each of its values, on one axis of powers of ten."""
    axis = _log_ticks([value for row in rows for value in row.values])
    left, right = 12, width - 24
    height = len(rows) * _ROW_HEIGHT + _BOTTOM

    def x_of(value: float) -> float:
        return left + _share(value, axis, is_log=True) * (right - left)

    parts = []
    room = 0.0
    for tick in axis:
        parts.append(f'<path class="grid" d="M{x_of(tick):.1f} 4V{height - _BOTTOM}"/>')
        if x_of(tick) >= room:
            parts.append(
                f'<text class="tick middle" x="{max(x_of(tick), 20):.1f}" y="{height - 8}">'
                f"{form(tick)}</text>"
            )
            room = x_of(tick) + 58
    for index, row in enumerate(rows):
        y = index * _ROW_HEIGHT + 28
        told = ", ".join(
            f"{name} {form(value)}" for name, value in zip(names, row.values, strict=True)
        )
        parts.append(
            f'<g class="row"><title>{shown(row.name)}\n{told}</title>'
            f'<rect class="hit" x="0" y="{y - 22}" width="{width}" height="{_ROW_HEIGHT - 4}"/>'
            f'<text class="name" x="{left}" y="{y - 8}">{_cut(row.name, width - 24)}</text>'
            f'<path class="span" d="M{x_of(row.values[0]):.1f} {y + 3}'
            f'H{x_of(row.values[-1]):.1f}"/>'
        )
        parts += [
            f'<circle class="dot d{place}" cx="{x_of(value):.1f}" cy="{y + 3}" r="5"/>'
            for place, value in reversed(list(enumerate(row.values)))
        ]
        parts.append("</g>")
    return _svg(width, height, label, parts)


def bars(rows: Sequence[Bar], form: Format, *, width: int, label: str) -> str:
    """A bar for each row, of its parts, with the sum at its end."""
    largest = max((sum(value for *_, value in row.parts) for row in rows), default=0) or 1
    left, right = 12, width - 84
    parts = []
    for index, row in enumerate(rows):
        y = index * _ROW_HEIGHT + 28
        x = float(left)
        parts.append(
            f'<text class="name" x="{left}" y="{y - 8}">{_cut(row.name, width - 24)}</text>'
        )
        for name, style, value in row.parts:
            length = value / largest * (right - left)
            parts.append(
                f'<rect class="bar {style}" x="{x:.1f}" y="{y - 2}" width="{max(length, 1):.1f}" '
                f'height="11"><title>{shown(row.name)}\n{shown(name)}: {form(value)}</title></rect>'
            )
            x += length
        total = sum(value for *_, value in row.parts)
        parts.append(f'<text class="tick" x="{x + 8:.1f}" y="{y + 8}">{form(total)}</text>')
    return _svg(width, len(rows) * _ROW_HEIGHT + 8, label, parts)


def _svg(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{shown(label)}">{"".join(parts)}</svg>'
    )


def _path(points: Sequence[tuple[float, float] | None], style: str) -> str:
    """A line through the points, interrupted where there is none; a dot for one that is alone."""
    drawn, dots = [], []
    for index, point in enumerate(points):
        if point is None:
            continue
        x, y = point
        follows = index > 0 and points[index - 1] is not None
        leads = index + 1 < len(points) and points[index + 1] is not None
        drawn.append(f"{'L' if follows else 'M'}{x:.1f} {y:.1f}")
        if not follows and not leads:
            dots.append(f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
    return f'<path class="line {style}" d="{"".join(drawn)}"/>{"".join(dots)}'


def _share(value: float, axis: Sequence[float], *, is_log: bool) -> float:
    """Where on the axis a value is, from 0 to 1."""
    low, high = axis[0], axis[-1]
    if is_log:
        return (math.log10(max(value, low)) - math.log10(low)) / math.log10(high / low)
    return (value - low) / (high - low)


def _ticks(largest: float) -> list[float]:
    """Round numbers from 0 to what is not below the largest, some four of them."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(largest / step - 1e-9) + 1)]


def _log_ticks(values: Sequence[float]) -> list[float]:
    """Powers of ten around all values, two at least; values below 1 count as 1."""
    low = math.floor(math.log10(max(min(values, default=1), 1)))
    high = math.ceil(math.log10(max(*values, 1) if values else 1))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _time_ticks(first: int, last: int, count: float) -> list[tuple[int, str]]:
    """Round times between two, about so many, and what is written there."""
    wanted = (last - first) / max(count, 1)
    step = next((each for each in _TIME_STEPS if each >= wanted), _TIME_STEPS[-1])
    ticks = []
    for second in range(-(-first // step) * step, last + 1, step):
        moment = datetime.datetime.fromtimestamp(second, datetime.UTC)
        if second % _DAY_S == 0 and last - first > _DAY_S / 2:
            ticks.append((second, moment.strftime("%d %b")))
        else:
            ticks.append((second, moment.strftime("%H:%M:%S" if step < 60 else "%H:%M")))
    return ticks


def _cut(name: str, width: float) -> str:
    """A name as far as there is room for it."""
    letters = int(width / _LETTER)
    return shown(name if len(name) <= letters else f"{name[: letters - 1]}…")


def _is_visible(letter: str) -> bool:
    """Whether a letter shows as itself: no control, and nothing that turns the line around."""
    return letter.isprintable() or letter == "\n"
