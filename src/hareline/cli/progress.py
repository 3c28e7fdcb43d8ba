"""What a command says beside its result: errors, and how far it is, as a bar or in lines.

Used by all commands. Invariant: no control character of a name reaches the terminal; rich is
imported when needed.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, Self

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
