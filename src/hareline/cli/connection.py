"""``hareline connection close``: end connections of clients, by name or by user."""

from __future__ import annotations

from typing import Annotated

import typer

from hareline.cli.client_command import Session, client_command
from hareline.cli.completing import complete_connection, complete_user
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Refused, path_of
from hareline.cli.lean import new_group

app = new_group("connection", "Close connections.")


@client_command(app)
def close(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="As `connections list` shows it.",
            autocompletion=complete_connection,
            show_default=False,
        ),
    ] = None,
    of_user: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            help="All connections of this user.",
            autocompletion=complete_user,
            show_default=False,
        ),
    ] = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="All connections.")] = False,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="What the client is told.")
    ] = "closed by an operator",
) -> None:
    """Close a connection, all of a user, or all."""
    if [name is not None, of_user is not None, all_of_them].count(True) != 1:
        raise CommandFailed("give NAME, --of-user or --all", ExitStatus.USAGE)
    if name is not None:
        _close(session, name, reason)
        session.out.done(f"connection '{name}': closed", closed=1)
        return
    parts = ("connections",) if of_user is None else ("connections", "username", of_user)
    closed = 0
    for row in list(session.api.rows(path_of(*parts), {"columns": "name"})):
        try:
            _close(session, row["name"], reason)
            closed += 1
        except Refused as error:
            if error.status is not ExitStatus.NOT_FOUND:  # it may have ended meanwhile
                raise
    session.out.done(f"{closed} connections closed", closed=closed)


def _close(session: Session, name: str, reason: str) -> None:
    what = f"connection '{name}'"
    session.api.delete(path_of("connections", name), what=what, headers={"X-Reason": reason})
