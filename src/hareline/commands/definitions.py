"""``hareline definitions``: export and import users, virtual hosts, queues, bindings and policies.

The file is RabbitMQ's, so one that was exported there can be imported here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hareline.commands.client_command import Session, client_command
from hareline.commands.failures import CommandFailed, ExitStatus
from hareline.commands.http_client import path_of
from hareline.commands.lean import new_group

app = new_group("definitions", "Export and import what is declared.")


@client_command(app)
def export(
    session: Session,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Without it, standard output.", show_default=False),
    ] = None,
) -> None:
    """Write definitions as JSON, all or of one virtual host.

    Messages are not in the file. It has password hashes, so only you can read it.
    """
    answer = session.api.get(_path(session), what=f"vhost '{session.vhost}'")
    text = json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
    if file is None:
        sys.stdout.write(text)
        return
    _write_private(file, text)
    session.out.done(f"{file}: {_counted(answer)}", file=str(file))


@client_command(app, "import")
def import_definitions(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file, or - for input.")],
) -> None:
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
    answer = session.api.post(_path(session), definitions, what=name, is_long=True)
    notes = _notes(answer)
    session.out.done(f"{name}: imported {_counted(definitions)}", imported=name, report=answer)
    if not session.out.is_json:
        for note in notes:
            session.out.line(note)


def _path(session: Session) -> str:
    parts = ["definitions"] if session.vhost is None else ["definitions", session.vhost]
    return path_of(*parts)


def _counted(definitions: dict[str, Any]) -> str:
    """``3 users, 2 queues``."""
    counts = [
        f"{len(rows)} {kind.replace('_', ' ')}"
        for kind, rows in definitions.items()
        if isinstance(rows, list) and rows
    ]
    return ", ".join(counts) or "nothing"


def _notes(answer: Any) -> list[str]:
    """What the broker says of the import: a sentence for each thing that it could not carry."""
    if not isinstance(answer, dict):
        return []
    found = [
        each
        for key in ("skipped", "notes", "problems", "warnings")
        for each in answer.get(key) or []
    ]
    return [
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in found
    ]


def _write_private(file: Path, text: str) -> None:
    import os

    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
