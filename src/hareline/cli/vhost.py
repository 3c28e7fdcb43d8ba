"""``hareline vhost``: list, add, limit and delete virtual hosts."""

from __future__ import annotations

from typing import Final

from click import argument, option

from hareline.cli.command import Group, Session, client_command
from hareline.cli.completing import complete_vhost
from hareline.cli.http_client import path_of
from hareline.cli.limits import add_limits
from hareline.cli.output import Column

app = Group("vhost", help="List, add, limit and delete virtual hosts.")

_COLUMNS: Final = (
    Column("name", "name"),
    Column("description", "description"),
    Column("default_queue_type", "default-type"),
    Column("messages", "messages", "count"),
    Column("messages_ready", "ready", "count"),
    Column("messages_unacknowledged", "unacked", "count"),
    Column("tracing", "tracing", "flag"),
)
_name = argument("name", shell_complete=complete_vhost, help="The virtual host.")


@client_command(app, "list")
def list_vhosts(session: Session) -> None:
    """List virtual hosts.

    Columns: name, description, default-type, messages, ready, unacked, tracing.
    """
    session.out.table(_COLUMNS, session.api.get(path_of("vhosts")))


@client_command(app)
@_name
@option("--description", metavar="TEXT", default="", show_default=False, help="What it is for.")
@option("--default-type", metavar="TYPE", help="Type of queues that name none.")
def add(session: Session, name: str, description: str, default_type: str | None) -> None:
    """Add a virtual host, or change its description."""
    body = {"description": description}
    if default_type is not None:
        body["default_queue_type"] = default_type
    is_new = session.api.put(path_of("vhosts", name), body, what=f"vhost '{name}'")
    session.out.done(f"vhost '{name}': {'added' if is_new else 'changed'}", created=is_new)


@client_command(app)
@_name
def delete(session: Session, name: str) -> None:
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
