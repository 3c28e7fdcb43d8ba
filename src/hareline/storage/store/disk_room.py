"""Room on the disk: the spare segment, and the alarm while there is none.

The next segment is made ahead of need, so what was accepted still fits when the disk is full; then
a spare is tried again from time to time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from hareline.storage.journal.syncer import Syncer, Task
from hareline.storage.journal.upkeep import ensure_spare
from hareline.storage.journal.writer import JournalWriter, is_out_of_space

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
        self._syncer.submit(self._spare(self._on_spare))

    def _spare(self, on_done: Callable[[OSError | None], None]) -> Task[OSError | None]:
        return Task(partial(ensure_spare, self._writer, self._writer.next_number), on_done)

    def set_full(self, is_full: bool) -> None:
        """Note what a write or a spare has found."""
        if is_full != self.is_full:
            self.is_full = is_full
            self._on_full(is_full)

    def close(self) -> None:
        """Try no more spares: the store ends."""
        self._is_closed = True

    def _on_spare(self, error: OSError | None) -> None:
        if error is None:
            self.set_full(False)
            return
        if not self.is_full:
            self._report(f"{self._writer.directory}: no spare segment: {error.strerror}")
        if is_out_of_space(error):
            self.set_full(True)
            if not self._is_closed and not self._is_retry_due:
                self._is_retry_due = True
                self._syncer.submit(self._spare(self._on_retry), SPARE_RETRY_S)

    def _on_retry(self, error: OSError | None) -> None:
        self._is_retry_due = False
        self._on_spare(error)
