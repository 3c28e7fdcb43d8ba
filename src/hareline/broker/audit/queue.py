"""A queue of a virtual host with audit: each change of an entry is recorded as well.

``broker.making`` makes one in place of a ``Queue`` where ``QueueEnvironment.audit`` is set,
so a queue without audit runs the same code as if there were none. Nothing is decided here: each
method records what it is told, and calls the one that does it.

Invariant: an entry has one event ``routed``, and one that says how it left.                 [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hareline.broker.audit.trace import MASK, STEP, QueueTrace
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.entry import RankedEntry
from hareline.queues.core.kinds import DISCARDED, DUPLICATE, REFUSED
from hareline.queues.queue import Queue

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.core.kinds import DeathReason


class AuditedQueue(Queue):
    """Only in an environment with ``audit``. ``trace``: what its events go to."""

    __slots__ = ("_limit", "_paged_count", "_salt", "trace")

    def __init__(
        self, name: str, *args: Any, environment: QueueEnvironment, **options: Any
    ) -> None:
        super().__init__(name, *args, environment=environment, **options)
        assert environment.audit is not None
        self.trace = QueueTrace(environment.audit, name)
        self._salt = self.trace.salt
        self._limit = self.trace.limit
        self._paged_count = 0

    # --------------------------------------------------------------------------- in

    def enqueue(self, message: Message) -> None:
        offset = self.next_offset
        if (offset * STEP + self._salt) & MASK < self._limit:  # as ``trace.takes``, called less
            self.trace.routed(offset, message)
        Queue.enqueue(self, message)  # super() costs three times the call

    def enqueue_run(self, messages: list[Message]) -> None:
        trace, salt, limit = self.trace, self._salt, self._limit
        for offset, message in enumerate(messages, self.next_offset):
            if (offset * STEP + salt) & MASK < limit:
                trace.routed(offset, message)
        Queue.enqueue_run(self, messages)

    def _new_entry(self, message: Message) -> RankedEntry:
        offset = self.next_offset
        if self.trace.takes(offset):
            self.trace.routed(offset, message)
        return super()._new_entry(message)

    def put(self, message: Message) -> int:
        outcome = Queue.put(self, message)
        if outcome == REFUSED:
            self.trace.happened_without_entry("dropped", message, "refused")
        elif outcome == DISCARDED:
            self.trace.happened_without_entry("dropped", message, "maxlen")
        elif outcome == DUPLICATE:
            self.trace.happened_without_entry("dropped", message, "duplicate")
        return outcome

    # -------------------------------------------------------------------------- out

    def get(self) -> QueueEntry | None:
        entry = super().get()
        if entry is not None:
            self.trace.happened("delivered", [entry])
        return entry

    def settle(self, entry: QueueEntry) -> None:
        if (entry.offset * STEP + self._salt) & MASK < self._limit:
            self.trace.happened("acked", [entry], tag=_tag_of(entry))
        Queue.settle(self, entry)

    def settle_delivered(self, entries: list[QueueEntry]) -> None:
        self.trace.happened("acked", entries, reason="automatic")
        super().settle_delivered(entries)

    def count_readings(
        self, count: int, *, unacked_count: int, acked: QueueEntry | None = None
    ) -> None:
        if acked is not None:
            self.trace.happened("acked", [acked], tag=_tag_of(acked))
        super().count_readings(count, unacked_count=unacked_count, acked=acked)

    def _drop_acquired(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        for tag, dropped in _by_tag(entries):
            self._record_drop(dropped, reason, tag)
        super()._drop_acquired(entries, reason)

    def drop(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        self._record_drop(entries, reason)
        super().drop(entries, reason)

    def _record_drop(self, entries: list[QueueEntry], reason: DeathReason, tag: str = "") -> None:
        if reason in ("rejected", "expired"):
            self.trace.happened(reason, entries, tag=tag)
        else:
            self.trace.happened("dropped", entries, tag=tag, reason=reason)

    def on_lost(self, entries: list[QueueEntry], *, are_in_place: bool) -> None:
        self.trace.happened("dropped", entries, reason="unreadable")
        super().on_lost(entries, are_in_place=are_in_place)

    def on_pages_left(self, count: int, size_bytes: int, stored_bytes: int, *, reason: str) -> None:
        if count:
            self.trace.dropped_together(reason, count)
        super().on_pages_left(count, size_bytes, stored_bytes, reason=reason)

    # ------------------------------------------------------------------------- back

    def _count_released(self, entries: list[QueueEntry]) -> None:
        for tag, released in _by_tag(entries):
            self.trace.happened("requeued", released, tag=tag)
        super()._count_released(entries)

    # -------------------------------------------------------------------------- all

    def _drop_pages(self) -> int:
        dropped = super()._drop_pages()
        self._paged_count += dropped
        return dropped

    def _take_all(self) -> list[QueueEntry]:
        """One event for all that leave at once, those in pages too, whatever the sample."""
        entries = super()._take_all()
        paged_count, self._paged_count = self._paged_count, 0
        count = paged_count + len(entries)
        if count:
            paged = self.order.paged
            first = None
            if entries and not (paged_count and paged is not None and paged.has_levels):
                first = min([entry.offset for entry in entries])  # what is in pages comes later
            reason = "deleted" if self.is_deleted else "purged"
            last = self.next_offset - 1
            self.trace.dropped_together(reason, count, first=first, last=last)
        return entries


def _tag_of(entry: QueueEntry) -> str:
    """The tag of the consumer that has the entry; empty for basic.get."""
    consumer = entry.consumer
    return consumer.tag if isinstance(consumer, Consumer) else ""


def _by_tag(entries: list[QueueEntry]) -> list[tuple[str, list[QueueEntry]]]:
    """The entries of each consumer, in their order."""
    by_tag: dict[str, list[QueueEntry]] = {}
    for entry in entries:
        by_tag.setdefault(_tag_of(entry), []).append(entry)
    return list(by_tag.items())
