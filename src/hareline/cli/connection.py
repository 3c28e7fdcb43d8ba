"""``hareline connection close``: end connections of clients, by name or by user."""

from __future__ import annotations

from click import argument, option

from hareline.cli.command import Group, Session, client_command
from hareline.cli.completing import complete_connection, complete_user
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Refused, path_of

app = Group("connection", help="Close connections.")


@client_command(app)
@argument(
    "name",
    required=False,
    shell_complete=complete_connection,
    help="As `connections list` shows it.",
)
@option(
    "--of-user", metavar="USER", shell_complete=complete_user, help="All connections of this user."
)
@option("--all", "all_of_them", is_flag=True, help="All connections.")
@option(
    "--reason", metavar="TEXT", default="closed by an operator", help="What the client is told."
)
def close(
    session: Session, name: str | None, of_user: str | None, all_of_them: bool, reason: str
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
