"""Inventory of the two brokers: queues and streams there, and room for their messages here.

Asked over RabbitMQ's HTTP API, which LavinMQ has too. Depths come from samples there, so they are
for showing; how much is left in a queue is asked over AMQP. A limit of a queue here drops or
refuses messages after they were acknowledged there, so room is asked for before each commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hareline.cli.http_client import Api, Refused, path_of

#: RabbitMQ samples the depths of queues every five seconds, so none is believed before.
SAMPLED_S: Final = 6.0
SETTLE_S: Final = 12.0
_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class SourceQueue:
    """A queue of the old broker. ``refusal``: why its messages are not moved, or empty.

    ``size_bytes``: of the bodies; 0 where that is not known.
    """

    vhost: str
    name: str
    messages: int
    is_stream: bool = False
    refusal: str = ""
    size_bytes: int = 0

    @property
    def label(self) -> str:
        """The queue, for a sentence."""
        return f"{'stream' if self.is_stream else 'queue'} '{self.name}' in vhost '{self.vhost}'"


def queues_of(api: Api, vhosts: Sequence[str]) -> list[SourceQueue]:
    """The queues by name; those of these virtual hosts, or of all if none is named."""
    paths = [path_of("queues", vhost) for vhost in vhosts] or [path_of("queues")]
    rows: Iterable[dict[str, Any]] = (row for path in paths for row in api.rows(path, {}))
    return sorted(map(_queue, rows), key=lambda each: (each.vhost, each.name))


def _queue(row: dict[str, Any]) -> SourceQueue:
    name = str(row["name"])
    arguments = row.get("arguments") or {}
    kind = row.get("type") or arguments.get("x-queue-type", "classic")
    refusal = ""
    if row.get("exclusive") or row.get("owner_pid_details"):
        refusal = "it is exclusive to a connection, and ends with that"
    elif name.startswith("amq."):
        refusal = "names that begin with 'amq.' are a broker's own, so it cannot be declared here"
    messages = int(row.get("messages") or 0)
    size_bytes = row.get("message_bytes")
    if size_bytes is None:  # LavinMQ has the two parts of it
        size_bytes = (row.get("ready_bytes") or 0) + (row.get("unacked_bytes") or 0)
    is_stream = kind == "stream"
    return SourceQueue(str(row["vhost"]), name, messages, is_stream, refusal, int(size_bytes))


def left_in(api: Api, moved: Sequence[SourceQueue], *, is_changed: bool) -> dict[SourceQueue, int]:
    """Queues that still have messages there, and how many, once the samples are of now.

    ``is_changed``: whether messages were moved, so that earlier samples are of no use.
    """
    wanted = {(each.vhost, each.name): each for each in moved if not each.is_stream}
    vhosts = sorted({vhost for vhost, _ in wanted})
    began = time.monotonic()
    while wanted:
        if is_changed and time.monotonic() < began + SAMPLED_S:
            time.sleep(_POLL_S)
            continue
        rows = {(row.vhost, row.name): row.messages for row in queues_of(api, vhosts)}
        left = {queue: rows[key] for key, queue in wanted.items() if rows.get(key)}
        if not left or time.monotonic() >= began + SETTLE_S:
            return left
        time.sleep(_POLL_S)
    return {}


#: What the limits of a queue do, by the names of both brokers, where they cost no message.
_HARMLESS: Final = frozenset({"NONE", "FLOW_TO_DISK"})
#: Limit -> the field that says how much of it is used. What consumers have may come back.
_USED: Final = {"x-max-length": "messages", "x-max-length-bytes": "message_bytes"}
_UNITS: Final = {"x-max-length": "messages", "x-max-length-bytes": "octets"}


def shortage(api: Api) -> str:
    """Resource that the broker here is short of, so that it takes no message; empty if of nothing.

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
        """Reason why a batch of this size cannot be put into the queue; empty if it can."""
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
