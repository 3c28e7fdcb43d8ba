"""Typer's classes without pydantic: plain values are converted here.

Typer builds a pydantic adapter for each parameter of a command that runs, and importing pydantic
takes longer than a request to the broker. Text, numbers, paths and choices need none of it. The
classes of all commands but `serve` and its like are these. Invariant: a value that cannot be
converted is a usage error that names the parameter, as with Typer's own conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

#: Columns of names in a help text; the explanation of a longer one begins on a line of its own.
_NAMES_MAX: Final = 26
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_WORDS: Final = {int: "a whole number", float: "a number"}


class LeanGroup(TyperGroup):
    """A group of commands whose absent ``--help`` is checked without pydantic.

    What the group of the other number has is suggested: `queue list` is `queues list`.
    """

    def load(self, name: str) -> Any:
        """The command of this name, None if there is none."""
        return self.commands.get(name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.parent is not None and args[0] not in self.commands:
            name, other = self.name or "", args[0]
            partner = name.removesuffix("s") if name.endswith("s") else f"{name}s"
            if other in getattr(ctx.parent.command.load(partner), "commands", ()):
                typed = f"{ctx.parent.command_path} {partner} {other}"
                ctx.fail(f"No such command '{other}'. Did you mean '{typed}'?")
        return super().resolve_command(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        return unset_as_false(super().get_help_option(ctx))


class LeanCommand(TyperCommand):
    """A command whose plain values are converted without pydantic."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        for parameter in self.params:
            convert = _converter(parameter)
            if convert is not None:
                parameter._runtime_param = _Plain(convert)  # type: ignore[attr-defined]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write_dl = partial(formatter.write_dl, col_max=_NAMES_MAX)
        super().format_help(ctx, formatter)

    def get_help_option(self, ctx: Any) -> Any:
        return unset_as_false(super().get_help_option(ctx))


def new_app() -> typer.Typer:
    """An application for one command, with plain help."""
    return typer.Typer(rich_markup_mode=None, add_completion=False)


def new_group(name: str, help_text: str) -> typer.Typer:
    """A group of commands, also where there is only one."""
    return typer.Typer(
        name=name,
        cls=LeanGroup,
        callback=_group,
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
        context_settings=dict(CONTEXT),
    )


def _group() -> None:
    """Makes Typer keep a group of one command."""


def unset_as_false(flag: Any) -> Any:
    """The flag with False as its default: Typer accepts that, but passes None to pydantic."""
    if flag is not None:
        flag.default = False
    return flag


class _Plain:
    """Stands for Typer's adapter of one parameter."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        try:
            return [self._convert(each) for each in value] if is_many else self._convert(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from None


def _converter(parameter: Any) -> Callable[[Any], Any] | None:
    """What makes a value of a parameter from its text; None if Typer has to."""
    descriptor = getattr(parameter, "type_descriptor", None)
    if descriptor is None:
        return None
    kind = descriptor.annotation
    if get_origin(kind) is list:
        kind = get_args(kind)[0]
    info = descriptor.parameter_info
    choices = descriptor.choices
    if choices is not None:
        return _one_of({str(getattr(each, "value", each)): each for each in choices})
    if kind in {str, Path}:
        return kind  # type: ignore[no-any-return]
    if kind in _WORDS:
        return _number(kind, info.min, info.max)
    return None


def _one_of(choices: dict[str, Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value not in choices:  # a default is its own text
            raise ValueError(f"'{value}' is not one of {', '.join(choices)}")
        return choices[value]

    return convert


def _number(kind: Any, low: float | None, high: float | None) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            raise ValueError(f"'{value}' is not {_WORDS[kind]}") from None
        if low is not None and number < low:
            raise ValueError(f"{number} is less than {low}")
        if (high is not None and number > high) or isnan(number):
            raise ValueError(f"{number} is more than {high}")
        return number

    return convert
