"""Bounds of the messages lost by damaged octets that do not show what they held.

Lost can be offsets from the next one as it was before the damage up to the next CHECKPOINT, without
those that are found or settled elsewhere. Messages that a compaction had moved there are not among
them; no record names those.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hareline.storage.journal.damage import Damage, Decision, Reporter
from hareline.storage.journal.format.frame import CHECKPOINT, MESSAGE, SETTLE
from hareline.storage.journal.format.message import decode_entries
from hareline.storage.journal.format.positions import segment_of
from hareline.storage.journal.format.records import decode_checkpoint, decode_settle
from hareline.storage.journal.reader import ReadBatch


class QueueLoss(NamedTuple):
    """A number of entries of a queue, with offsets from ``first`` to ``last``."""

    queue_id: int
    entries: int
    first: int
    last: int


class Loss(NamedTuple):
    """``queues``: what was published then and may be lost; None if nothing says how much.

    ``is_moved``: older messages may have been moved there, from segments that are gone.
    """

    queues: list[QueueLoss] | None
    is_moved: bool


@dataclass(slots=True)
class _Span:
    """Damage between two CHECKPOINTs. ``before``, ``after``: next offsets by queue id."""

    before: dict[int, int]
    after: dict[int, int] | None = None
    positions: list[int] = field(default_factory=list)


class LossSurvey(Reporter):
    """A reporter of the extra pass; ``take`` gets each batch, in the order of the journal.

    ``queue_ids``: of the queues there are. ``segments``: numbers of the journal's segments.
    """

    def __init__(self, queue_ids: Iterable[int]) -> None:
        self.segments: list[int] = []
        self._next = dict.fromkeys(queue_ids, 0)
        self._spans: list[_Span] = []
        self._seen: dict[int, array[int]] = {}  # offsets by queue id, since the first damage
        self._settled: dict[int, list[tuple[int, int]]] = {}  # first offset, and the one behind
        self.has_progressed = False

    def on_damage(self, damage: Damage) -> Decision:
        if not damage.is_exhaustive:
            if not self._spans or self._spans[-1].after is not None:
                self._spans.append(_Span(dict(self._next)))
            self._spans[-1].positions.append(damage.position)
        return Decision.SKIP

    def on_progress(self, done_octets: int, all_octets: int) -> None:
        self.has_progressed = True

    def take(self, batch: ReadBatch) -> None:
        """Take the next batch. Raises MalformedRecord."""
        for _, kind, payload in batch.records:
            if kind == MESSAGE:
                for queue_id, offset, _, _ in decode_entries(payload):
                    self._raise_next(queue_id, offset + 1)
                    if self._spans:
                        self._seen.setdefault(queue_id, array("Q")).append(offset)
            elif kind == SETTLE:
                for queue_id, first, length in decode_settle(payload):
                    self._raise_next(queue_id, first + length)
                    if self._spans:
                        self._settled.setdefault(queue_id, []).append((first, first + length))
            elif kind == CHECKPOINT:
                for queue_id, next_offset, _ in decode_checkpoint(payload).queues:
                    self._raise_next(queue_id, next_offset)
                if self._spans and self._spans[-1].after is None:
                    self._spans[-1].after = dict(self._next)

    def _raise_next(self, queue_id: int, offset: int) -> None:
        if offset > self._next.get(queue_id, offset):
            self._next[queue_id] = offset

    def losses(self) -> dict[int, Loss]:
        """Return losses by the position of the damage; call it once all is read."""
        found = {queue_id: sorted(offsets) for queue_id, offsets in self._seen.items()}
        losses = {}
        for span in self._spans:
            queues = None if span.after is None else self._between(span.before, span.after, found)
            for position in span.positions:
                number = segment_of(position)
                is_moved = sum(each < number for each in self.segments) < number - 1
                losses[position] = Loss(queues, is_moved)
        return losses

    def _between(
        self, before: dict[int, int], after: dict[int, int], found: dict[int, list[int]]
    ) -> list[QueueLoss]:
        queues = []
        for queue_id, first in before.items():
            stop = after[queue_id]
            if stop == first:
                continue
            offsets = found.get(queue_id, [])
            offsets = offsets[bisect_left(offsets, first) : bisect_left(offsets, stop)]
            runs = [(offset, offset + 1) for offset in offsets]
            runs += [
                (max(start, first), min(end, stop))
                for start, end in self._settled.get(queue_id, ())
                if start < stop and end > first
            ]
            missing = _missing(first, stop, runs)
            if missing:
                count = sum(end - start for start, end in missing)
                queues.append(QueueLoss(queue_id, count, missing[0][0], missing[-1][1] - 1))
        return queues


def _missing(first: int, stop: int, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the runs from ``first`` to before ``stop`` that are in none of ``runs``."""
    missing = []
    at = first
    for start, end in [*sorted(runs), (stop, stop)]:
        if start > at:
            missing.append((at, start))
        at = max(at, end)
    return missing
