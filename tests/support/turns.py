"""A turn that a test finishes by hand: no event loop, no time."""

from __future__ import annotations

from collections.abc import Callable

from hareline.turn import Turn

#: More turns in a row than any test here needs; beyond it something marks itself for ever.
TURNS_MAX = 10_000


class ManualTurn(Turn):
    """Keeps what it would hand to ``loop.call_soon`` until ``step`` or ``run`` is called."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []
        super().__init__(self.scheduled.append)

    @property
    def is_armed(self) -> bool:
        """Whether somebody has marked work since the last ``finish``."""
        return bool(self.scheduled)

    def step(self) -> None:
        """Run one end of turn; it must have been asked for, and only once."""
        assert len(self.scheduled) == 1, self.scheduled
        self.scheduled.pop()()

    def run(self) -> int:
        """Run ends of turns until nothing is marked any more; returns how many there were."""
        count = 0
        while self.scheduled:
            self.step()
            count += 1
            assert count < TURNS_MAX, "the turn never comes to rest"
        return count
