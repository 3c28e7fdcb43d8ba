"""Commands as click has them, the options that all that ask a broker take, and values of options.

``@client_command(group)`` stands above a function whose first parameter is a `Session`; the others
are its own arguments and options. Invariant: the session is closed, and every error is a sentence,
whatever the function does.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Iterable
from functools import cached_property, partial
from math import isnan
from pathlib import Path
from typing import Any, Final

import click

from hareline.cli.completing import complete_target, complete_vhost
from hareline.cli.failures import CommandFailed, ExitStatus, errors_as_sentences
from hareline.cli.http_client import Api
from hareline.cli.output import Output
from hareline.cli.target import Flags, Target, read_target

DEFAULT_VHOST: Final = "/"
#: Columns of names in a help text; the explanation of a longer one begins on a line of its own.
_NAMES_MAX: Final = 26
PATH: Final = click.Path(path_type=Path)


class _Plain:
    """Mixin for click's numbers, which refuses values in words for people."""

    kind: type = int
    word = "a whole number"
    min: Any = None
    max: Any = None

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            number = self.kind(value)
        except (ValueError, OverflowError):
            raise click.BadParameter(f"'{value}' is not {self.word}", ctx, param) from None
        if self.min is not None and number < self.min:
            raise click.BadParameter(f"{number} is less than {self.min}", ctx, param)
        if (self.max is not None and number > self.max) or isnan(number):
            raise click.BadParameter(f"{number} is more than {self.max}", ctx, param)
        return number


class _AnyWhole(_Plain, click.types.IntParamType):
    name = "n"


class Whole(_Plain, click.IntRange):
    """A whole number from ``min`` to ``max``."""

    name = "n"


class Number(_Plain, click.FloatRange):
    """A number from ``min`` to ``max``; of seconds, unless ``metavar`` says something else."""

    name = "seconds"
    kind = float
    word = "a number"


class OneOf(click.Choice[Any]):
    """One of some words, or of an enumeration's members by their names."""

    def get_invalid_choice_message(self, value: Any, ctx: Any) -> str:
        return f"'{value}' is not one of {', '.join(self._normalized_mapping(ctx).values())}"


WHOLE: Final = _AnyWhole()


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator."""

    def add(function: Any) -> Any:
        for each in reversed(options):
            function = each(function)
        return function

    return add


class Command(click.Command):
    """A command whose help has short columns of names."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write_dl = partial(formatter.write_dl, col_max=_NAMES_MAX)
        super().format_help(ctx, formatter)


class Group(click.Group):
    """A group of commands.

    What the group of the other number has is suggested: `queue list` is `queues list`.
    """

    command_class = Command

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.commands)  # in the order in which users meet them

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


#: Options that every command takes beside its own.
CONNECTION_OPTIONS: Final = (
    click.Option(
        ["--vhost"],
        metavar="NAME",
        shell_complete=complete_vhost,
        help="Virtual host, HARELINE_VHOST.",
    ),
    click.Option(
        ["--url"],
        metavar="URL",
        help="Address: http://HOST:15672 or amqp://HOST:5672, HARELINE_URL.",
    ),
    click.Option(
        ["--amqp-url"],
        metavar="URL",
        help="Address for AMQP; by default the same host, port 5672.",
    ),
    click.Option(
        ["--target"],
        metavar="NAME",
        shell_complete=complete_target,
        help="A target of the client's file, HARELINE_TARGET.",
    ),
    click.Option(
        ["--user"],
        metavar="NAME",
        help="Who logs in, HARELINE_USER; the password is HARELINE_PASSWORD.",
    ),
    click.Option(["--password-file"], metavar="FILE", help="Its first line is the password."),
    click.Option(
        ["--ca-file"],
        metavar="FILE",
        help="Authorities for https and amqps, HARELINE_CA_FILE.",
    ),
    click.Option(["--timeout"], type=Number(0.001), help="How long to wait for an answer: 30."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
)


class Session:
    """Session of a command: the broker to ask, and where its result goes.

    ``vhost``: the virtual host that was named, or None.
    """

    def __init__(self, target: Target, out: Output) -> None:
        self.target = target
        self.out = out

    @property
    def vhost(self) -> str | None:
        return self.target.vhost

    @property
    def one_vhost(self) -> str:
        """The virtual host for commands on one object: `/` if none was named."""
        return DEFAULT_VHOST if self.vhost is None else self.vhost

    @cached_property
    def api(self) -> Api:
        return Api(self.target)

    def close(self) -> None:
        if "api" in self.__dict__:
            self.api.close()


def client_command(
    group: Group | None = None,
    name: str | None = None,
    *,
    help: str | None = None,  # noqa: A002 - click's name
    without: Collection[str] = (),
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function, with `CONNECTION_OPTIONS` behind its own options.

    ``without``: names of those that it does not take; it may have an option of that name itself.
    """
    shared = [each for each in CONNECTION_OPTIONS if each.name not in without]

    def make(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def run(**values: Any) -> None:
            with errors_as_sentences():
                session = open_session({each.name: values.pop(each.name) for each in shared})
                try:
                    function(session, **values)
                finally:
                    session.close()

        command = click.command(name, Command, help=help or function.__doc__)(run)
        command.params += shared
        if group is not None:
            group.add_command(command)
        return command

    return make


def open_session(values: dict[str, Any]) -> Session:
    """The session that values of `CONNECTION_OPTIONS` ask for. Raises CommandFailed."""
    flags = Flags(**{name: value for name, value in values.items() if name != "as_json"})
    out = Output(is_json=values.get("as_json", False))
    return Session(read_target(flags, os.environ), out)


def pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    """``NAME=VALUE`` texts as a dict."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise CommandFailed(f"{flag}: '{text}' is not NAME=VALUE", ExitStatus.USAGE)
        found[name] = value
    return found


def typed_pairs(texts: Iterable[str], flag: str) -> dict[str, Any]:
    """As `pairs`; a value that is JSON is what it means, any other is text.

    So ``x-max-length=10`` is a number, ``x-queue-type=stream`` a text and ``x="10"`` a text too.
    """
    return {name: typed(value) for name, value in pairs(texts, flag).items()}


def typed(text: str) -> Any:
    """The JSON value that a text is, or the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def json_object(text: str, flag: str) -> dict[str, Any]:
    """A JSON object of the command line."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"{flag}: '{text}' is not JSON: {error}", ExitStatus.USAGE) from None
    if not isinstance(value, dict):
        raise CommandFailed(f"{flag}: '{text}' is not a JSON object", ExitStatus.USAGE)
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(name)
