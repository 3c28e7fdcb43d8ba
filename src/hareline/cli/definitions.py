"""``hareline definitions``: export and import users, virtual hosts, queues, bindings and policies.

The file is RabbitMQ's, so one that was exported there can be imported here; `--format rabbitmq`
writes one that RabbitMQ takes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from click import argument, option

from hareline.cli.command import PATH, Group, OneOf, Session, client_command
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, path_of

app = Group("definitions", help="Export and import what is declared.")


@client_command(app)
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
    answer = session.api.get(_path(session.vhost), query, what=f"vhost '{session.vhost}'")
    for warning in session.api.warnings:
        session.out.warn(warning)
    text = json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
    if file is None:
        sys.stdout.write(text)
        return
    _write_private(file, text)
    session.out.done(f"{file}: {_counted(answer)}", file=str(file))


@client_command(app, "import")
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
    return api.ask("POST", _path(vhost), body=definitions, query=query, what=what, is_long=True)


def notes_of(report: Any) -> list[str]:
    """What the broker could not carry over: a line for each thing, with the reason."""
    rows = report.get("left_out") or [] if isinstance(report, dict) else []
    notes = []
    for each in rows:
        place = f" in {each['vhost']}" if each.get("vhost") else ""
        notes.append(f"{each['what']} {each['name']}{place}: {each['reason']}")
    return notes


def _path(vhost: str | None) -> str:
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
