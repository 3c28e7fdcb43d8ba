"""How far a recovery is: all of its parts as one number, which only grows.

The unit of work is reading one octet of the journal; all else that takes time is counted in it. How
many entries have to be loaded is known only when the journal has been read, and is estimated from
the part that has been read until then.

Invariant: what is reported never goes back, and is complete only with ``finish``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ENTRY_WORK: Final = 1_500  # 3 to 6 us for an entry that becomes an object, at 2.5 ns an octet
DEFINITION_WORK: Final = 40_000  # 100 us for a queue or a binding


class RecoveryProgress:
    """``show`` gets the work done and all the work; ``definitions``: how many there are.

    Entries that become bare numbers cost next to nothing and are not counted.
    """

    __slots__ = ("_all", "_done", "_share", "_show")

    def __init__(self, show: Callable[[int, int], None], definitions: int = 0) -> None:
        self._show = show
        self._done = 0
        self._all = definitions * DEFINITION_WORK
        self._share = 0.0

    def on_read(self, done_octets: int, all_octets: int, loaded: int) -> None:
        """Report how far the journal is read; ``loaded``: entries of that part to be loaded."""
        expected = loaded * all_octets // done_octets if done_octets else 0
        self._report(done_octets, self._all + all_octets + expected * ENTRY_WORK)

    def on_all_read(self, all_octets: int, loaded: int) -> None:
        """Note that the journal has been read; ``loaded``: entries that are to be loaded."""
        self._done = all_octets
        self._all += all_octets + loaded * ENTRY_WORK

    def on_loaded(self, entries: int) -> None:
        self._done += entries * ENTRY_WORK
        self._report(self._done, self._all)

    def on_restored(self, definitions: int) -> None:
        self._done += definitions * DEFINITION_WORK
        self._report(self._done, self._all)

    def finish(self) -> None:
        """Report that everything is restored."""
        self._show(self._all, self._all)

    def _report(self, done: int, all_work: int) -> None:
        if all_work:
            self._share = min(max(self._share, done / all_work), 1.0)
            self._show(min(int(self._share * all_work), all_work - 1), all_work)
