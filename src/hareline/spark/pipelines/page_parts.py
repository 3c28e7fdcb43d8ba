"""What the page of a report is put together from: sections, legends, tables that can be sorted.

Called by ``report_page``. Invariant: text of users is escaped here; titles and headings are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from hareline.spark.pipelines import units
from hareline.spark.pipelines.charts import NARROW, WIDE, shown

#: In place of a figure that there is not.
DASH: Final = "\N{EN DASH}"
#: Tables longer than this scroll in a box of their own.
_TALL_ROWS: Final = 14
_NAME: Final = ' class="name"'
_BAD: Final = ' class="bad"'


class Cell(NamedTuple):
    """What a cell shows, and what it is sorted by: a text by itself, or a number."""

    text: str
    value: float | None = None
    is_name: bool = False


def section(title: str, how: str, *parts: str) -> str:
    return f'<section><h2>{title}</h2><p class="how">{how}</p>{"".join(parts)}</section>'


def in_both_widths(draw: Callable[[int], str]) -> str:
    """A chart for screens and for phones; the style sheet shows one of them."""
    return f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>'


def legend(names: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f'<li class="{style}"><i></i><span>{shown(name)}</span></li>' for style, name in names
    )
    return f'<ul class="legend">{items}</ul>'


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    names: int = 1,
    bad: Sequence[bool] = (),
) -> str:
    """A table that can be sorted; the first ``names`` columns are text."""
    head = "".join(
        f'<th scope="col"{_NAME if place < names else ""}><button>{text}</button></th>'
        for place, text in enumerate(headings)
    )
    body = "".join(
        f"<tr{_BAD if bad and bad[place] else ''}>{''.join(map(_cell, row))}</tr>"
        for place, row in enumerate(rows)
    )
    tall = " tall" if len(rows) > _TALL_ROWS else ""
    return (
        f'<div class="scroll{tall}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    if cell.is_name:
        return f'<td class="name" title="{shown(cell.text)}">{shown(cell.text)}</td>'
    value = "" if cell.value is None else repr(cell.value)
    return f'<td data-value="{value}">{cell.text or DASH}</td>'


def name_cell(text: str) -> Cell:
    return Cell(text, is_name=True)


def count_cell(number: int) -> Cell:
    return Cell(f"{number:,}", number)


def duration_cell(microseconds: int | None) -> Cell:
    if microseconds is None:
        return Cell("", None)
    return Cell(units.duration(microseconds), microseconds)


def rate_cell(messages: int, span_us: int) -> Cell:
    if span_us <= 0:
        return Cell("", None)
    per_second = messages / span_us * 1e6
    return Cell(units.rate(per_second), per_second)
