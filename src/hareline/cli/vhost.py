"""``hareline vhost``: list, add, limit and delete virtual hosts."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from hareline.cli.client_command import Session, client_command
from hareline.cli.completing import complete_vhost
from hareline.cli.http_client import path_of
from hareline.cli.lean import new_group
from hareline.cli.limits import add_limits
from hareline.cli.output import Column

app = new_group("vhost", "List, add, limit and delete virtual hosts.")

_COLUMNS: Final = (
    Column("name", "name"),
    Column("description", "description"),
    Column("default_queue_type", "default-type"),
    Column("messages", "messages", "count"),
    Column("messages_ready", "ready", "count"),
    Column("messages_unacknowledged", "unacked", "count"),
    Column("tracing", "tracing", "flag"),
)
_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The virtual host.", autocompletion=complete_vhost)
]


@client_command(app, "list")
def list_vhosts(session: Session) -> None:
    """List virtual hosts.

    Columns: name, description, default-type, messages, ready, unacked, tracing.
    """
    session.out.table(_COLUMNS, session.api.get(path_of("vhosts")))


@client_command(app)
def add(
    session: Session,
    name: _Name,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    default_type: Annotated[
        str | None,
        typer.Option(
            "--default-type",
            metavar="TYPE",
            help="Type of queues that name none.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Add a virtual host, or change its description."""
    body = {"description": description}
    if default_type is not None:
        body["default_queue_type"] = default_type
    is_new = session.api.put(path_of("vhosts", name), body, what=f"vhost '{name}'")
    session.out.done(f"vhost '{name}': {'added' if is_new else 'changed'}", created=is_new)


@client_command(app)
def delete(session: Session, name: _Name) -> None:
    """Delete a virtual host with all its queues and messages."""
    session.api.delete(path_of("vhosts", name), what=f"vhost '{name}'")
    session.out.done(f"vhost '{name}': deleted", deleted=name)


add_limits(
    app,
    "vhost",
    "virtual host",
    complete_vhost,
    "max-connections, max-queues, max-exchanges or max-bindings",
)
