"""The ``hareline`` command: arguments to settings, settings to the daemon, errors to sentences.

Each command is one function below. Invariant: an error in a file, a variable, a flag or on the
machine ends in a message on standard error and exit status 1 (2 for a command line that cannot be
parsed), never in a traceback; standard output has only the command's result.

Commands that ask a running broker stand in ``cli.catalogue`` and are imported when they are
run. What parsing the command line does not need is imported where it is used, so that
``hareline --help`` answers at once; tests/test_imports.py checks that. Help is plain text, which
leaves the explanations more room than Rich's panels do.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, get_args

import click
from click import argument, option

from hareline import __version__, compiled
from hareline.choices import HashingAlgorithm, LogLevel
from hareline.cli.catalogue import CATALOGUE, ROWS
from hareline.cli.command import PATH, WHOLE, Command, Group, OneOf
from hareline.cli.failures import ExitStatus, fail
from hareline.cli.output import say_error
from hareline.errors import ConfigurationError, ListenError, StoreError

if TYPE_CHECKING:
    from hareline.settings import Reading, Settings

_CONTEXT: Final = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "show_default": True,
}
_VERSION: Final = f"hareline {__version__} (build: {compiled.build()})"
SHELLS: Final = ("bash", "zsh", "fish")
_OPTION_IN_HELP: Final = re.compile(r"\{([a-z_.]+)\}")


class _Root(Group):
    """The top of all commands; those of the catalogue are imported when one is run."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        for row in ROWS.values():
            self.add_command(Command(row.name, help=row.summary))

    def load(self, name: str) -> Any:
        row = ROWS.get(name)
        if row is not None:
            self.add_command(getattr(import_module(f"hareline.cli.{row.module}"), name))
        return super().load(name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(ExitStatus.INTERRUPTED) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections = {"Run a broker": [name for name in self.commands if name not in ROWS]}
        sections |= {title: [row.name for row in rows] for title, rows in CATALOGUE.items()}
        width = max(map(len, self.commands))
        for title, names in sections.items():
            with formatter.section(title):
                room = formatter.width - 6 - width
                rows = [(n.ljust(width), self.commands[n].get_short_help_str(room)) for n in names]
                formatter.write_dl(rows)


class _Serve(Command):
    """``{listener.port}`` in the help of a flag becomes that option's."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from hareline.settings.reference import option_help

        for each in self.params:
            if isinstance(each, click.Option) and each.help:
                each.help = _OPTION_IN_HELP.sub(lambda found: option_help(found[1]), each.help)
        super().format_help(ctx, formatter)


@click.group("hareline", _Root, context_settings=_CONTEXT)
@click.version_option(
    message=_VERSION,
    version=__version__,
    help="Print the version and exit.",
)
def root() -> None:
    """An AMQP 0-9-1 message broker."""


# Commands, and options of each, in the order in which users need them.


@root.command(cls=_Serve)
@option(
    "--config",
    type=PATH,
    metavar="FILE",
    help="TOML file with settings; see `hareline config-sample`.",
)
@option("--data-dir", metavar="DIR", help="{data_dir}")
@option("--bind", metavar="ADDR", help="{listener.bind} For HTTP as well.")
@option("--port", type=WHOLE, help="{listener.port}")
@option("--management-port", type=WHOLE, help="{management.port}")
@option("--log-level", type=OneOf(get_args(LogLevel)), metavar="LEVEL", help="{log.level}")
def serve(
    config: Path | None,
    data_dir: str | None,
    bind: str | None,
    port: int | None,
    management_port: int | None,
    log_level: LogLevel | None,
) -> None:
    """Run the broker until SIGTERM or SIGINT.

    A flag overrides the environment (HARELINE_LISTENER__PORT=5673), which overrides the file.
    SIGHUP reads the settings again.
    """
    from hareline.settings import Flag, config_path, read_settings

    flags = [
        Flag(name, option, value)
        for name, option, value in (
            ("--bind", "listener.bind", bind),
            ("--bind", "management.bind", bind),
            ("--bind", "tls.bind", bind),
            ("--port", "listener.port", port),
            ("--management-port", "management.port", management_port),
            ("--data-dir", "data_dir", data_dir),
            ("--log-level", "log.level", log_level),
        )
        if value is not None
    ]

    def read() -> Reading:
        return read_settings(config_path(config, os.environ), os.environ, flags)

    try:
        reading = read()
    except ConfigurationError as error:
        fail(*error.problems)
    try:
        status = _run(reading, read)
    except ConfigurationError as error:
        fail(*error.problems)
    except ListenError as error:
        fail(*(_blame(reading, *each) for each in error.problems))
    except StoreError as error:
        fail(f"hareline: {error}")
    except OSError as error:
        fail(f"hareline: {_reason(error)}")
    raise click.exceptions.Exit(status)


@root.command()
@argument(
    "file", type=PATH, required=False, help="TOML file; without it, the one in HARELINE_CONFIG."
)
def check_config(file: Path | None) -> None:
    """Say what is wrong with the settings.

    Reads file, environment and certificates as `serve` does, names every problem, and says which
    options the environment sets.
    """
    from hareline.settings import config_path, read_settings

    path = config_path(file, os.environ)
    try:
        reading = read_settings(path, os.environ)
    except ConfigurationError as error:
        fail(*error.problems)
    _check_certificates(reading)
    click.echo(f"{path}: ok" if path is not None else "no file; environment and defaults: ok")
    for name, origin in reading.origins.items():
        outweighs = f", which outweighs {path}" if name in reading.overridden else ""
        click.echo(f"{name}: from {origin}{outweighs}")


def _check_certificates(reading: Reading) -> None:
    """Read the files that [tls] names, and say what is wrong with them."""
    if not reading.settings.tls.is_on:
        return
    from hareline.net.tls.contexts import load_contexts
    from hareline.server.assemble import tls_options

    try:
        load_contexts(tls_options(reading.settings))
    except ListenError as error:
        fail(*(_blame(reading, *each) for each in error.problems))


@root.command()
def config_sample() -> None:
    """Print a settings file with every option explained."""
    from hareline.settings.reference import sample

    click.echo(sample(), nl=False)


@root.command()
@option(
    "--algorithm",
    type=OneOf(get_args(HashingAlgorithm)),
    metavar="NAME",
    default="argon2id",
    help="argon2id; or sha256, sha512 or md5, as RabbitMQ has them, for the user's option "
    "`hashing`.",
)
@option("--scram", is_flag=True, help="Print the value of the user's option `scram`.")
def hash_password(algorithm: HashingAlgorithm, scram: bool) -> None:
    """Print a password hash, or SCRAM keys, for the settings.

    The output is the value of the user's option `password_hash`, or `scram`. On a terminal the
    command asks for the password; otherwise it reads the first line of standard input.
    """
    from hareline.auth.passwords import hash_password as hash_of
    from hareline.auth.scram import new_keys

    if not scram:
        click.echo(hash_of(_read_password(), algorithm))
        return
    try:
        click.echo(str(new_keys(_read_password())))
    except ValueError as problem:
        fail(f"hareline: {problem}")


@root.command()
def version() -> None:
    """Print the version, and whether this is a compiled build."""
    click.echo(_VERSION)


@click.command(cls=Command)
@argument("shell", type=OneOf(SHELLS), metavar="SHELL", help="bash, zsh or fish.")
def completion(shell: str) -> None:
    """Print a script that completes commands and names in a shell.

    bash: source <(hareline completion bash), in ~/.bashrc. zsh: the same in ~/.zshrc. fish:
    hareline completion fish > ~/.config/fish/completions/hareline.fish. Names of queues and the
    like are asked of the broker that HARELINE_URL or the client's file names.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Not that of the class: bash's runs bash, to look at its version.
    click.echo(ShellComplete.source(kind(root, {}, "hareline", "_HARELINE_COMPLETE")))


def _run(reading: Reading, read: Callable[[], Reading]) -> int:
    from hareline import logs
    from hareline.server.daemon import serve as run_daemon

    def load() -> Settings:
        renewed = read()
        _log_overridden(renewed)
        return renewed.settings

    settings = reading.settings
    logs.configure(settings.log.level, settings.log.format)
    _log_overridden(reading)
    if not _is_terminal(sys.stderr):
        return run_daemon(settings, load)
    with _RecoveryBar() as bar:
        return run_daemon(settings, load, bar.show)


def _log_overridden(reading: Reading) -> None:
    """Log each option of the file that a variable or a flag overrides, since it has no effect."""
    from hareline import events, logs

    log = logs.get_logger("hareline.cli")
    for name in reading.overridden:
        origin = reading.origin_of(name)
        log.info(events.OPTION_OVERRIDDEN, option=name, origin=origin, file=str(reading.path))


class _RecoveryBar:
    """A progress bar of the recovery; visible only while there is much to restore."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

        self._progress = Progress(
            "recovering",
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None)

    def show(self, done: int, all_work: int) -> None:
        """Redraw the bar, at most some times a second; remove it at the end."""
        self._progress.start()
        self._progress.update(self._task, completed=done, total=all_work)
        if done >= all_work:
            self._progress.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _read_password() -> str:
    if _is_terminal(sys.stdin):
        while True:
            password = getpass.getpass("Password: ")
            if not password:
                say_error("hareline: the password must not be empty; try again")
            elif getpass.getpass("Again: ") != password:
                say_error("hareline: the two passwords differ; try again")
            else:
                return password
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        fail("hareline: the password must not be empty")
    return password


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def _blame(reading: Reading, option: str, problem: str) -> str:
    """The problem, with the flag, variable or file that set the option if it is not a default."""
    return ": ".join(filter(None, ("hareline", reading.origin_of(option), option, problem)))


def _reason(error: OSError) -> str:
    """Refusal of the system, as a sentence without the errno."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: not a directory"
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return error.strerror or str(error)
