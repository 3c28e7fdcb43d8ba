"""``hareline user limits`` and ``hareline vhost limits``: how much of something there may be.

One command for both; ``cli.user`` and ``cli.vhost`` add it to their groups.
"""

from __future__ import annotations

from click import argument

from hareline.cli.command import Group, Session, client_command
from hareline.cli.completing import Completer
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import path_of
from hareline.cli.output import Column
from hareline.cli.values import pairs


def add_limits(group: Group, kind: str, title: str, complete: Completer, names: str) -> None:
    """Add ``limits`` to the group of this ``kind``, "user" or "vhost"; ``names``: for the help."""

    @client_command(
        group,
        help=f"Show or set the limits of a {title}.\n\n"
        "Shows them as they are then. 0 forbids all, a negative number sets no limit.",
    )
    @argument("name", shell_complete=complete, help=f"The {title}.")
    @argument(
        "limit",
        nargs=-1,
        metavar="[LIMIT=N]...",
        help=f"{names}; nothing behind the = removes a limit.",
    )
    def limits(session: Session, name: str, limit: tuple[str, ...]) -> None:
        what, path = f"{title} '{name}'", (f"{kind}-limits", name)
        wanted = {key: _number(key, text) for key, text in pairs(limit, "LIMIT").items()}
        session.api.get(path_of(f"{kind}s", name), what=what)  # a limit is kept for no other
        for key, number in wanted.items():
            if number is None:
                session.api.delete(path_of(*path, key), what=f"limit '{key}' of {what}")
            else:
                session.api.put(path_of(*path, key), {"value": number}, what=what)
        found = session.api.get(path_of(*path))
        values = found[0]["value"] if found else {}
        rows = [{"limit": key, "value": value} for key, value in values.items()]
        session.out.table((Column("limit", "limit"), Column("value", "value", "count")), rows)


def _number(key: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise CommandFailed(f"{key}: '{text}' is not a whole number", ExitStatus.USAGE) from None
