"""``hareline top``: a live screen of rates, depths, and the busiest queues and connections.

However many queues there are, the broker sorts and sends one screen of them. Without a terminal one
snapshot is printed as text. Invariant: nothing drawn is wider or higher than the terminal, no name
of a queue can change its state, and its mode is put back, whatever ends the command.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from click import option

from hareline.cli.command import Number, Session, client_command
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.http_client import Api, path_of
from hareline.cli.listing import Query, Resource
from hareline.cli.output import Column, console, duration, rate, shown, value_at
from hareline.cli.resources import CONNECTIONS, QUEUES
from hareline.octets import in_units

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

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
    """Choices of the user. ``table``: `queues` or `connections`."""

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
    """Contents of the screen now; a refusal becomes ``problem``. Raises for a refused login."""
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
        return Snapshot(overview, next(iter(api.nodes() or []), {}), query.rows(api))
    except CommandFailed as error:
        if error.status is ExitStatus.DENIED:
            raise
        return Snapshot(problem=str(error))


#: Lines that are not rows of the table: figures, a blank one, title, heading, keys.
FRAME_LINES: Final = 8
_RIGHT: Final = {"count", "rate", "octets", "octet_rate"}


def draw(snapshot: Snapshot, view: View, width: int, height: int) -> RenderableType:
    """The whole screen."""
    from rich.console import Group
    from rich.text import Text

    lines = [_cut(line, width) for line in _figures(snapshot)]
    title = f"{view.table} by {view.orders[view.order]}"
    if view.vhost is not None:
        title += f" in vhost '{view.vhost}'"
    if view.is_paused:
        title += " (paused)"
    if snapshot.problem:
        heading = Text(f"! {snapshot.problem}", style="red")
    else:
        heading = Text(title, style="bold")
    heading.truncate(width, overflow="ellipsis")
    rows = max(0, height - FRAME_LINES)
    keys = ", ".join(f"{key} {title}" for key, title in view.orders.items())
    other = "connections" if view.table == "queues" else "queues"
    foot = [_cut(f"sort: {keys}", width), _cut(f"tab {other}, p pause, q quit", width)]
    for line in foot:
        line.stylize("dim")
    table = _table(snapshot.rows[:rows], view, width)
    blank = [Text("") for _ in range(rows - len(snapshot.rows[:rows]))]
    return Group(*lines, Text(""), heading, table, *blank, *foot)


def _figures(snapshot: Snapshot) -> list[str]:
    overview, node = snapshot.overview, snapshot.node

    def of(path: str, source: Any = overview) -> float:
        value = value_at(source, path)
        return value if isinstance(value, int | float) else 0

    name = f"{overview.get('product_name', '')} {overview.get('product_version', '')}".strip()
    alarms = [
        word
        for word, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm"))
        if node.get(key)
    ]
    alarm = f"  ALARM: {', '.join(alarms)}" if alarms else ""
    up = duration(of("uptime", node) / 1000)
    return [
        f"{name or 'no broker'}  {overview.get('node', '')}  up {up}{alarm}",
        f"in {rate(of('message_stats.publish_details.rate'))}  "
        f"out {rate(of('message_stats.deliver_get_details.rate'))}  "
        f"acked {rate(of('message_stats.ack_details.rate'))}  "
        f"ready {of('queue_totals.messages_ready'):,.0f}  "
        f"unacked {of('queue_totals.messages_unacknowledged'):,.0f}",
        f"connections {of('object_totals.connections'):,.0f}  "
        f"channels {of('object_totals.channels'):,.0f}  "
        f"queues {of('object_totals.queues'):,.0f}  "
        f"consumers {of('object_totals.consumers'):,.0f}  "
        f"memory {in_units(of('mem_used', node))}  disk free {in_units(of('disk_free', node))}",
    ]


def _table(rows: list[dict[str, Any]], view: View, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, pad_edge=False, header_style="reverse", width=width, padding=(0, 1, 0, 0)
    )
    columns = columns_of(view, width)
    for column in columns:
        is_right = column.kind in _RIGHT
        table.add_column(
            Text(column.title),
            justify="right" if is_right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=3 if column.title == "name" else None,
            min_width=8 if column.title == "name" else len(column.title),
        )
    for row in rows:
        table.add_row(*(Text(shown(value_at(row, c.path), c.kind)) for c in columns))
    return table


def _cut(text: str, width: int) -> Text:
    from rich.text import Text

    line = Text(text)
    line.truncate(width, overflow="ellipsis")
    return line


class Keys:
    """``next(seconds)`` waits at most that time for a key."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._mode: list[Any] = []
        self._typed = b""  # read, and not given out yet

    def __enter__(self) -> Self:
        self._mode = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._mode)

    def next(self, seconds: float) -> str | None:
        """The next key, or None; the end of the input is `q`."""
        if not self._typed:
            ready, _, _ = select.select([self._fd], [], [], seconds)
            if not ready:
                return None
            self._typed = os.read(self._fd, 32)
            if not self._typed:
                return "q"
        key, self._typed = self._typed[:1], self._typed[1:]
        if key == b"\x1b":  # arrows and the like come as a sequence, which has no key of ours
            self._typed = b""
            return None
        return key.decode("latin-1")


_ROWS_WITHOUT_TERMINAL: Final = 20
_WIDTH_WITHOUT_TERMINAL: Final = 200
_WAIT_MIN_S: Final = 0.05


@client_command()
@option("--interval", "-n", type=Number(0.2), default=2.0, help="Between two looks.")
@option("--sort", metavar="COLUMN", default="in", help=", ".join(QUEUE_ORDERS.values()))
@option("--connections", is_flag=True, help="Begin with connections.")
@option("--name", metavar="REGEX", help="Only those whose name matches.")
def top(session: Session, interval: float, sort: str, connections: bool, name: str | None) -> None:
    """Watch the busiest queues and connections; q ends it.

    Keys sort (they are shown at the bottom), tab changes between queues and connections, p pauses.
    Without a terminal, or with --json, one snapshot is printed.
    """
    view = View("connections" if connections else "queues", vhost=session.vhost, name=name)
    keys = {title: key for key, title in view.orders.items()}
    if sort in keys and connections:
        view.connection_order = keys[sort]
    elif sort in keys:
        view.queue_order = keys[sort]
    elif not (connections and sort in QUEUE_ORDERS.values()):
        raise CommandFailed(f"--sort: '{sort}' is not one of {', '.join(keys)}", ExitStatus.USAGE)
    if session.out.is_json or not (session.out.is_terminal and sys.stdin.isatty()):
        _print_once(session, view)
        return
    _watch(session, view, interval)


def _print_once(session: Session, view: View) -> None:
    snapshot = read(session.api, view, _ROWS_WITHOUT_TERMINAL, _WIDTH_WITHOUT_TERMINAL)
    if snapshot.problem:
        raise CommandFailed(snapshot.problem, ExitStatus.UNREACHABLE)
    if session.out.is_json:
        session.out.json(
            {"overview": snapshot.overview, "node": snapshot.node, view.table: snapshot.rows}
        )
        return
    columns: list[Column] = columns_of(view, _WIDTH_WITHOUT_TERMINAL)
    session.out.table(columns, snapshot.rows)


def _watch(session: Session, view: View, interval_s: float) -> None:
    from rich.live import Live

    out = console()
    # Asked for now, because the screen would cover the question.
    session.target = session.target.with_password(session.target.password())
    snapshot = Snapshot(problem="asking the broker ...")
    with Keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
        next_look = 0.0
        while True:
            width, height = out.size
            now = time.monotonic()
            if now >= next_look and not view.is_paused:
                fresh = read(session.api, view, max(1, height - FRAME_LINES), width)
                # What was seen last stays on the screen beside the problem.
                snapshot = fresh if not fresh.problem else _stale(snapshot, fresh.problem)
                next_look = time.monotonic() + interval_s
            live.update(draw(snapshot, view, width, height), refresh=True)
            wait = interval_s if view.is_paused else next_look - time.monotonic()
            key = keys.next(max(_WAIT_MIN_S, wait))
            if key is not None:
                before = (view.table, view.order)
                if not view.press(key):
                    return
                if before != (view.table, view.order):
                    next_look = 0.0
                    snapshot = Snapshot(snapshot.overview, snapshot.node)


def _stale(snapshot: Snapshot, problem: str) -> Snapshot:
    return Snapshot(snapshot.overview, snapshot.node, snapshot.rows, problem)
