"""``hareline exchange``, ``bind`` and ``unbind``: change what routes messages."""

from __future__ import annotations

from typing import Annotated

import typer

from hareline.cli.client_command import Session, client_command
from hareline.cli.completing import complete_exchange, complete_queue
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import path_of
from hareline.cli.lean import new_app, new_group
from hareline.cli.values import typed_pairs

app = new_group("exchange", "Declare and delete exchanges.")
bind_app = new_app()
unbind_app = new_app()

_Exchange = Annotated[
    str,
    typer.Argument(metavar="EXCHANGE", help="The exchange.", autocompletion=complete_exchange),
]
_Destination = Annotated[
    str,
    typer.Argument(
        metavar="DESTINATION", help="The queue, or exchange.", autocompletion=complete_queue
    ),
]
_ToExchange = Annotated[
    bool, typer.Option("--to-exchange", help="DESTINATION is an exchange, not a queue.")
]
_Arguments = Annotated[
    list[str],
    typer.Option(
        "--argument",
        "-a",
        metavar="NAME=VALUE",
        help="An argument, its value as JSON or text; may be given again.",
    ),
]
_RoutingKey = Annotated[
    str, typer.Option("--routing-key", "-k", metavar="KEY", help="Routing key.")
]


@client_command(app)
def declare(
    session: Session,
    exchange: _Exchange,
    kind: Annotated[
        str,
        typer.Option(
            "--type", metavar="TYPE", help="direct, fanout, topic, headers or another one."
        ),
    ] = "direct",
    durable: Annotated[
        bool, typer.Option("--durable/--transient", help="Kept over a restart, or gone after it.")
    ] = True,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Deleted with its last binding.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Clients cannot publish to it.")
    ] = False,
    argument: _Arguments = [],  # noqa: B006 - Typer makes a new one for each run
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
def delete(
    session: Session,
    exchange: _Exchange,
    if_unused: Annotated[
        bool, typer.Option("--if-unused", help="Only if it has no bindings.")
    ] = False,
) -> None:
    """Delete an exchange and its bindings."""
    what = f"exchange '{exchange}' in vhost '{session.one_vhost}'"
    query = {"if-unused": "true"} if if_unused else None
    session.api.delete(path_of("exchanges", session.one_vhost, exchange), query, what=what)
    session.out.done(f"{what}: deleted", deleted=exchange)


@client_command(bind_app)
def bind(
    session: Session,
    exchange: _Exchange,
    destination: _Destination,
    routing_key: _RoutingKey = "",
    argument: _Arguments = [],  # noqa: B006
    to_exchange: _ToExchange = False,
) -> None:
    """Bind a queue or exchange to an exchange."""
    kind = "e" if to_exchange else "q"
    path = path_of("bindings", session.one_vhost, "e", exchange, kind, destination)
    body = {"routing_key": routing_key, "arguments": typed_pairs(argument, "--argument")}
    session.api.post(path, body, what=_ends(session, exchange, destination, to_exchange))
    session.out.done(
        f"bound '{destination}' to '{exchange}'", source=exchange, destination=destination, **body
    )


@client_command(unbind_app)
def unbind(
    session: Session,
    exchange: _Exchange,
    destination: _Destination,
    routing_key: _RoutingKey = "",
    argument: _Arguments = [],  # noqa: B006
    to_exchange: _ToExchange = False,
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
