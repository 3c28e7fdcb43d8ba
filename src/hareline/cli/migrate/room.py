"""Whether the broker here, and a queue of it, have room for a batch.

``moving`` asks before each commit. A limit of a queue drops or refuses messages after they were
acknowledged to the old broker, or stops the connection that moves them, and a commit says nothing
of the first. A broker short of memory or disk reads nothing, so a commit would wait in silence.
Invariant: a queue without such a limit is asked about once, and costs nothing after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hareline.cli.http_client import Api, Refused, path_of

#: What the limits of a queue do, by the names of both brokers, where they cost no message.
_HARMLESS: Final = frozenset({"NONE", "FLOW_TO_DISK"})
#: Limit -> the field that says how much of it is used. What consumers have may come back.
_USED: Final = {"x-max-length": "messages", "x-max-length-bytes": "message_bytes"}
_UNITS: Final = {"x-max-length": "messages", "x-max-length-bytes": "octets"}


def shortage(api: Api) -> str:
    """What the broker here is short of, so that it takes no message; empty if of nothing.

    Raises CommandFailed.
    """
    try:
        api.get(path_of("health", "checks", "local-alarms"))
    except Refused as refused:
        if refused.code != 503:
            raise
        alarms = refused.answer.get("alarms", []) if isinstance(refused.answer, dict) else []
        resources = [str(each.get("resource")) for each in alarms]
        return f"short of {' and '.join(resources)}" if resources else str(refused)
    return ""


class Room:
    """The limits of one queue of the broker here, as they are when this is made."""

    def __init__(self, api: Api, vhost: str, queue: str) -> None:
        """Raises CommandFailed."""
        self._api = api
        self._path = path_of("queues", vhost, queue)
        found = api.get(
            path_of("hareline", "queues", vhost, queue, "effective-arguments"),
            what=f"queue '{queue}'",
        )
        effective = {each["name"]: each["value"] for each in found["arguments"]}
        self._policy = str(effective.get("x-overflow") or "drop-head")
        self._limits = _limits(effective) if _key(self._policy) not in _HARMLESS else {}

    def problem_with(self, count: int, size_bytes: int) -> str:
        """Why a batch of this size cannot be put into the queue; empty if it can."""
        if not self._limits:
            return ""
        row = self._api.get(self._path, {"columns": ",".join(_USED.values())})
        more = {"x-max-length": count, "x-max-length-bytes": size_bytes}
        for name, limit in self._limits.items():
            used = int(row[_USED[name]])
            if used + more[name] > limit:
                return (
                    f"the queue here has {used:,} {_UNITS[name]} and a limit of {limit:,} "
                    f"({name}, {self._policy}), so it has no room for the next {more[name]:,}; "
                    "raise the limit or let consumers make room, and run the command again"
                )
        return ""


def _limits(effective: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(effective[name]) for name in _USED if effective.get(name) is not None}


def _key(policy: str) -> str:
    return policy.upper().replace("-", "_")
