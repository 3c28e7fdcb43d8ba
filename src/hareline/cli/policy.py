"""``hareline policy``: list, set and clear policies and operator policies."""

from __future__ import annotations

from typing import Final

from click import argument, option

from hareline.cli.command import WHOLE, Group, OneOf, Session, client_command
from hareline.cli.completing import complete_policy
from hareline.cli.http_client import path_of
from hareline.cli.listing import compiled
from hareline.cli.output import Column
from hareline.cli.values import json_object, typed_pairs

app = Group("policy", help="List, set and clear policies.")

_COLUMNS: Final = (
    Column("vhost", "vhost"),
    Column("name", "name"),
    Column("pattern", "pattern"),
    Column("apply-to", "apply-to"),
    Column("priority", "priority", "count"),
    Column("definition", "definition"),
)
_operator = option(
    "--operator", is_flag=True, help="An operator policy, which limits other policies."
)
_name = argument("name", shell_complete=complete_policy, help="The policy.")


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


@client_command(app, "list")
@_operator
def list_policies(session: Session, operator: bool) -> None:
    """List policies.

    Columns: vhost, name, pattern, apply-to, priority, definition. A policy whose pattern takes too
    long for some names, and so is not applied to them, is named on standard error.
    """
    parts = [_kind(operator)] if session.vhost is None else [_kind(operator), session.vhost]
    what = f"vhost '{session.vhost}'"
    policies = session.api.get(path_of(*parts), what=what)
    session.out.table(_COLUMNS, policies)
    for policy in policies:
        if policy.get("slow_count"):
            session.out.warn(
                f"policy '{policy['name']}' in vhost '{policy['vhost']}': its pattern takes too "
                f"long for {policy['slow_count']} names, such as '{policy['slow_names'][0]}', and "
                "it is not applied to these; make the pattern simpler"
            )


@client_command(app, "set")
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
def set_policy(
    session: Session,
    name: str,
    pattern: str,
    definition: tuple[str, ...],
    apply_to: str,
    priority: int,
    operator: bool,
) -> None:
    """Set a policy for all queues and exchanges whose name matches.

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
    is_new = session.api.put(path_of(_kind(operator), vhost, name), body, what=what)
    session.out.done(f"{what}: {'set' if is_new else 'replaced'}", created=is_new)


@client_command(app)
@_name
@_operator
def clear(session: Session, name: str, operator: bool) -> None:
    """Remove a policy."""
    what = f"policy '{name}' in vhost '{session.one_vhost}'"
    session.api.delete(path_of(_kind(operator), session.one_vhost, name), what=what)
    session.out.done(f"{what}: cleared", cleared=name)
