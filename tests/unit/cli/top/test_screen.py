"""The screen fits any terminal, and no name can do anything to it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hareline.cli.top import Snapshot, View, draw

SNAPSHOT = Snapshot(
    {
        "product_name": "Hareline",
        "product_version": "1.0",
        "node": "n@host",
        "object_totals": {"queues": 1234},
        "queue_totals": {"messages_ready": 5_000_000},
        "message_stats": {"publish_details": {"rate": 12345.6}},
    },
    {"uptime": 3_600_000, "mem_used": 2**30, "mem_alarm": True},
    [
        {"name": f"queue-{n}-" + "x" * 60, "messages_ready": n * 1000, "consumers": n}
        for n in range(100)
    ],
)


def drawn(snapshot: Snapshot, view: View, width: int, height: int) -> list[str]:
    out = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    out.print(draw(snapshot, view, width, height))
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 12), (200, 60), (40, 8)])
@pytest.mark.parametrize("table", ["queues", "connections"])
def test_it_fits(width: int, height: int, table: str) -> None:
    lines = drawn(SNAPSHOT, View(table), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_80_by_24_shows_the_figures_the_order_and_the_keys() -> None:
    lines = drawn(SNAPSHOT, View(queue_order="r"), 80, 24)
    text = "\n".join(lines)
    assert lines[0].startswith("Hareline 1.0  n@host  up 01:00:00  ALARM: memory")
    assert "in 12,346/s" in lines[1]
    assert "ready 5,000,000" in lines[1]
    assert "queues 1,234" in lines[2]
    assert "queues by ready" in text
    assert "q quit" in lines[-1]
    assert sum("queue-" in line for line in lines) == 16
    assert "15,000" in text


def test_few_rows_leave_the_keys_at_the_bottom() -> None:
    snapshot = Snapshot({}, {}, SNAPSHOT.rows[:2])
    lines = drawn(snapshot, View(), 80, 24)
    assert len(lines) == 24
    assert "q quit" in lines[-1]


def test_a_problem_and_a_pause_are_shown() -> None:
    problem = Snapshot({}, {}, [], "no answer")
    assert any("! no answer" in line for line in drawn(problem, View(), 80, 24))
    paused = drawn(SNAPSHOT, View(is_paused=True, vhost="shop"), 80, 24)
    assert any("in vhost 'shop' (paused)" in line for line in paused)


def test_a_name_cannot_write_to_the_terminal() -> None:
    evil = Snapshot({}, {}, [{"name": "\x1b[2J[red]x\n\n\n"}])
    lines = drawn(evil, View(), 80, 24)
    assert len(lines) == 24
    assert any("\\x1b[2J[red]x\\n" in line for line in lines)
