"""Completion in a shell: names of queues, exchanges, users and the like, asked of the broker.

Invariant: completion never asks for a password, never prints, and gives up after a second; it then
offers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from hareline.cli.failures import CommandFailed
from hareline.cli.http_client import Api, path_of
from hareline.cli.target import Flags, config_file, read_target

_PATIENCE_S: Final = 1.0
_NAMES_MAX: Final = 200
_LOGIN: Final = ("target", "url", "user", "password_file", "ca_file", "vhost")

Completer = Callable[[Any, Any, str], list[str]]


def _names_of(kind: str, *, is_paged: bool = False, has_vhost: bool = True) -> Completer:
    """Complete names of objects, in the virtual host of the command line."""

    def complete(ctx: Any, _: Any, incomplete: str) -> list[str]:
        try:
            target = read_target(Flags(**{n: ctx.params.get(n) for n in _LOGIN}), os.environ)
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

    return complete


complete_queue = _names_of("queues", is_paged=True)
complete_exchange = _names_of("exchanges", is_paged=True)
complete_connection = _names_of("connections", is_paged=True, has_vhost=False)
complete_policy = _names_of("policies")
complete_user = _names_of("users", has_vhost=False)
complete_vhost = _names_of("vhosts", has_vhost=False)


def complete_target(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Names of targets in the client's file that begin so."""
    import tomllib

    try:
        tree = tomllib.loads(config_file(os.environ).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    targets = tree.get("targets")
    return [name for name in targets if name.startswith(incomplete)] if targets else []
