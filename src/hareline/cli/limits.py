"""``hareline user limits`` and ``hareline vhost limits``: how much of something there may be.

One command for both; ``cli.user`` and ``cli.vhost`` add it to their groups.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hareline.cli.client_command import Session, client_command
from hareline.cli.completing import Completer
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import path_of
from hareline.cli.output import Column
from hareline.cli.values import pairs


def add_limits(app: typer.Typer, kind: str, title: str, complete: Completer, names: str) -> None:
    """Add ``limits`` to the group of this ``kind``, "user" or "vhost"; ``names``: for the help."""
    Name = Annotated[  # noqa: N806 - a type
        str, typer.Argument(metavar="NAME", help=f"The {title}.", autocompletion=complete)
    ]
    Limits = Annotated[  # noqa: N806
        list[str],
        typer.Argument(
            metavar="LIMIT=N",
            help=f"{names}; nothing behind the = removes a limit.",
            show_default=False,
        ),
    ]

    def limits(session: Session, name: Name, limit: Limits = []) -> None:  # noqa: B006
        what, path = f"{title} '{name}'", (f"{kind}-limits", name)
        wanted = {key: _number(key, text) for key, text in pairs(limit, "LIMIT").items()}
        session.api.get(path_of(f"{kind}s", name), what=what)  # a limit is kept for no other
        for key, number in wanted.items():
            if number is None:
                session.api.delete(path_of(*path, key), what=f"limit '{key}' of {what}")
            else:
                session.api.put(path_of(*path, key), {"value": number}, what=what)
        found = session.api.get(path_of(*path))
        values = found[0]["value"] if found else {}
        rows = [{"limit": key, "value": value} for key, value in values.items()]
        session.out.table((Column("limit", "limit"), Column("value", "value", "count")), rows)

    limits.__annotations__ = {"session": Session, "name": Name, "limit": Limits, "return": None}
    limits.__doc__ = (
        f"Show or set the limits of a {title}.\n\n"
        "Shows them as they are then. 0 forbids all, a negative number sets no limit."
    )
    client_command(app, "limits")(limits)


def _number(key: str, text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise CommandFailed(f"{key}: '{text}' is not a whole number", ExitStatus.USAGE) from None
