"""basic.recover without requeue: all unacknowledged deliveries go to their consumers again.

JMS goes on after ``Session.recover()`` with the oldest message that is not acknowledged, also where
the queue has others to deliver before it, by priority or by sort key. So the entries do not go back
to their queues: they stay acquired, their credit stays used, and they are sent once more, in the
order in which they were delivered and before anything else on the channel. Meanwhile the channel
does not flow, and what is still to be sent has no delivery tag. Entries that cannot be sent again
(from basic.get, of a cancelled consumer, of a queue that is only read) are released.

Invariant: ``pending`` is empty while the channel flows.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.settlement import release_entries
from hareline.queues.core.entry import SETTLED, QueueEntry, mark_redelivered
from hareline.queues.core.lane import BATCH_BYTES
from hareline.queues.queue import Queue

ENTRIES_PER_TURN: Final = 2048  # as a queue's share of a turn


class Redelivery:
    """``pending``: entries that are to be sent again, the oldest delivery first.

    ``is_release_counted``: the delivery limit counts what is released instead.
    """

    __slots__ = ("_is_release_counted", "_is_waiting", "_port", "pending")

    def __init__(self, port: DeliveryPort, *, is_release_counted: bool) -> None:
        self._port = port
        self._is_release_counted = is_release_counted
        self._is_waiting = False  # to be called back
        self.pending: deque[QueueEntry] = deque()

    def begin(self) -> None:
        """Everything unacked is to be sent again, what was sent again already included."""
        self._port.is_flowing = False
        unacked = self._port.unacked
        unacked.given_back += len(unacked)
        self.pending.extendleft(reversed(unacked.take_all()))
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
        port = self._port
        output = port.output
        sent = 0
        while self.pending:
            if port.is_stopped:
                return  # channel.flow comes back here
            if sent >= ENTRIES_PER_TURN:
                output.end_share()
            if output.is_full:
                self._is_waiting = True
                output.when_writable(self._resume)
                return
            if output.outboxes and port.when_free(self._resume):
                self._is_waiting = True
                return
            sent += self._send_some(ENTRIES_PER_TURN - sent)
        port.update_flow()

    def _resume(self) -> None:
        self._is_waiting = False
        self.go_on()

    def _send_some(self, limit: int) -> int:
        """Send the next ones of one consumer, or release them; returns how many are done."""
        pending = self.pending
        first = pending[0]
        entries: list[QueueEntry] = []
        size = 0
        for entry in pending:
            if entry.consumer is not first.consumer or entry.queue is not first.queue:
                break
            if len(entries) == limit or size > BATCH_BYTES:
                break
            entries.append(entry)
            size += entry.message.size
        for _ in entries:
            pending.popleft()
        consumer, queue = first.consumer, first.queue
        if consumer is None or consumer.is_cancelled or not isinstance(queue, Queue):
            release_entries(entries, is_counted=self._is_release_counted)
            return len(entries)
        readable = entries
        if queue.paging is not None and queue.paging.has_stored:
            readable = queue.paging.whole(entries)
            for entry in entries:
                if entry.state == SETTLED:  # the disk has lost it
                    consumer.restore_credit(entry.message.size)
        mark_redelivered(readable)
        sent = consumer.deliver(readable) if readable else 0
        pending.extendleft(reversed(readable[sent:]))
        queue.tally.redelivered += sent
        self._port.counting().redeliver += sent
        return len(entries) - len(readable) + sent
