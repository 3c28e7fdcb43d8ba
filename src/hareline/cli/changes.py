"""``hareline exchange``, ``bind``, ``connection``, ``policy``, ``definitions``: change a broker.

A file of definitions is RabbitMQ's: one that was exported there can be imported here, and `--format
rabbitmq` writes one that RabbitMQ takes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from click import argument, option

from hareline.cli.command import (
    PATH,
    WHOLE,
    Group,
    OneOf,
    Session,
    Whole,
    client_command,
    json_object,
    together,
    typed_pairs,
)
from hareline.cli.completing import (
    complete_connection,
    complete_exchange,
    complete_policy,
    complete_queue,
    complete_user,
)
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, Refused, path_of
from hareline.cli.listing import compiled
from hareline.cli.output import Column

exchange = Group("exchange", help="Declare and delete exchanges; see delayed messages.")

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


@client_command(exchange)
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


@client_command(exchange)
@_exchange
@option("--if-unused", is_flag=True, help="Only if it has no bindings.")
def delete(session: Session, exchange: str, if_unused: bool) -> None:
    """Delete an exchange and its bindings."""
    what = f"exchange '{exchange}' in vhost '{session.one_vhost}'"
    query = {"if-unused": "true"} if if_unused else None
    session.api.delete(path_of("exchanges", session.one_vhost, exchange), query, what=what)
    session.out.done(f"{what}: deleted", deleted=exchange)


_DELAYED: Final = (
    Column("offset", "offset"),
    Column("due_ms", "due", "time_ms"),
    Column("routing_key", "routing-key"),
    Column("payload_bytes", "octets"),
    Column("schedule.id", "schedule"),
    Column("schedule.cron", "cron"),
    Column("schedule.period_ms", "period-ms"),
    Column("schedule.repeat", "repeat"),
    Column("schedule.fired", "fired"),
)
_PAGE: Final = 1_000
_meant = together(
    option(
        "--schedule",
        "schedules",
        metavar="ID",
        multiple=True,
        help="The schedule of this id; may be given again.",
    ),
    option(
        "--offset",
        "offsets",
        type=Whole(0),
        multiple=True,
        help="The message of this offset; may be given again.",
    ),
    option("--all", "is_all", is_flag=True, help="All messages."),
)


@client_command(exchange)
@_exchange
@option("--limit", type=Whole(1), default=50, help="At most N messages.")
def delayed(session: Session, exchange: str, limit: int) -> None:
    """List delayed messages and schedules.

    The first to be due first. Columns: offset, due, routing-key, octets, schedule, cron,
    period-ms, repeat, fired.
    """
    path, what = _delayed(session, exchange)
    messages: list[dict[str, Any]] = []
    query: dict[str, Any] = {}
    while len(messages) < limit:
        query["count"] = min(_PAGE, limit - len(messages))
        page = session.api.get(path, query, what=what)
        messages += page["messages"]
        if page["position"] is None:
            break
        query["position"] = page["position"]
    session.out.table(_DELAYED, messages)


@client_command(exchange, "cancel-delayed")
@_exchange
@_meant
def cancel_delayed(session: Session, exchange: str, **meant: Any) -> None:
    """Delete delayed messages; a schedule sends nothing more."""
    _end_delay(session, exchange, "cancel", "cancelled", **meant)


@client_command(exchange, "fire-delayed")
@_exchange
@_meant
def fire_delayed(session: Session, exchange: str, **meant: Any) -> None:
    """Send delayed messages on now, schedules too.

    Of a schedule this is the next firing.
    """
    _end_delay(session, exchange, "fire", "fired", **meant)


def _delayed(session: Session, exchange: str) -> tuple[str, str]:
    """The path of what an exchange delays, and the exchange for a sentence."""
    vhost = session.one_vhost
    path = path_of("exchanges", vhost, exchange, "delayed")
    return path, f"exchange '{exchange}' in vhost '{vhost}'"


def _end_delay(
    session: Session,
    exchange: str,
    operation: str,
    verb: str,
    *,
    schedules: tuple[str, ...],
    offsets: tuple[int, ...],
    is_all: bool,
) -> None:
    if not schedules and not offsets and not is_all:
        raise CommandFailed("say which: --schedule, --offset or --all", ExitStatus.USAGE)
    body: dict[str, Any] = {"all": True}
    if not is_all:
        body = {"schedules": schedules, "offsets": offsets}
    path, what = _delayed(session, exchange)
    count = session.api.post(f"{path}/{operation}", body, what=what, is_long=True)[verb]
    noun = "message" if count == 1 else "messages"
    session.out.done(f"{what}: {count} {noun} {verb}", **{verb: count})
    missing = len(set(schedules)) + len(set(offsets)) - count
    if not is_all and missing > 0:
        raise CommandFailed(f"{missing} of those named are not delayed", ExitStatus.NOT_FOUND)


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


connection = Group("connection", help="Close connections.")


@client_command(connection)
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


policy = Group("policy", help="List, set and clear policies.")

_POLICIES: Final = (
    Column("vhost", "vhost"),
    Column("name", "name"),
    Column("pattern", "pattern"),
    Column("apply-to", "apply-to"),
    Column("priority", "priority", "count"),
    Column("definition", "definition"),
)
_EFFECTS: Final = (
    Column("name", "name"),
    Column("type", "type"),
    Column("policy", "policy"),
    Column("operator_policy", "operator_policy"),
    Column("changes", "changes"),
    Column("problem", "problem"),
)
_operator = option(
    "--operator", is_flag=True, help="An operator policy, which limits other policies."
)
_name = argument("name", shell_complete=complete_policy, help="The policy.")


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


@client_command(policy, "list")
@_operator
def list_policies(session: Session, operator: bool) -> None:
    """List policies.

    Columns: vhost, name, pattern, apply-to, priority, definition. A policy whose pattern takes too
    long for some names, and so is not applied to them, is named on standard error.
    """
    parts = [_kind(operator)] if session.vhost is None else [_kind(operator), session.vhost]
    what = f"vhost '{session.vhost}'"
    policies = session.api.get(path_of(*parts), what=what)
    session.out.table(_POLICIES, policies)
    for policy in policies:
        if policy.get("slow_count"):
            session.out.warn(
                f"policy '{policy['name']}' in vhost '{policy['vhost']}': its pattern takes too "
                f"long for {policy['slow_count']} names, such as '{policy['slow_names'][0]}', and "
                "it is not applied to these; make the pattern simpler"
            )


@client_command(policy, "set")
@_name
@argument("pattern", help="Regular expression of the names.")
@argument(
    "definition", nargs=-1, required=True, help="KEY=VALUE, several of them, or one JSON object."
)
@option(
    "--apply-to",
    type=OneOf(["all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"]),
    metavar="KIND",
    default="all",
    help="all, queues, exchanges, or queues of one type.",
)
@option("--priority", type=WHOLE, default=0, help="The highest one counts.")
@_operator
@option("--dry-run", is_flag=True, help="Set nothing; list the queues that match, and changes.")
def set_policy(
    session: Session,
    name: str,
    pattern: str,
    definition: tuple[str, ...],
    apply_to: str,
    priority: int,
    operator: bool,
    dry_run: bool,
) -> None:
    """Set a policy for all queues and exchanges whose name matches.

    Columns of --dry-run: name, type, policy, operator_policy, changes, problem.

    Example: hareline policy set limits '^orders' max-length=1000 overflow=reject-publish
    """
    compiled(pattern, "PATTERN")
    is_json = len(definition) == 1 and definition[0].lstrip().startswith("{")
    body = {
        "pattern": pattern,
        "definition": json_object(definition[0], "DEFINITION")
        if is_json
        else typed_pairs(definition, "DEFINITION"),
        "priority": priority,
        "apply-to": apply_to,
    }
    vhost = session.one_vhost
    what = f"policy '{name}' in vhost '{vhost}'"
    if dry_run:
        preview = path_of("hareline", _kind(operator), vhost, name, "preview")
        found = session.api.post(preview, body, what=what)
        if not session.out.is_json:
            found = [{**each, "changes": _changes_text(each["changes"])} for each in found]
        session.out.table(_EFFECTS, found)
        return
    is_new = session.api.put(path_of(_kind(operator), vhost, name), body, what=what)
    session.out.done(f"{what}: {'set' if is_new else 'replaced'}", created=is_new)


def _changes_text(changes: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{each['name']} {json.dumps(each['before'])} -> {json.dumps(each['after'])}"
        for each in changes
    )


@client_command(policy)
@_name
@_operator
def clear(session: Session, name: str, operator: bool) -> None:
    """Remove a policy."""
    what = f"policy '{name}' in vhost '{session.one_vhost}'"
    session.api.delete(path_of(_kind(operator), session.one_vhost, name), what=what)
    session.out.done(f"{what}: cleared", cleared=name)


definitions = Group("definitions", help="Export and import what is declared.")


@client_command(definitions)
@argument("file", type=PATH, required=False, help="Without it, standard output.")
@option(
    "--format",
    "form",
    type=OneOf(["rabbitmq"]),
    help="rabbitmq: without what stops an import there; what is left out is said.",
)
def export(session: Session, file: Path | None, form: str | None) -> None:
    """Write definitions as JSON, all or of one virtual host.

    Messages are not in the file. It has password hashes, so only you can read it.
    """
    query = {"format": form} if form else None
    answer = session.api.get(_definitions(session.vhost), query, what=f"vhost '{session.vhost}'")
    for warning in session.api.warnings:
        session.out.warn(warning)
    text = json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
    if file is None:
        sys.stdout.write(text)
        return
    _write_private(file, text)
    session.out.done(f"{file}: {_counted(answer)}", file=str(file))


@client_command(definitions, "import")
@argument("file", type=PATH, help="The file, or - for input.")
def import_definitions(session: Session, file: Path) -> None:
    """Add what a file defines; nothing is deleted.

    With --vhost the file has the definitions of one virtual host.
    """
    name = str(file)
    text = sys.stdin.read() if name == "-" else file.read_text(encoding="utf-8")
    try:
        definitions = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"{name}: not JSON: {error}", ExitStatus.USAGE) from None
    if not isinstance(definitions, dict):
        raise CommandFailed(f"{name}: not a file of definitions", ExitStatus.USAGE)
    report = imported(session.api, session.vhost, definitions, name)
    session.out.done(f"{name}: imported {_counted(definitions)}", imported=name, report=report)
    if not session.out.is_json:
        for note in notes_of(report):
            session.out.line(note)


def imported(api: Api, vhost: str | None, definitions: Any, what: str) -> Any:
    """The report of an import, of all or into one virtual host. Raises CommandFailed.

    None from a broker that makes no report, as RabbitMQ.
    """
    query = {"report": "true"}
    return api.ask(
        "POST", _definitions(vhost), body=definitions, query=query, what=what, is_long=True
    )


def notes_of(report: Any) -> list[str]:
    """Notes on what the broker could not carry over: a line for each thing, with the reason."""
    rows = report.get("left_out") or [] if isinstance(report, dict) else []
    notes = []
    for each in rows:
        place = f" in {each['vhost']}" if each.get("vhost") else ""
        notes.append(f"{each['what']} {each['name']}{place}: {each['reason']}")
    return notes


def _definitions(vhost: str | None) -> str:
    return path_of("definitions") if vhost is None else path_of("definitions", vhost)


def _counted(definitions: dict[str, Any]) -> str:
    """``3 users, 2 queues``."""
    counts = [
        f"{len(rows)} {kind.replace('_', ' ')}"
        for kind, rows in definitions.items()
        if isinstance(rows, list) and rows
    ]
    return ", ".join(counts) or "nothing"


def _write_private(file: Path, text: str) -> None:
    import os

    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
