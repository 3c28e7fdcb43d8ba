"""``hareline exchange``, ``bind`` and ``unbind``: change what routes messages."""

from __future__ import annotations

from click import argument, option

from hareline.cli.command import Group, Session, client_command
from hareline.cli.completing import complete_exchange, complete_queue
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import path_of
from hareline.cli.values import typed_pairs

app = Group("exchange", help="Declare and delete exchanges.")

_exchange = argument("exchange", shell_complete=complete_exchange, help="The exchange.")
_destination = argument(
    "destination", shell_complete=complete_queue, help="The queue, or exchange."
)
_to_exchange = option(
    "--to-exchange", is_flag=True, help="DESTINATION is an exchange, not a queue."
)
_arguments = option(
    "--argument",
    "-a",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument, its value as JSON or text; may be given again.",
)
_routing_key = option(
    "--routing-key", "-k", metavar="KEY", default="", show_default=False, help="Routing key."
)


@client_command(app)
@_exchange
@option(
    "--type",
    "kind",
    metavar="TYPE",
    default="direct",
    help="direct, fanout, topic, headers or another one.",
)
@option("--durable/--transient", default=True, help="Kept over a restart, or gone after it.")
@option("--auto-delete", is_flag=True, help="Deleted with its last binding.")
@option("--internal", is_flag=True, help="Clients cannot publish to it.")
@_arguments
def declare(
    session: Session,
    exchange: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    argument: tuple[str, ...],
) -> None:
    """Declare an exchange; the same one again is no error."""
    body = {
        "type": kind,
        "durable": durable,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": typed_pairs(argument, "--argument"),
    }
    what = f"exchange '{exchange}' in vhost '{session.one_vhost}'"
    is_new = session.api.put(path_of("exchanges", session.one_vhost, exchange), body, what=what)
    session.out.done(f"{what}: {'declared' if is_new else 'exists'}", created=is_new)


@client_command(app)
@_exchange
@option("--if-unused", is_flag=True, help="Only if it has no bindings.")
def delete(session: Session, exchange: str, if_unused: bool) -> None:
    """Delete an exchange and its bindings."""
    what = f"exchange '{exchange}' in vhost '{session.one_vhost}'"
    query = {"if-unused": "true"} if if_unused else None
    session.api.delete(path_of("exchanges", session.one_vhost, exchange), query, what=what)
    session.out.done(f"{what}: deleted", deleted=exchange)


@client_command()
@_exchange
@_destination
@_routing_key
@_arguments
@_to_exchange
def bind(
    session: Session,
    exchange: str,
    destination: str,
    routing_key: str,
    argument: tuple[str, ...],
    to_exchange: bool,
) -> None:
    """Bind a queue or exchange to an exchange."""
    kind = "e" if to_exchange else "q"
    path = path_of("bindings", session.one_vhost, "e", exchange, kind, destination)
    body = {"routing_key": routing_key, "arguments": typed_pairs(argument, "--argument")}
    session.api.post(path, body, what=_ends(session, exchange, destination, to_exchange))
    session.out.done(
        f"bound '{destination}' to '{exchange}'", source=exchange, destination=destination, **body
    )


@client_command()
@_exchange
@_destination
@_routing_key
@_arguments
@_to_exchange
def unbind(
    session: Session,
    exchange: str,
    destination: str,
    routing_key: str,
    argument: tuple[str, ...],
    to_exchange: bool,
) -> None:
    """Remove a binding, by its routing key and arguments."""
    kind = "e" if to_exchange else "q"
    path = path_of("bindings", session.one_vhost, "e", exchange, kind, destination)
    what = _ends(session, exchange, destination, to_exchange)
    arguments = typed_pairs(argument, "--argument")
    rows = [
        row
        for row in session.api.get(path, what=what)
        if row["routing_key"] == routing_key and row["arguments"] == arguments
    ]
    if not rows:
        raise CommandFailed(
            f"no binding from '{exchange}' to '{destination}' with routing key '{routing_key}' "
            f"and these arguments in vhost '{session.one_vhost}'",
            ExitStatus.NOT_FOUND,
        )
    session.api.delete(f"{path}{path_of(rows[0]['properties_key'])}", what=what)
    session.out.done(
        f"unbound '{destination}' from '{exchange}'",
        source=exchange,
        destination=destination,
        routing_key=routing_key,
    )


def _ends(session: Session, exchange: str, destination: str, to_exchange: bool) -> str:
    kind = "exchange" if to_exchange else "queue"
    return f"exchange '{exchange}' or {kind} '{destination}' in vhost '{session.one_vhost}'"
