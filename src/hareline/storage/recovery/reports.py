"""Reports of a recovery: its progress as one number that only grows, and damage.

Damage is reported with the messages that it costs, as far as they can be known, and what is done
about it by the option ``journal.on_corruption``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

from hareline.storage.journal.damage import Damage, Decision, Reporter
from hareline.storage.journal.format.frame import SETTLE
from hareline.storage.journal.loss import Loss, QueueLoss
from hareline.storage.recovery.live_entries import LiveEntryScan
from hareline.storage.recovery.queue_contents import KnownQueue, QueueContents

_ACTIONS: Final = {
    Decision.FAIL: "the broker does not start",
    Decision.SKIP: "left out",
    Decision.TRUNCATE: "the journal is cut there",
}


ENTRY_WORK: Final = 1_500  # 3 to 6 us for an entry that becomes an object, at 2.5 ns an octet
DEFINITION_WORK: Final = 40_000  # 100 us for a queue or a binding


class RecoveryProgress:
    """All parts of a recovery as one number, in the work of reading one octet of the journal.

    ``show`` gets the work done and all the work; ``definitions``: their number. The entries to load
    are estimated until the journal has been read; those that become bare numbers are not counted.
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


class RecoveryListener(ABC):
    """Receiver of the reports of a recovery; made by ``server``."""

    __slots__ = ()

    @abstractmethod
    def on_progress(self, done: int, all_work: int) -> None:
        """Report how much of all the work is done, as ``RecoveryProgress`` counts it."""

    @abstractmethod
    def on_damage(self, problem: str, action: str) -> None:
        """Report damage (file, offset, octets, messages as far as known) and what is done."""

    @abstractmethod
    def on_impossible(self, vhost: str, what: str, problem: str) -> None:
        """Report a binding that cannot be made any more; it stays in the definitions."""


class RecoveryReports(Reporter):
    """Answers the reader by ``policy`` and collects what the listener should know.

    ``losses``: by the position of damage that does not show what it held. ``has_truncated``: the
    journal is cut at the first damage. ``has_progressed``: set after each piece that was read.
    """

    __slots__ = (
        "_listener",
        "_octets",
        "_policy",
        "_progress",
        "_queues",
        "_scan",
        "damages",
        "has_progressed",
        "has_truncated",
        "losses",
    )

    def __init__(
        self,
        policy: Decision,
        queues: Mapping[int, KnownQueue],
        scan: LiveEntryScan,
        listener: RecoveryListener,
        progress: RecoveryProgress,
    ) -> None:
        self._policy = policy
        self._queues = queues
        self._scan = scan
        self._listener = listener
        self._progress = progress
        self._octets = 0
        self.has_progressed = False
        self.has_truncated = False
        self.damages: list[Damage] = []
        self.losses: dict[int, Loss] = {}

    def on_damage(self, damage: Damage) -> Decision:
        self.damages.append(damage)
        if self._policy is Decision.TRUNCATE:
            self.has_truncated = True
        else:
            self._scan.on_left_out()
        return self._policy

    def report_damages(self) -> None:
        """Pass all damage on to the listener, with what it cost and what is done."""
        for damage in self.damages:
            problem = f"{damage}; {self.loss_by(damage)}"
            action = _ACTIONS[self._policy]
            if self._policy is Decision.TRUNCATE:
                problem += ", and all that was written behind it"
                action += f", {damage.cut_octets} octets from position {damage.cut_position:#x} on"
            self._listener.on_damage(problem, action)

    def loss_by(self, damage: Damage) -> str:
        """Return a text: which messages it cost, or that this cannot be known."""
        seen = self._queues_text(_by_queue(damage.entries))
        if damage.is_exhaustive:
            if seen:
                return f"messages lost, as it seems: {seen}"
            text = "messages lost: none, if it is what it seems to be"
            return f"{text}; those that it settled come back" if damage.kind == SETTLE else text
        loss = self.losses[damage.position]
        if loss.queues is None:
            text = "how many messages are lost cannot be told"
        elif loss.queues:
            text = f"messages lost: at most {self._queues_text(loss.queues)}"
        else:
            text = "messages lost: none"
        if seen:
            text += f", among them, as it seems, {seen}"
        if loss.is_moved and loss.queues is not None:
            text += ", and older ones that had been moved there, which cannot be told"
        return text

    def _queues_text(self, losses: list[QueueLoss]) -> str:
        """Return a text as "3 of queue 'q' in vhost '/' (offsets 4 to 9)"."""
        return "; ".join(
            f"{count} of {self._name(queue_id)} (offsets {first} to {last})"
            for queue_id, count, first, last in losses
        )

    def _name(self, queue_id: int) -> str:
        queue = self._queues.get(queue_id)
        return "a queue that is deleted" if queue is None else queue.name

    def on_progress(self, done_octets: int, all_octets: int) -> None:
        self.has_progressed = True
        self._octets = all_octets
        self._progress.on_read(done_octets, all_octets, self._scan.loaded_count)

    def on_all_read(self, contents: Mapping[int, QueueContents]) -> None:
        """Set the progress to what has to be loaded now."""
        loaded = sum(
            len(found) if self._queues[each].is_loaded else found.expiring_count
            for each, found in contents.items()
        )
        self._progress.on_all_read(self._octets, loaded)


def _by_queue(entries: tuple[tuple[int, int], ...]) -> list[QueueLoss]:
    offsets: dict[int, list[int]] = {}
    for queue_id, offset in entries:
        offsets.setdefault(queue_id, []).append(offset)
    return [QueueLoss(each, len(lost), lost[0], lost[-1]) for each, lost in offsets.items()]
