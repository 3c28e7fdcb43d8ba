"""A recovery on the event loop: in shares, and its progress for people.

``server`` takes the steps of ``storage.disk.opening`` and ``storage.recovery`` through
``in_shares``, so that signals are heard while gigabytes are read, and hands ``RecoveryLog`` to
whatever it opens. Invariant: a small recovery shows neither a percentage nor a bar.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import Final

from hareline import events
from hareline.reporting import report
from hareline.storage.recovery.reports import RecoveryListener

# The steps of a recovery are small: the loop gets a turn after this time, not after each step.
RECOVERY_SHARE_S: Final = 0.02
PROGRESS_STEP_PERCENT: Final = 10
PROGRESS_MIN_WORK: Final = 128 << 20  # less is done before a percentage or a bar could be read
_PERCENT: Final = 100

# What is done and what there is to do, as ``RecoveryProgress`` counts it.
ShowProgress = Callable[[int, int], None]


class RecoveryLog(RecoveryListener):
    """Shows progress, or logs it as percentages; logs everything else.

    ``show_progress`` None: there is no terminal to show it on.
    """

    def __init__(self, show_progress: ShowProgress | None) -> None:
        self._show_progress = show_progress
        self._percent = 0

    def on_progress(self, done: int, all_work: int) -> None:
        if all_work < PROGRESS_MIN_WORK:
            return
        if self._show_progress is not None:
            self._show_progress(done, all_work)
        else:
            percent = done * _PERCENT // all_work
            percent -= percent % PROGRESS_STEP_PERCENT
            if percent > self._percent:
                self._percent = percent
                report(events.RECOVERY_PROGRESS, percent=percent)

    def on_damage(self, problem: str, action: str) -> None:
        report(events.JOURNAL_DAMAGED, problem=problem, action=action)

    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        report(events.DEFINITION_IMPOSSIBLE, what=what, problem=problem, vhost=vhost)


async def in_shares(steps: Generator[None, None, None]) -> None:
    """Take all steps; signals and the event loop get a turn in between."""
    try:
        due = time.monotonic() + RECOVERY_SHARE_S
        for _ in steps:
            if time.monotonic() >= due:
                await asyncio.sleep(0)
                due = time.monotonic() + RECOVERY_SHARE_S
    finally:
        steps.close()
