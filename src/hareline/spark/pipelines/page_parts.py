"""Parts of a report's page: figures with units, tables that can be sorted, and charts.

uPlot draws lines over time in the page's script; spans and bars are plain HTML. Parts name classes
of the style sheet only, so they fit light and dark, screens and phones.
Invariant: text of users is escaped here; titles, headings and names of lines are ours.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, NamedTuple, TypeVar

#: In place of a figure that there is not.
DASH: Final = "\N{EN DASH}"
#: Tables longer than this scroll in a box of their own.
_TALL_ROWS: Final = 14
_NAME: Final = ' class="name"'
_BAD: Final = ' class="bad"'

Form = Callable[[float], str]
Row = TypeVar("Row")

# ------------------------------------------------------------------------------------- figures


@dataclass(frozen=True, slots=True)
class Unit:
    """Writes numbers with three digits and a unit; the page's script does the same for axes."""

    #: For each unit, from the smallest: the least number that takes it, its size, and its name.
    steps: Sequence[tuple[float, float, str]]

    def __call__(self, number: float) -> str:
        size, name = self.steps[0][1:]
        for least, each, unit in self.steps:
            # What would be rounded to 1000 of the smaller unit is 1 of this one.
            if number >= least * 0.9995:
                size, name = each, unit
        return f"{_digits(number / size)}{name}"


def _powers_of_1000(*names: str) -> Unit:
    return Unit([(1000.0**power, 1000.0**power, name) for power, name in enumerate(names)])


#: Such as ``999``, ``1.23 k``, ``45.6 M``.
count: Final = _powers_of_1000("", " k", " M", " G", " T", " P")
rate: Final = _powers_of_1000("/s", " k/s", " M/s", " G/s", " T/s", " P/s")
#: Units of 1000: ``1.23 kB``.
octets: Final = _powers_of_1000(" B", " kB", " MB", " GB", " TB", " PB")
octet_rate: Final = _powers_of_1000(" B/s", " kB/s", " MB/s", " GB/s", " TB/s", " PB/s")
#: Of microseconds: ``850 µs``, ``45.6 s``; 90 s, but 2 min.
duration: Final = Unit(
    [
        (0, 1, " µs"),
        (1_000, 1_000, " ms"),
        (1_000_000, 1_000_000, " s"),
        (120_000_000, 60_000_000, " min"),
        (7_200_000_000, 3_600_000_000, " h"),
        (172_800_000_000, 86_400_000_000, " d"),
    ]
)
#: All digits: ``12,345``.
number: Final = "{:,}".format


def percent(share: float) -> str:
    """Such as ``12.3 %``; what is not zero does not look as if it were."""
    return "< 0.01 %" if 0 < share < 0.0001 else f"{_digits(share * 100)} %"


def instant(microseconds: float) -> str:
    """Such as ``2026-01-05 10:00:00 UTC``."""
    moment = datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _digits(number: float) -> str:
    """Three digits that count, and no zeros behind the point at the end."""
    places = 0 if number >= 99.95 else 1 if number >= 9.995 else 2 if number >= 0.9995 else 3
    text = f"{number:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def shown(text: str) -> str:
    """Text of users, escaped; letters that are not seen or turn the line become U+FFFD."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))


# ------------------------------------------------------------------------- sections and tables


def section(title: str, how: str, *parts: str) -> str:
    return f'<section><h2>{title}</h2><p class="how">{how}</p>{"".join(parts)}</section>'


def legend(names: Iterable[tuple[str, str]]) -> str:
    """The names of colours; the script writes figures into the ``b`` of a chart's legend."""
    items = "".join(
        f'<li class="{style}"><i></i><span>{shown(name)} <b></b></span></li>'
        for style, name in names
    )
    return f'<ul class="legend">{items}</ul>'


def name_cell(text: str) -> str:
    """A cell with text of users, which is sorted by that."""
    return f'<td class="name" title="{shown(text)}">{shown(text)}</td>'


def cell(value: float | None, form: Form) -> str:
    """A cell with a figure, which is sorted by the number; None is a dash and sorted last."""
    if value is None:
        return f'<td data-value="">{DASH}</td>'
    return f'<td data-value="{value!r}">{form(value)}</td>'


def table(
    columns: Mapping[str, Callable[[Row], str]],
    rows: Sequence[Row],
    *,
    names: int = 1,
    is_bad: Callable[[Row], bool] | None = None,
) -> str:
    """A table that can be sorted; the first ``names`` columns are text."""
    head = "".join(
        f'<th scope="col"{_NAME if place < names else ""}><button>{text}</button></th>'
        for place, text in enumerate(columns)
    )
    body = "".join(
        f"<tr{_BAD if is_bad and is_bad(row) else ''}>"
        f"{''.join(make(row) for make in columns.values())}</tr>"
        for row in rows
    )
    tall = " tall" if len(rows) > _TALL_ROWS else ""
    return (
        f'<div class="scroll{tall}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


# -------------------------------------------------------------------------------------- charts


class Line(NamedTuple):
    """Values for each point in time, None where there is none; ``style``: a class of colour."""

    name: str
    style: str
    values: Sequence[float | None]


def lines(
    starts_s: Sequence[int],
    bin_s: int,
    series: Sequence[Line],
    unit: Unit,
    *,
    label: str,
    is_log: bool = False,
) -> str:
    """Lines over time, for uPlot. ``starts_s``: the start of each point's interval."""
    data = {
        "times": starts_s,
        "bin": bin_s,
        "lines": [line.values for line in series],
        "steps": unit.steps,
        "isLog": is_log,
    }
    return (
        f'<figure class="chart" data-chart="{escape(json.dumps(data))}">'
        f"{legend((line.style, line.name) for line in series)}"
        f'<div role="img" aria-label="{label}"></div></figure>'
    )


def spans(
    rows: Sequence[tuple[str, Sequence[float]]], names: Sequence[str], form: Form, *, label: str
) -> str:
    """A row of dots for each name, on one axis of powers of ten; values below 1 count as 1."""
    values = [max(value, 1) for _, row in rows for value in row]
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)

    def place(value: float) -> float:
        return 100 * (math.log10(max(value, 1)) - low) / (high - low)

    ticks = [10.0**power for power in range(low, high + 1)]
    axis = "".join(f'<i style="left:{place(tick):.2f}%">{form(tick)}</i>' for tick in ticks)
    items = []
    for name, row in rows:
        figures = ", ".join(f"{each} {form(value)}" for each, value in zip(names, row, strict=True))
        dots = "".join(
            f'<i class="dot s{number}" style="left:{place(value):.2f}%"></i>'
            for number, value in reversed(list(enumerate(row, 1)))
        )
        start, end = place(row[0]), place(row[-1])
        items.append(
            f'<li title="{shown(name)}\n{figures}"><span>{shown(name)}</span><div class="track">'
            f'<i class="span" style="left:{start:.2f}%;width:{end - start:.2f}%"></i>{dots}'
            "</div></li>"
        )
    return (
        f'<ul class="rows" aria-label="{label}">{"".join(items)}</ul>'
        f'<div class="track axis" aria-hidden="true">{axis}</div>'
    )


def bars(
    rows: Sequence[tuple[str, Sequence[tuple[str, str, float]]]], form: Form, *, label: str
) -> str:
    """A bar for each name, of parts (name, class of colour, value), with the sum at its end."""
    sums = [sum(value for *_, value in parts) for _, parts in rows]
    largest = max(sums) or 1
    items = []
    for (name, parts), total in zip(rows, sums, strict=True):
        drawn = "".join(
            f'<i class="{style}" style="width:{100 * value / largest:.2f}%" '
            f'title="{shown(name)}\n{shown(part)}: {form(value)}"></i>'
            for part, style, value in parts
        )
        items.append(
            f'<li><span>{shown(name)}</span><div class="bar">{drawn}<b>{form(total)}</b></div></li>'
        )
    return f'<ul class="rows" aria-label="{label}">{"".join(items)}</ul>'
