"""What the broker measures of itself, as the metrics show it.

``hareline.server.http_side`` puts them together: the times of the event loop are those of
``net.sampling``, the journal's writer is handed ``JournalMeter.on_batch``.

Invariant: an observation costs a search among a dozen bounds, and no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hareline.statistics.timings import Timings


class JournalMeter:
    """How long batches of the journal take. ``octets``: of all of them."""

    __slots__ = ("octets", "syncs", "writes")

    def __init__(self) -> None:
        self.writes = Timings()
        self.syncs = Timings()
        self.octets = 0

    def on_batch(self, octets: int, write_s: float, sync_s: float | None) -> None:
        """A batch is on the disk; ``sync_s`` None: it was written and not synced."""
        self.octets += octets
        self.writes.add(write_s)
        if sync_s is not None:
            self.syncs.add(sync_s)


@dataclass(frozen=True, slots=True)
class Meters:
    """``loop_lag``: how late the event loop is; ``collections``: of the garbage collector."""

    loop_lag: Timings = field(default_factory=Timings)
    turns: Timings = field(default_factory=Timings)
    collections: Timings = field(default_factory=Timings)
    journal: JournalMeter = field(default_factory=JournalMeter)
