"""``hareline journal``: dump, verify and repair the journal of a stopped broker.

Invariant: files are only read, except by ``repair --apply``. Standard output has only the result;
an error is a sentence on standard error and exit status 1. ``verify`` and ``dump`` also end with
status 1 if the journal is damaged; a torn tail is not damage.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import click
from click import argument, option

from hareline.cli.command import PATH, Group, OneOf
from hareline.cli.failures import CommandFailed, ExitStatus, errors_as_sentences, fail
from hareline.cli.output import say_error
from hareline.errors import ConfigurationError, StoreError

_JOURNAL: Final = "journal"
_LOCK: Final = "lock"
_DIRECTORY_MODE: Final = 0o750
_DEFINITIONS: Final = "definitions.sqlite"

journal = Group("journal", help="Read, check and repair the journal of a stopped broker.")

_directory = argument(
    "directory",
    type=PATH,
    required=False,
    metavar="[DIR]",
    help="The broker's data directory, or the journal in it; by default the one of the "
    "settings (file and environment).",
)


class Way(StrEnum):
    """Kind of repair."""

    skip = "skip"
    truncate = "truncate"


@journal.command()
@_directory
@option("--json", "as_json", is_flag=True, help="One JSON object per line instead of text.")
@option("--content", is_flag=True, help="With --json: messages' header and body frames in base64.")
def dump(directory: Path | None, as_json: bool, content: bool) -> None:
    """Print a line for each batch and each record.

    Records that cannot be read are left out and reported on standard error; exit status 1 then.
    """
    from hareline.storage.journal import inspect
    from hareline.storage.journal.files import Files

    if content and not as_json:
        fail("hareline: --content works only with --json")
    with _opened(directory) as (journal, definitions):
        report = inspect.Report()
        for line in inspect.dump(
            Files(),
            journal,
            report,
            as_json=as_json,
            with_content=content,
            newest=definitions.newest_segment,
        ):
            click.echo(line)
        for _, what in report.malformed:
            say_error(what)
        for damage in report.damages:
            say_error(str(damage))
    if report.is_damaged:
        raise click.exceptions.Exit(ExitStatus.FAILED)


@journal.command()
@_directory
def verify(directory: Path | None) -> None:
    """Read all of the journal and say what is wrong with it.

    Exit status 0: no damage, with or without a torn tail. 1: damage, or the journal is unreadable.
    """
    from hareline.storage.journal import inspect
    from hareline.storage.journal.files import Files

    with _opened(directory) as (journal, definitions):
        report = inspect.verify(Files(), journal, definitions.newest_segment)
        for line in _with_queue_names(report.lines(), definitions):
            click.echo(line)
    if report.is_damaged:
        raise click.exceptions.Exit(ExitStatus.FAILED)


@journal.command()
@_directory
@option(
    "--way",
    type=OneOf(Way),
    metavar="WAY",
    default=Way.skip,
    help="skip: drop what cannot be read, keep the rest. truncate: drop everything from "
    "the first damage on.",
)
@option("--apply", is_flag=True, help="Change the files; without it, only report.")
def repair(directory: Path | None, way: Way, apply: bool) -> None:
    """Say what a repair would do and lose; with --apply, do it.

    The previous files are kept, in a folder of the journal. Exit status 0: no repair is needed, or
    it was done. 1: a repair is needed, or is not possible.
    """
    from hareline.storage.journal import inspect, repair
    from hareline.storage.journal.damage import Decision
    from hareline.storage.journal.files import Files

    with _opened(directory, is_to_write=apply) as (journal, definitions):
        files, newest = Files(), definitions.newest_segment
        planned = repair.plan(files, journal, Decision(way.value), newest)
        for line in _with_queue_names(iter(planned.lines), definitions):
            click.echo(line)
        if planned.is_needed and apply:
            removed = repair.apply(files, planned)
            click.echo(f"done; the previous files are in {removed}")
        elif planned.is_needed:
            click.echo("nothing was changed; --apply does it")
        report = inspect.verify(files, journal, newest)
        if not planned.is_needed and not report.is_damaged:
            click.echo("no damage, nothing to do")
        for _, what in report.malformed:
            say_error(f"cannot be repaired: {what}")
    if report.is_damaged:
        raise click.exceptions.Exit(ExitStatus.FAILED)


def verified(data_dir: Path) -> list[str]:
    """Faults of a journal, a line for each place. Raises StoreError while it is in use."""
    from hareline.storage.journal import inspect
    from hareline.storage.journal.files import Files

    journal = _find(data_dir, may_create=False)
    with _locked(journal, is_to_write=False):
        definitions = _read_definitions(journal.parent)
        _check_journal(journal, definitions)
        report = inspect.verify(Files(), str(journal), definitions.newest_segment)
    return [*map(str, report.damages), *(what for _, what in report.malformed)]


class _Definitions(NamedTuple):
    """Facts of the broker's definitions about its journal, as far as they can be read.

    ``queue_names``: by queue id, with the virtual host. ``newest_segment``: 0 if not known.
    """

    queue_names: dict[int, str]
    newest_segment: int


@contextmanager
def _opened(
    directory: Path | None, *, is_to_write: bool = False
) -> Iterator[tuple[str, _Definitions]]:
    """The journal's directory, locked; every error while it is open becomes a sentence."""
    with errors_as_sentences():
        try:
            journal = _find(directory, may_create=is_to_write)
            with _locked(journal, is_to_write=is_to_write):
                definitions = _read_definitions(journal.parent)
                _check_journal(journal, definitions)
                yield str(journal), definitions
        except ConfigurationError as error:
            fail(*error.problems)
        except StoreError as error:
            raise CommandFailed(str(error)) from None


def _find(directory: Path | None, *, may_create: bool) -> Path:
    """The folder with the segments, made if only definitions exist. Raises StoreError."""
    if directory is None:
        from hareline.settings import config_path, load_settings

        settings = load_settings(config_path(None, os.environ), os.environ)
        directory = Path(settings.data_dir)
    directory = directory.absolute()
    if not directory.exists():
        raise StoreError(f"{directory}: no such directory")
    if not directory.is_dir():
        raise StoreError(f"{directory}: not a directory")
    inner = directory / _JOURNAL
    if not inner.is_dir():
        if not (directory / _DEFINITIONS).exists():
            return directory
        if not may_create:
            raise StoreError(f"{inner}: no such directory; `repair --apply` makes an empty one")
        inner.mkdir(_DIRECTORY_MODE)
    return inner


def _check_journal(journal: Path, definitions: _Definitions) -> None:
    """Raise StoreError if there is no segment, and by the definitions never was one."""
    from hareline.storage.journal.files import Files
    from hareline.storage.journal.inspect import is_journal

    if not definitions.newest_segment and not is_journal(Files(), str(journal)):
        raise StoreError(f"{journal}: not a journal: no file in it is a segment")


@contextmanager
def _locked(journal: Path, *, is_to_write: bool) -> Iterator[None]:
    """Lock the directory, so that no broker writes meanwhile. Raises StoreError.

    A broker holds these locks as long as it runs.

    The journal's own lock is for a broker whose lock file was removed, or stands elsewhere.
    """
    from hareline.storage.journal.files import lock_directory

    data_dir = journal.parent
    path = data_dir / _LOCK
    operation = fcntl.LOCK_EX if is_to_write else fcntl.LOCK_SH
    with ExitStack() as stack:
        try:
            stack.callback(os.close, lock_directory(journal, operation))
            if path.exists():  # otherwise this is the copy of a journal: no broker has run here
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, fd)
                fcntl.flock(fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{data_dir}: a running broker uses it; stop that first") from None
        yield


def _with_queue_names(lines: Iterator[str], definitions: _Definitions) -> Iterator[str]:
    """The lines; those of lost entries end with the name of the queue, if it is known."""
    names = definitions.queue_names
    for line in lines:
        start, _, rest = line.partition("lost of queue id ")
        number, colon, _ = rest.partition(":")
        known = names.get(int(number)) if not start and colon and number.isdecimal() else None
        yield line if known is None else f"{line} ({known})"


def _read_definitions(data_dir: Path) -> _Definitions:
    """The definitions of a data directory; empty if there are none.

    Read from a copy, because SQLite writes beside a database that was not closed.
    """
    import sqlite3

    path = data_dir / _DEFINITIONS
    if not path.exists():
        return _Definitions({}, 0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for each in (path, path.with_name(f"{path.name}-wal")):
                if each.exists():
                    shutil.copyfile(each, Path(folder) / each.name)
            with closing(sqlite3.connect(Path(folder) / path.name)) as database:
                rows = database.execute("SELECT id, vhost, name FROM queues").fetchall()
                newest = database.execute("SELECT max(newest_segment) FROM journal").fetchone()[0]
    except sqlite3.Error as error:
        say_error(
            f"{path}: {error}; queues are shown by their ids, and whether the newest segment is "
            "missing is unknown"
        )
        return _Definitions({}, 0)
    names = {each[0]: f"queue '{_text(each[2])}' in vhost '{_text(each[1])}'" for each in rows}
    return _Definitions(names, newest if isinstance(newest, int) else 0)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")
