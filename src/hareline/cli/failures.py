"""End of a command: exit statuses, and every error as one sentence on standard error.

Each command runs inside `errors_as_sentences`. Invariant: no traceback reaches the user, also not
for Ctrl-C, a pipe that was closed, or a fault in the command itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import NoReturn

from click import ClickException
from click.exceptions import Exit

from hareline.cli.output import complain, say_error
from hareline.errors import ConfigurationError, HarelineError


class ExitStatus(IntEnum):
    """Exit status for the shell; docs/cli.md has these as a table."""

    OK = 0, "done; also when the reader of a pipe has closed it"
    FAILED = 1, "the broker refused it, or it was done in part, or a check failed"
    USAGE = 2, "the command line, a variable or the client's file is wrong"
    UNREACHABLE = 3, "nothing answers at the address, or not in time"
    NOT_FOUND = 4, "a queue, exchange, user or other object does not exist"
    DENIED = 5, "the login was refused, or the user does not have the right"
    INTERRUPTED = 130, "stopped by Ctrl-C"

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitStatus:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


class CommandFailed(HarelineError):
    """A sentence for the user, and the status to end with."""

    def __init__(self, problem: str, status: ExitStatus = ExitStatus.FAILED) -> None:
        super().__init__(problem)
        self.status = status


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Turn each error of the block into a sentence on standard error and an exit status."""
    try:
        yield
        sys.stdout.flush()
    except CommandFailed as error:
        complain(str(error))
        raise Exit(error.status) from None
    except ConfigurationError as error:
        for problem in error.problems:
            complain(problem)
        raise Exit(ExitStatus.USAGE) from None
    except KeyboardInterrupt:
        raise Exit(ExitStatus.INTERRUPTED) from None
    except BrokenPipeError:
        # The interpreter flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(ExitStatus.OK) from None
    except OSError as error:
        text = error.strerror or str(error)
        complain(f"{error.filename}: {text}" if error.filename else text)
        raise Exit(ExitStatus.FAILED) from None
    except (Exit, ClickException):
        raise
    except Exception as error:
        complain(f"{_place(error)}: unexpected {type(error).__name__}: {error}; this is a fault")
        raise Exit(ExitStatus.FAILED) from None


def fail(*problems: str) -> NoReturn:
    """Write lines to standard error, and end with status 1."""
    for problem in problems:
        say_error(problem)
    raise Exit(ExitStatus.FAILED)


def _place(error: Exception) -> str:
    """File and line of the innermost frame in this package."""
    place = "hareline"
    traceback = error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        if name.startswith("hareline."):
            place = f"{name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
