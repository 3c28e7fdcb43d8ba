"""Damage of a journal, and decisions how to go on.

The reader finds damage and asks its ``Reporter``: recovery answers by the option
``journal.on_corruption``, the offline tools by their command line.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hareline.errors import StoreError
from hareline.storage.journal.format.frame import KIND_NAMES
from hareline.storage.journal.format.positions import offset_of

_ENTRIES_SHOWN = 20


class Decision(Enum):
    """Way to go on: FAIL raises, SKIP reads the next valid octets, TRUNCATE ends the journal."""

    FAIL = "fail"
    SKIP = "skip"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class Damage:
    """Octets that were durable once and cannot be read.

    ``position``, ``octets``: where, and how many up to the next that is valid. ``what`` is wrong.
    ``kind``: what sort of record it seems to be, 0 if nothing can be said. ``entries``: (queue id,
    offset) of what the damaged record seems to hold; its checksum is wrong, so this is a guess.
    ``is_exhaustive``: these two account for all of it, if they are right; else there may be more.
    ``cut_position``, ``cut_octets``: what TRUNCATE would drop, this damage included.
    """

    path: str
    position: int
    octets: int
    what: str
    kind: int
    entries: tuple[tuple[int, int], ...]
    is_exhaustive: bool
    cut_position: int
    cut_octets: int

    def __str__(self) -> str:
        text = self.path
        if self.octets:  # 0: a file whose size is not known
            text += f", offset {offset_of(self.position)}, {self.octets} octets"
        text += f": {self.what}"
        if self.kind:
            text += f"; it seems to be a {KIND_NAMES[self.kind]} record"
        if self.entries:
            shown = ", ".join(
                f"{offset} of queue id {queue_id}"
                for queue_id, offset in self.entries[:_ENTRIES_SHOWN]
            )
            more = len(self.entries) - _ENTRIES_SHOWN
            text += f" that held entry {shown}" + (f" and {more} more" if more > 0 else "")
        return text


class JournalDamaged(StoreError):
    """Raised by the reader when the decision is FAIL."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(
            f"the journal is damaged: {damage}; truncating it there would drop "
            f"{damage.cut_octets} octets from offset {offset_of(damage.cut_position)} on"
        )
        self.damage = damage


class Reporter:
    """Receiver of what a reader reports while it reads a journal. This class skips all damage."""

    __slots__ = ()

    def on_damage(self, damage: Damage) -> Decision:
        """Return how to go on; called for each damaged stretch, in the order of the journal."""
        return Decision.SKIP

    def on_torn_tail(self, path: str, position: int, octets: int) -> None:
        """The last batch was not written whole, so it was never durable: nothing is lost.

        ``octets``: what the batch should have had, or those of the file where its header is torn.
        """

    def on_progress(self, done_octets: int, all_octets: int) -> None:
        """Called after each piece that was read, and at the end."""
