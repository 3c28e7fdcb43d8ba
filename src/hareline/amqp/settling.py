"""basic.ack, nack, reject and recover of one channel.

``ack`` is a lane of the decoder; the others come through the table of methods. A transaction keeps
settlements until tx.commit (``amqp.transactions``). Each entry taken from ``unacked`` is settled,
released or sent again exactly once.                                                        [hot]
"""

from __future__ import annotations

from collections import deque
from typing import Final

from hareline.amqp.client import RABBITMQ, Dialect
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.transactions import Transaction
from hareline.amqp.unacked import (
    UnackedDeliveries,
    reject_entries,
    release_entries,
    release_rejected,
    settle_entries,
)
from hareline.errors import PreconditionFailed
from hareline.queues.core.entry import SETTLED, QueueEntry, mark_redelivered
from hareline.queues.core.kinds import REJECTED, RETURNED
from hareline.queues.core.lane import BATCH_BYTES
from hareline.queues.queue import Queue
from hareline.wire.constants import BASIC_ACK
from hareline.wire.decoder import SettleLane

ENTRIES_PER_TURN: Final = 2048  # of a redelivery, as a queue's share of a turn


class Settling(SettleLane):
    """``unacked`` is the channel's; ``transaction`` is None outside of tx mode."""

    __slots__ = ("_dialect", "transaction", "unacked")

    def __init__(self, unacked: UnackedDeliveries, dialect: Dialect = RABBITMQ) -> None:
        self._dialect = dialect
        self.unacked = unacked
        self.transaction: Transaction | None = None

    def ack(self, tag: int, multiple: int) -> None:
        if multiple & 1 or self.transaction is not None:
            try:
                self.settle(tag, multiple & 1 == 1)
            except PreconditionFailed as error:
                raise _in_ack(error) from None
            return
        entry = self.unacked.take(tag)
        if entry is None:
            if self._ignores(tag):
                return
            raise _in_ack(unknown_tag(tag))
        entry.queue.settle(entry)
        consumer = entry.consumer
        if consumer is not None:
            consumer.restore_credit(entry.message.size)

    def settle(self, tag: int, is_multiple: bool) -> None:
        """Accept: the entries leave their queues.

        Raises PreconditionFailed for a tag that was never given out or is settled already, with
        multiple too, unless the dialect lets them pass; tag 0 with multiple means all there are.
        """
        if self.transaction is not None:
            deliveries = self._take_deliveries(tag, is_multiple)
            self.transaction.settle(deliveries, settle_entries, is_ack=True)
        else:
            settle_entries(self._take(tag, is_multiple))

    def reject(self, tag: int, is_multiple: bool) -> None:
        """Not wanted, and not wanted back: the entries go where their queue's dead letters go."""
        if self.transaction is not None and not self._dialect.rejects_at_once:
            deliveries = self._take_deliveries(tag, is_multiple)
            self.transaction.settle(deliveries, reject_entries, is_ack=False)
        else:
            reject_entries(self._give_back(self._take(tag, is_multiple)))

    def requeue(
        self, tag: int, is_multiple: bool, *, is_rejected: bool = False, cause: int = RETURNED
    ) -> None:
        """The entries go back to their own places in their queues, as redelivered.

        ``is_rejected``: by a reject without requeue, which in the qpid dialect alone is what the
        delivery limit counts. ``cause``: RETURNED or REJECTED.
        """
        if self.transaction is not None and not self._dialect.rejects_at_once:
            deliveries = self._take_deliveries(tag, is_multiple)
            release = release_rejected if cause == REJECTED else release_entries
            self.transaction.settle(deliveries, release, is_ack=False)
        else:
            is_counted = is_rejected or not self._dialect.counts_rejects_only
            entries = self._give_back(self._take(tag, is_multiple))
            release_entries(entries, is_counted=is_counted, cause=cause)

    def _give_back(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Count these as not acknowledged."""
        self.unacked.given_back += len(entries)
        return entries

    def _take(self, tag: int, is_multiple: bool) -> list[QueueEntry]:
        unacked = self.unacked
        if is_multiple and tag == 0:
            return unacked.take_all()
        if tag in unacked:
            return unacked.take_up_to(tag) if is_multiple else [unacked.entries.pop(tag)]
        if not self._ignores(tag):
            raise unknown_tag(tag)
        lower_tags = unacked.tags_up_to(tag) if is_multiple else []
        return [unacked.entries.pop(lower) for lower in lower_tags]

    def _ignores(self, tag: int) -> bool:
        """True if this tag, which is not outstanding, is no error.

        Only the highest tag that was taken back is kept, so all below it pass.
        """
        return self._dialect.ignores_unknown_tags or 0 < tag <= self.unacked.taken_back_tag

    def _take_deliveries(self, tag: int, is_multiple: bool) -> list[tuple[int, QueueEntry]]:
        """As ``_take``, with the tags, which a rollback needs."""
        unacked = self.unacked
        if not is_multiple:
            tags = [tag] if tag in unacked else []
        else:
            tags = unacked.tags_up_to(tag) if tag else unacked.tags()
        return list(zip(tags, self._take(tag, is_multiple), strict=True))

    def outstanding(self) -> list[QueueEntry]:
        """Entries that count against credit: unacked, or settled in an open transaction."""
        entries = list(self.unacked.entries.values())
        if self.transaction is not None:
            entries += self.transaction.settled_entries()
        return entries

    def release_all(self, without_tags: list[QueueEntry], cause: int) -> None:
        """Everything unacked becomes ready again, and so does what has no tag yet."""
        entries = without_tags + self._give_back(self.unacked.take_all())
        release_entries(entries, is_counted=self.is_release_counted, cause=cause)

    @property
    def is_release_counted(self) -> bool:
        """True if the delivery limit counts what comes back otherwise than by basic.reject."""
        return not self._dialect.counts_rejects_only


def unknown_tag(tag: int) -> PreconditionFailed:
    return PreconditionFailed(f"unknown delivery tag {tag}")


def _in_ack(error: PreconditionFailed) -> PreconditionFailed:
    """The lane has no method being handled; say which one it was."""
    error.class_id, error.method_id = BASIC_ACK >> 16, BASIC_ACK & 0xFFFF
    return error


class Redelivery:
    """basic.recover without requeue: unacked deliveries go to their consumers again.

    JMS goes on after ``Session.recover()`` with the oldest message that is not acknowledged, also
    where the queue has others to deliver before it, by priority or by sort key. So the entries stay
    acquired, their credit stays used, and they are sent in the order of delivery, before anything
    else on the channel; until then they have no delivery tag, and the channel does not flow.
    Entries that cannot be sent again (from basic.get, of a cancelled consumer, of a queue that is
    only read) are released.

    ``pending``: entries that are to be sent again, the oldest delivery first.
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
