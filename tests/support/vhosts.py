"""A virtual host with a manual turn and clock, for tests of the model."""

from __future__ import annotations

from hareline.broker.vhost import VirtualHost
from hareline.events import Event, Report
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.storage.memory import MemoryDefinitions, MemoryStore
from hareline.turn import Turn
from tests.support.timers import ManualTimers


def forget_report(event: Event, **fields: object) -> None:
    """Nobody reads the log of this virtual host."""


def make_vhost(
    turn: Turn,
    name: str = "/",
    timers: ManualTimers | None = None,
    *,
    store: MessageStore | None = None,
    definitions: DefinitionStore | None = None,
    report: Report = forget_report,
) -> VirtualHost:
    """``timers`` moves its clock; None: a clock that stands still."""
    timers = timers or ManualTimers()
    return VirtualHost(
        name,
        turn,
        clock=timers.clock,
        timers=timers,
        report=report,
        store=store or MemoryStore(),
        definitions=definitions or MemoryDefinitions(),
    )
