"""What connections and channels say of why they wait: keys of ours beside RabbitMQ's ``state``.

Called by ``api.connections`` and ``api.channels``. Invariant: ``blocked_reason`` is null exactly
where ``blocked_by`` is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from hareline.statistics.blocking import Blocked


class BlockedBy(BaseModel):
    """A reason to wait: memory, disk, queue, behind, commit, output, or client.

    ``limit``: the argument of the full queue; ``value`` of ``limit_value`` is used.
    """

    reason: str
    text: str
    since_ms: int | None
    vhost: str | None
    queue: str | None
    limit: str | None
    limit_value: int | None
    value: int | None
    channel: int | None


def blocking_json(reasons: Sequence[Blocked]) -> dict[str, Any]:
    """The keys of a connection or channel; the times are epoch milliseconds."""
    known = [each.since_ms for each in reasons if each.since_ms is not None]
    return {
        "blocked_reason": "; ".join(each.text for each in reasons) or None,
        "blocked_since_ms": min(known, default=None),
        "blocked_by": [each._asdict() for each in reasons],
    }


def blocked_since_ms(reasons: Sequence[Blocked]) -> int:
    """To sort by: when the first reason began; 0 where nothing blocks or no time is known."""
    return min((each.since_ms for each in reasons if each.since_ms is not None), default=0)
