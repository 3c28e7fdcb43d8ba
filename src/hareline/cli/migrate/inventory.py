"""What the old broker has: its queues and streams, and what of them cannot be moved.

Asked over RabbitMQ's HTTP API, which LavinMQ has too. Depths come from samples there, so they are
for showing; how much is left in a queue is asked over AMQP. Invariant: a queue that is not moved
has a sentence that says why.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hareline.cli.http_client import Api, path_of

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
