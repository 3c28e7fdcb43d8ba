"""Output of a command: its result, and errors and progress beside it.

A terminal gets tables with units and separators; anything else gets one row a line, values as the
broker sent them, tabs between them, no heading. ``--json`` gets what the API answered. Invariant:
standard output has only the result, and no control character of a name reaches the terminal. rich
is imported when needed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from hareline.octets import in_units

if TYPE_CHECKING:
    from rich.console import Console

_LINE_EVERY_S: Final = 5.0
_CONTROL: Final = {
    **{code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]},
    0x2028: "\\u2028",
    0x2029: "\\u2029",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
}


class Display:
    """Progress on standard error: a bar on a terminal, otherwise a line every few seconds.

    ``is_quick``: what is usually done before the first line; then nothing is written at the begin.
    """

    def __init__(self, what: str, *, is_quick: bool = False) -> None:
        self._what = visible(what)
        self._is_quick = is_quick
        self._bar: Any = None
        self._task: Any = None
        self._next_line_s = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[done]}", markup=False),
                TimeElapsedColumn(),
                console=console(is_for_errors=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=None, done="")
            self._bar.start()
        elif self._is_quick:
            self._next_line_s = time.monotonic() + _LINE_EVERY_S
        else:
            complain(self._what, style=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show_count(self, done: int, total: int | None) -> None:
        """Show how many messages are done, of how many that are known of; None: not known."""
        text = f"{done:,} messages"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, done=text)
            return
        now_s = time.monotonic()
        if now_s >= self._next_line_s or (done == total and not self._is_quick):
            self._next_line_s = now_s + _LINE_EVERY_S
            left = f", {total - done:,} to come" if total is not None and done < total else ""
            complain(f"{self._what}: {text}{left}", style=None)

    def show_share(self, done: int, total: int) -> None:
        """Show how many octets are done, of how many."""
        text = f"{done * 100 // total if total else 100} %"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, done=text)
            return
        now_s = time.monotonic()
        if now_s >= self._next_line_s:
            self._next_line_s = now_s + _LINE_EVERY_S
            complain(f"{self._what}: {text}", style=None)

    def show_step(self, done: int, steps: int, what: str) -> None:
        """Show which step begins."""
        if self._bar is not None:
            fields: dict[str, Any] = {"description": visible(what), "done": f"{done}/{steps}"}
            self._bar.update(self._task, completed=done, total=steps, **fields)
        else:
            complain(f"{done}/{steps} {what}", style=None)


def console(*, is_for_errors: bool = False) -> Console:
    from rich.console import Console

    # No markup: a queue may be called "[red]".
    return Console(stderr=is_for_errors, highlight=False, markup=False, emoji=False, soft_wrap=True)


def complain(problem: str, *, style: str | None = "red") -> None:
    say_error(f"hareline: {problem}", style=style)


def say_error(text: str, *, style: str | None = "red") -> None:
    """Write a line to standard error; a name in it cannot steer the terminal or end the line."""
    console(is_for_errors=True).print(visible(text.rstrip("\n")), style=style)


def visible(text: str) -> str:
    """The text with control characters written out."""
    return text.translate(_CONTROL)


Kind = Literal["text", "count", "rate", "octets", "octet_rate", "flag", "time_ms", "duration_ms"]

_RIGHT: Final = {"count", "rate", "octets", "octet_rate", "duration_ms"}


@dataclass(frozen=True)
class Column:
    """``path``: where the value is in the JSON, `message_stats.ack`; ``title``: its short name."""

    path: str
    title: str
    kind: Kind = "text"


def value_at(row: Any, path: str) -> Any:
    """The value at a dotted path, or None."""
    for key in path.split("."):
        if not isinstance(row, dict) or key not in row:
            return None
        row = row[key]
    return row


class Output:
    """Output of a command's result. ``is_json``: --json was given."""

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json

    @property
    def is_terminal(self) -> bool:
        return sys.stdout.isatty()

    def json(self, data: Any) -> None:
        """Print a JSON document."""
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    def json_line(self, data: Any) -> None:
        """Print a JSON document in one line, at once."""
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def line(self, text: str) -> None:
        """Print a line."""
        sys.stdout.write(visible(text) + "\n")

    def line_of(self, cells: Iterable[Any]) -> None:
        """Print values with tabs between them."""
        sys.stdout.write("\t".join(map(plain, cells)) + "\n")

    def done(self, sentence: str, **fields: Any) -> None:
        """Say what was done: a sentence, or these fields as JSON."""
        if self.is_json:
            self.json(fields)
        else:
            self.line(sentence)

    def warn(self, sentence: str) -> None:
        """Say on standard error what is wrong though the command has done its work."""
        sys.stderr.write(f"{visible(sentence)}\n")

    def table(self, columns: Sequence[Column], rows: Iterable[Any]) -> None:
        """Print rows as a table, or with tabs, or all of them as JSON."""
        if self.is_json:
            self.json(list(rows))
        elif self.is_terminal:
            self._rich_table(columns, rows)
        else:
            for row in rows:
                self.line_of(value_at(row, column.path) for column in columns)

    def fields(
        self,
        values: dict[str, Any],
        kinds: dict[str, Kind] | None = None,
        *,
        has_units: bool = False,
    ) -> None:
        """Print one object: a line for each field, or JSON. ``has_units``: also in a pipe."""
        if self.is_json:
            self.json(values)
            return
        flat = dict(flattened(values))
        width = max(map(len, flat), default=0)
        for name, value in flat.items():
            kind = (kinds or {}).get(name, "text")
            said = shown(value, kind) if self.is_terminal or has_units else plain(value)
            if self.is_terminal:
                sys.stdout.write(f"{visible(name):<{width}}  {said}\n")
            else:
                sys.stdout.write(f"{visible(name)}\t{said}\n")

    def _rich_table(self, columns: Sequence[Column], rows: Iterable[Any]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for column in columns:
            is_right = column.kind in _RIGHT
            # on a narrow terminal the longest texts are cut, and a row stays a line
            justify: Any = "right" if is_right else "left"
            table.add_column(Text(column.title), justify=justify, no_wrap=is_right)
        for row in rows:
            cells = (shown(value_at(row, each.path), each.kind) for each in columns)
            table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
        if table.row_count:
            console().print(table)
        else:
            console(is_for_errors=True).print("none", style="dim")


def flattened(values: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Fields with dotted names; what is empty is left out."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name != "arguments":
            yield from flattened(value, f"{prefix}{name}.")
        elif value not in (None, "", {}, []):
            yield f"{prefix}{name}", value


def plain(value: Any) -> str:
    """A value for scripts: as the broker sent it, empty if there is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return visible(json.dumps(value, ensure_ascii=False)) if value else ""
    return visible(str(value))


def shown(value: Any, kind: Kind = "text") -> str:
    """A value for people."""
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{visible(str(k))}={plain(v)}" for k, v in value.items())
    if not isinstance(value, int | float):
        return plain(value)
    if kind == "count":
        return f"{value:,}"
    if kind == "rate":
        return rate(value)
    if kind == "octets":
        return in_units(value)
    if kind == "octet_rate":
        return f"{in_units(value)}/s"
    if kind == "time_ms":
        import datetime

        moment = datetime.datetime.fromtimestamp(value / 1000).astimezone()
        return moment.strftime("%Y-%m-%d %H:%M:%S")
    if kind == "duration_ms":
        return duration(value / 1000)
    return plain(value)


def rate(value: float) -> str:
    """So many a second, for people: ``1,204/s``, ``0.2/s``."""
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def duration(seconds: float) -> str:
    """A time span for people: ``3 d 04:05:06``."""
    whole = int(seconds)
    days, whole = divmod(whole, 86_400)
    clock = f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
    return f"{days} d {clock}" if days else clock
