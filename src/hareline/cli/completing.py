"""What the shell completes: names of queues, exchanges, users and the like, asked of the broker.

Called by Typer while a command line is written. Invariant: completion never asks for a password,
never prints, and gives up after a second; it then offers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import typer

from hareline.cli.failures import CommandFailed
from hareline.cli.http_client import Api, path_of
from hareline.cli.target import Flags, config_file, read_target

_PATIENCE_S: Final = 1.0
_NAMES_MAX: Final = 200


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of queues that begin so, in the virtual host of the command line."""
    return _names(ctx, incomplete, "queues", is_paged=True)


def complete_exchange(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "exchanges", is_paged=True)


def complete_connection(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "connections", is_paged=True, has_vhost=False)


def complete_policy(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "policies")


def complete_user(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "users", has_vhost=False)


def complete_vhost(ctx: typer.Context, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "vhosts", has_vhost=False)


def complete_nothing() -> list[str]:
    """For names that are too many or too long to be offered."""
    return []


def complete_target(incomplete: str) -> list[str]:
    """Names of targets in the client's file that begin so."""
    import tomllib

    try:
        tree = tomllib.loads(config_file(os.environ).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    targets = tree.get("targets")
    return [name for name in targets if name.startswith(incomplete)] if targets else []


Completer = Callable[..., list[str]]


def _names(
    ctx: Any, incomplete: str, kind: str, *, is_paged: bool = False, has_vhost: bool = True
) -> list[str]:
    given = ctx.params
    flags = Flags(
        target=given.get("target"),
        url=given.get("url"),
        user=given.get("user"),
        password_file=given.get("password_file"),
        ca_file=given.get("ca_file"),
        vhost=given.get("vhost"),
    )
    try:
        target = read_target(flags, os.environ)
        password = target.password(may_ask=False)
        target = replace(target, timeout_s=_PATIENCE_S).with_password(password)
        path = path_of(kind, target.vhost or "/") if has_vhost else path_of(kind)
        query: dict[str, Any] = {"columns": "name"}
        if is_paged:
            import re

            query |= {"page": 1, "page_size": _NAMES_MAX}
            query |= {"name": f"^{re.escape(incomplete)}", "use_regex": "true"}
        with closing(Api(target)) as api:
            answer = api.get(path, query)
        rows = answer.get("items", []) if isinstance(answer, dict) else answer
        names = [row["name"] for row in rows]
    except (CommandFailed, LookupError, TypeError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]
