"""What one screen shows, read from the API: a snapshot of plain data.

Invariant: however many queues there are, the broker sorts and sends one screen of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, path_of
from hareline.cli.listing import Query, Resource
from hareline.cli.output import Column
from hareline.cli.resources import CONNECTIONS, QUEUES

#: Key on the screen -> (view, column that it sorts by, largest first).
QUEUE_ORDERS: Final = {
    "i": "in",
    "o": "out",
    "r": "ready",
    "u": "unacked",
    "m": "messages",
    "c": "consumers",
    "n": "name",
}
CONNECTION_ORDERS: Final = {
    "i": "received",
    "o": "sent",
    "c": "channels",
    "n": "name",
}


@dataclass
class View:
    """What the user wants to see. ``table``: `queues` or `connections`."""

    table: str = "queues"
    queue_order: str = "i"
    connection_order: str = "i"
    vhost: str | None = None
    is_paused: bool = False
    name: str | None = None

    @property
    def resource(self) -> Resource:
        return QUEUES if self.table == "queues" else CONNECTIONS

    @property
    def orders(self) -> dict[str, str]:
        return QUEUE_ORDERS if self.table == "queues" else CONNECTION_ORDERS

    @property
    def order(self) -> str:
        return self.queue_order if self.table == "queues" else self.connection_order

    def press(self, key: str) -> bool:
        """Change the view by a key; False if the key ends the command."""
        if key in {"q", "Q", "\x03", "\x04"}:
            return False
        if key == "\t":
            self.table = "connections" if self.table == "queues" else "queues"
        elif key in {"p", " "}:
            self.is_paused = not self.is_paused
        elif key in self.orders:
            if self.table == "queues":
                self.queue_order = key
            else:
                self.connection_order = key
        return True


@dataclass(frozen=True)
class Snapshot:
    """``problem``: why there is nothing new, for the status line."""

    overview: dict[str, Any] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""


def columns_of(view: View, width: int) -> list[Column]:
    """The columns that have room; those of the narrowest screen first."""
    if view.table == "queues":
        wanted = ["name", "ready", "unacked", "consumers", "in", "out"]
        wide = ["vhost", "type", "state", "messages"]
    else:
        wanted = ["name", "user", "channels", "received", "sent"]
        wide = ["client", "vhost", "state", "since"]
    room = max(0, (width - 80) // 14)
    chosen = {*wanted, *wide[:room], view.orders[view.order]}
    return [each for each in view.resource.columns if each.title in chosen]


def read(api: Api, view: View, row_count: int, width: int) -> Snapshot:
    """What the screen shows now; a refusal becomes ``problem``. Raises for a refused login."""
    title = view.orders[view.order]
    try:
        overview = api.get(path_of("overview"))
        query = Query(
            view.resource,
            vhost=view.vhost,
            name=view.name,
            sort=title if title == "name" else f"-{title}",
            limit=row_count,
            columns=tuple(columns_of(view, width)),
        )
        return Snapshot(overview, _node(api), query.rows(api))
    except CommandFailed as error:
        if error.status is ExitStatus.DENIED:
            raise
        return Snapshot(problem=str(error))


def _node(api: Api) -> dict[str, Any]:
    """The first node; nothing for a user who may not see it."""
    try:
        nodes = api.get(path_of("nodes"))
    except CommandFailed as error:
        if error.status is not ExitStatus.DENIED:
            raise
        return {}
    return nodes[0] if isinstance(nodes, list) and nodes else {}
