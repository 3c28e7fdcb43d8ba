"""basic.ack, nack, reject and recover of one channel.

``ack`` is a lane of the decoder; nack, reject and recover come through the channel's dispatch
table. In a transaction the same settlements are kept until tx.commit (``amqp.transactions``); in
the qpid dialect only acknowledgements are.

Invariant: every entry taken from ``unacked`` is settled or released exactly once, and its consumer
gets its credit back.                                                                       [hot]
"""

from __future__ import annotations

from hareline.amqp.dialect import RABBITMQ, Dialect
from hareline.amqp.settlement import reject_entries, release_entries, settle_entries
from hareline.amqp.transactions import Transaction
from hareline.amqp.unacked import UnackedDeliveries
from hareline.errors import PreconditionFailed
from hareline.queues.core.entry import QueueEntry
from hareline.wire.constants import BASIC_ACK
from hareline.wire.decoder import SettleLane

_BASIC_CLASS = BASIC_ACK >> 16
_ACK_METHOD = BASIC_ACK & 0xFFFF


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
            if self._dialect.ignores_unknown_tags:
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
            self.transaction.settle(self._take_deliveries(tag, is_multiple))
        else:
            settle_entries(self._take(tag, is_multiple))

    def reject(self, tag: int, is_multiple: bool) -> None:
        """Not wanted, and not wanted back: the entries go where their queue's dead letters go."""
        if self.transaction is not None and not self._dialect.rejects_at_once:
            self.transaction.reject(self._take_deliveries(tag, is_multiple))
        else:
            reject_entries(self._give_back(self._take(tag, is_multiple)))

    def requeue(self, tag: int, is_multiple: bool, *, is_rejected: bool = False) -> None:
        """The entries go back to their own places in their queues, as redelivered.

        ``is_rejected``: by a reject without requeue, which in the qpid dialect alone is what the
        delivery limit counts.
        """
        if self.transaction is not None and not self._dialect.rejects_at_once:
            self.transaction.requeue(self._take_deliveries(tag, is_multiple))
        else:
            is_counted = is_rejected or not self._dialect.counts_rejects_only
            entries = self._give_back(self._take(tag, is_multiple))
            release_entries(entries, is_counted=is_counted)

    def _give_back(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Count these as not acknowledged."""
        self.unacked.given_back += len(entries)
        return entries

    def _take(self, tag: int, is_multiple: bool) -> list[QueueEntry]:
        unacked = self.unacked
        if is_multiple and tag == 0:
            return unacked.take_all()
        if not self._is_outstanding(tag):
            return [unacked.entries.pop(lower) for lower in self._below(tag, is_multiple)]
        if is_multiple:
            return unacked.take_up_to(tag)
        return [unacked.entries.pop(tag)]

    def _take_deliveries(self, tag: int, is_multiple: bool) -> list[tuple[int, QueueEntry]]:
        """As ``_take``, with the tags, which a rollback needs."""
        unacked = self.unacked
        if is_multiple and tag == 0:
            tags = unacked.tags()
            return list(zip(tags, unacked.take_all(), strict=True))
        if not self._is_outstanding(tag):
            tags = self._below(tag, is_multiple)
            return [(lower, unacked.entries.pop(lower)) for lower in tags]
        if is_multiple:
            tags = unacked.tags_up_to(tag)
            return list(zip(tags, unacked.take_up_to(tag), strict=True))
        return [(tag, unacked.entries.pop(tag))]

    def _is_outstanding(self, tag: int) -> bool:
        """False for a tag that is to be ignored; raises PreconditionFailed for one that is not."""
        if tag in self.unacked:
            return True
        if self._dialect.ignores_unknown_tags:
            return False
        raise unknown_tag(tag)

    def _below(self, tag: int, is_multiple: bool) -> list[int]:
        """What a multiple concerns that names a tag which is not outstanding."""
        return [lower for lower in self.unacked.tags() if lower < tag] if is_multiple else []

    def outstanding(self) -> list[QueueEntry]:
        """Entries that count against credit: unacked, or settled in an open transaction."""
        entries = list(self.unacked.entries.values())
        if self.transaction is not None:
            entries += self.transaction.settled_entries()
        return entries

    def release_all(self, without_tags: list[QueueEntry]) -> None:
        """Everything unacked becomes ready again, and so does what has no tag yet."""
        entries = without_tags + self._give_back(self.unacked.take_all())
        release_entries(entries, is_counted=self.is_release_counted)

    @property
    def is_release_counted(self) -> bool:
        """Whether the delivery limit counts what comes back otherwise than by basic.reject."""
        return not self._dialect.counts_rejects_only


def unknown_tag(tag: int) -> PreconditionFailed:
    return PreconditionFailed(f"unknown delivery tag {tag}")


def _in_ack(error: PreconditionFailed) -> PreconditionFailed:
    """The lane has no method being handled; say which one it was."""
    error.class_id = _BASIC_CLASS
    error.method_id = _ACK_METHOD
    return error
