"""Expiry of the entries of one queue.

Called by ``queue``: ``add`` for a new entry, ``drop_expired`` and ``drop_expiring`` around each
dispatch, ``is_expired`` for what comes back. Nothing is swept and nothing waits for the head of the
queue: all entries with a time stand in an index by that time, and one timer is set to the earliest.
When it fires, the queue is dispatched, which drops them in shares of ``DROPS_PER_TURN``.

An acquired entry does not expire (RabbitMQ). If its time comes in the meantime, it leaves the index
and ``expires_at_ms`` becomes negative, "that instant has passed", whatever a wall clock that is set
back says later; it is dropped if it comes back.

Invariant: every ready or held entry with a time stands in the index, in ``_line`` (sorted by time
and offset: entries that came in the order of their times, as with one time to live for all) or in
``_heap``. Settled ones may stand there too; they are swept out when they are the majority.  [hot]
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from hareline.queues.core.entry import ACQUIRED, SETTLED, QueueEntry, RankedEntry
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.policies.deadline_timer import NEVER, DeadlineTimer

if TYPE_CHECKING:
    from hareline.queues.core.ports import QueuePort

RELATIVE_MAX_MS: Final = 315_360_000_000  # ten years; an expiration above it is an instant
INSTANT_MAX_MS: Final = (1 << 63) - 1
DROPS_PER_TURN: Final = 2048  # some milliseconds; the rest has to wait for the next turn
SETTLED_ALLOWED: Final = 64  # kept in the index, beyond as many as there are live ones


def expires_at_ms(expiration_ms: int, now_ms: int) -> int:
    """The instant that an expiration means, in epoch milliseconds.

    Up to ten years it is a time to live, as in RabbitMQ, which refuses more; above that it is the
    instant itself, as the clients of Qpid send it (docs/data-model.md), at most the last one that a
    record of the journal can hold.
    """
    if expiration_ms <= RELATIVE_MAX_MS:
        return now_ms + expiration_ms
    return min(expiration_ms, INSTANT_MAX_MS)


class Expiry:
    """All times in milliseconds; None and, but for ``message_ttl_ms``, 0 mean "not set".

    ``message_ttl_ms``: time to live of every message that has no shorter one (RabbitMQ:
    x-message-ttl; 0: gone at the end of the turn it came in). ``min_ttl_ms`` raises a time to live
    that is there, ``max_ttl_ms`` limits it and is given to messages without one; it comes last
    (Broker-J: ``AbstractQueue.calculateExpiration``). ``sweep_ms``: the timer drops at most once in
    this many milliseconds; None: at the time itself, 0: never. In any case what has expired is
    dropped before the queue delivers or shows anything.
    """

    __slots__ = (
        "_check_above",
        "_clock",
        "_deadline",
        "_heap",
        "_line",
        "_max_ttl_ms",
        "_message_ttl_ms",
        "_min_ttl_ms",
        "_queue",
        "_sweep_ms",
        "_swept_ms",
        "concerns_all",
    )

    def __init__(
        self,
        queue: QueuePort,
        environment: QueueEnvironment,
        *,
        message_ttl_ms: int | None = None,
        min_ttl_ms: int | None = None,
        max_ttl_ms: int | None = None,
        sweep_ms: int | None = None,
    ) -> None:
        self._queue: QueuePort | None = queue
        self._clock = environment.clock
        self._message_ttl_ms = message_ttl_ms
        self._min_ttl_ms = min_ttl_ms or 0
        self._max_ttl_ms = max_ttl_ms or 0
        self._sweep_ms = sweep_ms
        self._swept_ms = 0
        self.concerns_all = message_ttl_ms is not None or bool(min_ttl_ms) or bool(max_ttl_ms)
        self._line: deque[RankedEntry] = deque()
        self._heap: list[tuple[int, int, RankedEntry]] = []
        self._check_above = SETTLED_ALLOWED
        self._deadline = DeadlineTimer(environment, self._on_deadline)

    def set_bounds(
        self,
        *,
        message_ttl_ms: int | None,
        min_ttl_ms: int | None,
        max_ttl_ms: int | None,
        sweep_ms: int | None,
    ) -> None:
        """Bound the times of entries that come from now on; the others keep theirs.

        The queue has to be wired again, as ``concerns_all`` may have changed.
        """
        self._message_ttl_ms = message_ttl_ms
        self._min_ttl_ms = min_ttl_ms or 0
        self._max_ttl_ms = max_ttl_ms or 0
        self._sweep_ms = sweep_ms
        self.concerns_all = message_ttl_ms is not None or bool(min_ttl_ms) or bool(max_ttl_ms)
        self._deadline.cancel()
        earliest_ms = self._earliest_ms()
        if earliest_ms != NEVER:
            self._set_deadline(earliest_ms)

    # ---------------------------------------------------------------- in

    def add(self, entry: RankedEntry, since_ms: int) -> None:
        """Work out when an entry that came at ``since_ms`` expires, and remember it if it does."""
        extras = entry.message.extras
        expires_at_ms = 0 if extras is None else extras.expires_at_ms
        if self.concerns_all:
            expires_at_ms = self._bounded(expires_at_ms, since_ms)
        if expires_at_ms == 0:
            return
        entry.expires_at_ms = expires_at_ms
        line = self._line
        if not line or line[-1].expires_at_ms <= expires_at_ms:
            line.append(entry)
        else:
            heappush(self._heap, (expires_at_ms, entry.offset, entry))
        if len(line) + len(self._heap) > self._check_above:
            self._forget_settled()
        queue = self._queue
        if expires_at_ms < self._deadline.at_ms and (
            # a new entry that is not held asks for a dispatch, which drops what is due at once
            expires_at_ms > self._clock.now_ms or (queue is not None and queue.hold is not None)
        ):
            self._set_deadline(expires_at_ms)

    def _bounded(self, expires_at_ms: int, now_ms: int) -> int:
        """A message's own time, 0 = none, bounded by the queue's, which count from ``now_ms``."""
        if self._message_ttl_ms is not None:
            latest_ms = now_ms + self._message_ttl_ms
            if expires_at_ms == 0 or expires_at_ms > latest_ms:
                expires_at_ms = latest_ms
        if self._min_ttl_ms and expires_at_ms:
            expires_at_ms = max(expires_at_ms, now_ms + self._min_ttl_ms)
        if self._max_ttl_ms:
            latest_ms = now_ms + self._max_ttl_ms
            if expires_at_ms == 0 or expires_at_ms > latest_ms:
                expires_at_ms = latest_ms
        return expires_at_ms

    # --------------------------------------------------------------- out

    def is_expired(self, entry: QueueEntry) -> bool:
        """True if the entry's time has come, or came while it was acquired."""
        expires_at_ms = entry.expires_at_ms
        return expires_at_ms != 0 and expires_at_ms <= self._clock.now_ms

    def drop_expired(self) -> bool:
        """Drop what expired before this instant; True if only the turn's share stopped it.

        That is what expired in an earlier turn, by time and then offset. After True, nothing may be
        delivered before it is called again.
        """
        return self._drop_before(self._clock.now_ms)

    def drop_expiring(self) -> bool:
        """Drop also what expires at this instant; True if only the turn's share stopped it.

        For the end of a dispatch: what came in this turn has had its chance then.
        """
        return self._drop_before(self._clock.now_ms + 1)

    def _drop_before(self, end_ms: int) -> bool:
        earliest_ms = self._earliest_ms()
        if earliest_ms < end_ms:
            leaving = self._take_before(end_ms)
            if leaving and self._queue is not None:
                self._queue.drop(leaving, "expired")
            earliest_ms = self._earliest_ms()
            if earliest_ms < end_ms:
                return True
            self._swept_ms = self._clock.now_ms
        if self._clock.now_ms < earliest_ms < self._deadline.at_ms:
            self._set_deadline(earliest_ms)
        return False

    def _take_before(self, end_ms: int) -> list[QueueEntry]:
        """Remove a share of what is due from the index; returns those that are not acquired."""
        line, heap = self._line, self._heap
        leaving: list[QueueEntry] = []
        for _ in range(DROPS_PER_TURN):
            if line and (not heap or (line[0].expires_at_ms, line[0].offset) < heap[0]):
                entry = line[0]
                if entry.expires_at_ms >= end_ms:
                    break
                line.popleft()
            elif heap and heap[0][0] < end_ms:
                entry = heappop(heap)[2]
            else:
                break
            if entry.state == ACQUIRED:
                entry.expires_at_ms = -entry.expires_at_ms
            elif entry.state != SETTLED:
                leaving.append(entry)
        return leaving

    def _earliest_ms(self) -> int:
        """The first time in the index; NEVER if it is empty."""
        earliest_ms = self._line[0].expires_at_ms if self._line else NEVER
        if self._heap and self._heap[0][0] < earliest_ms:
            earliest_ms = self._heap[0][0]
        return earliest_ms

    # ------------------------------------------------------------- timing

    def _set_deadline(self, earliest_ms: int) -> None:
        due_ms = self._due_ms(earliest_ms)
        if self._deadline.at_ms == NEVER or due_ms < self._deadline.at_ms:
            self._deadline.set(due_ms)

    def _due_ms(self, earliest_ms: int) -> int:
        """Return the time at which the timer is to drop what expires then."""
        sweep_ms = self._sweep_ms
        if sweep_ms is None:
            return earliest_ms
        if sweep_ms == 0:
            return NEVER
        return max(earliest_ms, min(self._swept_ms, self._clock.now_ms) + sweep_ms)

    def _on_deadline(self) -> None:
        queue = self._queue
        self._forget_settled()
        earliest_ms = self._earliest_ms()
        if earliest_ms == NEVER or queue is None:
            return
        if self._due_ms(earliest_ms) <= self._clock.now_ms:
            queue.mark()  # its dispatch drops them, and sets the timer for those that follow
        else:
            self._set_deadline(earliest_ms)

    # ------------------------------------------------------------- memory

    def _forget_settled(self) -> None:
        """Remove settled entries from the index if they are the majority there."""
        queue = self._queue
        if queue is None:
            return
        living = queue.ready_count + queue.held_count + queue.unacked_count
        if len(self) > 2 * living + SETTLED_ALLOWED:
            self._line = deque([entry for entry in self._line if entry.state != SETTLED])
            self._heap = [item for item in self._heap if item[2].state != SETTLED]
            heapify(self._heap)
        self._check_above = 2 * len(self) + SETTLED_ALLOWED

    def stop(self) -> None:
        """The queue is deleted: let go of it and its entries, so that it is freed at once."""
        self._deadline.stop()
        self._line.clear()
        self._heap.clear()
        self._queue = None

    def __len__(self) -> int:
        """Entries in the index, with settled ones that still stand there."""
        return len(self._line) + len(self._heap)
