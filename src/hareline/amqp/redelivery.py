"""basic.recover without requeue: all that is unacknowledged goes out again to who had it.

JMS goes on after ``Session.recover()`` with the oldest message that is not acknowledged, also where
the queue has others to deliver before it, by priority or by sort key. So the entries do not go back
to their queues: they stay acquired, their credit stays used, and they are sent once more, in the
order in which they were delivered and before anything else on the channel. Meanwhile the channel
does not flow, and what is still to be sent has no delivery tag. What nobody can be sent again
(from basic.get, of a cancelled consumer, of a queue that is only read) is released.

Invariant: ``pending`` is empty while the channel flows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hareline.amqp.settling import release_entries
from hareline.broker.queues.entry import QueueEntry, mark_redelivered
from hareline.broker.queues.queue import Queue

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel

ENTRIES_PER_TURN: Final = 2048  # as a queue's share of a turn


class Redelivery:
    """``pending``: entries that are to be sent again, the oldest delivery first."""

    __slots__ = ("_channel", "_is_waiting", "pending")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._is_waiting = False  # to be called back
        self.pending: deque[QueueEntry] = deque()

    def begin(self) -> None:
        """Everything unacked is to be sent again, what was sent again already included."""
        self.pending.extendleft(reversed(self._channel.settling.unacked.take_all()))
        self.go_on()

    def take_all(self) -> list[QueueEntry]:
        """Give up: what was not sent again yet, which has no delivery tag."""
        pending = list(self.pending)
        self.pending.clear()
        return pending

    def go_on(self) -> None:
        """Send as much as client, socket and turn take now; waits for whichever takes no more."""
        if self._is_waiting:
            return
        channel = self._channel
        connection = channel.connection
        sent = 0
        while self.pending:
            if channel.is_stopped:
                return  # channel.flow comes back here
            if sent >= ENTRIES_PER_TURN:
                connection.end_output_share()
            if connection.is_full:
                self._is_waiting = True
                connection.when_writable(self._resume)
                return
            if connection.outboxes and channel.when_free(self._resume):
                self._is_waiting = True
                return
            sent += self._send_some(ENTRIES_PER_TURN - sent)
        channel.update_flow()

    def _resume(self) -> None:
        self._is_waiting = False
        self.go_on()

    def _send_some(self, limit: int) -> int:
        """Send the next ones of one consumer, or release them; returns how many are done."""
        pending = self.pending
        first = pending[0]
        entries: list[QueueEntry] = []
        for entry in pending:
            if entry.consumer is not first.consumer or entry.queue is not first.queue:
                break
            if len(entries) == limit:
                break
            entries.append(entry)
        consumer = first.consumer
        if consumer is None or consumer.is_cancelled or not isinstance(first.queue, Queue):
            done = len(entries)
            is_counted = not self._channel.dialect.counts_rejects_only
            release_entries(entries, is_counted=is_counted)
        else:
            mark_redelivered(entries)
            done = consumer.deliver(entries)
        for _ in range(done):
            pending.popleft()
        return done
