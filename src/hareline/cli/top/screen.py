"""Draws a snapshot for a terminal of any size from 60 columns by 12 rows.

Invariant: what is drawn is never wider or higher than the terminal, and no name of a queue can
change the terminal's state.
"""

from __future__ import annotations

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hareline.cli.output import duration, rate, shown, value_at
from hareline.cli.top.reading import Snapshot, View, columns_of
from hareline.octets import in_units

#: Lines that are not rows of the table: figures, a blank one, title, heading, keys.
FRAME_LINES: Final = 8
_RIGHT: Final = {"count", "rate", "octets", "octet_rate"}


def draw(snapshot: Snapshot, view: View, width: int, height: int) -> RenderableType:
    """The whole screen."""
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
    line = Text(text)
    line.truncate(width, overflow="ellipsis")
    return line
