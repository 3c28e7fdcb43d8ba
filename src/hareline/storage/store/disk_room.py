"""Room on the disk: the spare segment, and the alarm while there is none.

The next segment is made ahead of need, so what was accepted still fits when the disk is full; then
a spare is tried again from time to time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.storage.journal.syncer import Syncer
from hareline.storage.journal.upkeep import MakeSpare
from hareline.storage.journal.writer import JournalWriter

SPARE_RETRY_S: Final = 1.0


class DiskRoom:
    """``is_full``: there is no spare, or a write found no room.

    ``on_full``: the alarm comes or goes. ``report``: a sentence about a spare that was not made.
    """

    __slots__ = (
        "_is_closed",
        "_is_retry_due",
        "_on_full",
        "_report",
        "_syncer",
        "_writer",
        "is_full",
    )

    def __init__(
        self,
        writer: JournalWriter,
        syncer: Syncer,
        on_full: Callable[[bool], None],
        report: Callable[[str], None],
    ) -> None:
        self._writer = writer
        self._syncer = syncer
        self._on_full = on_full
        self._report = report
        self._is_retry_due = False
        self._is_closed = False
        self.is_full = False

    def make_spare(self) -> None:
        """Have the thread make the spare segment, if there is none."""
        self._syncer.submit(MakeSpare(self._writer, self._on_spare))

    def set_full(self, is_full: bool) -> None:
        """Note what a write or a spare has found."""
        if is_full != self.is_full:
            self.is_full = is_full
            self._on_full(is_full)

    def close(self) -> None:
        """Try no more spares: the store ends."""
        self._is_closed = True

    def _on_spare(self, work: MakeSpare) -> None:
        if not work.error:
            self.set_full(False)
            return
        if not self.is_full:
            self._report(work.error)
        if work.is_out_of_space:
            self.set_full(True)
            if not self._is_closed and not self._is_retry_due:
                self._is_retry_due = True
                self._syncer.submit(MakeSpare(self._writer, self._on_retry), SPARE_RETRY_S)

    def _on_retry(self, work: MakeSpare) -> None:
        self._is_retry_due = False
        self._on_spare(work)
