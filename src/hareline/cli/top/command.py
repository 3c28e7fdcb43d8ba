"""``hareline top``: reads, draws and listens for keys until `q`.

Without a terminal it prints one snapshot as text. Invariant: the terminal is left as it was found.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from click import option

from hareline.cli.command import Number, Session, client_command
from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.output import Column
from hareline.cli.top.reading import (
    QUEUE_ORDERS,
    Snapshot,
    View,
    columns_of,
    read,
)

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

    from hareline.cli.progress import console
    from hareline.cli.top.keys import Keys
    from hareline.cli.top.screen import FRAME_LINES, draw

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
