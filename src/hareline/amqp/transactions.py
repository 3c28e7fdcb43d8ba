"""tx: publishes and settlements of a channel, kept until commit.

Publishes are checked and routed as they come, as in RabbitMQ; they are enqueued, and the unroutable
ones returned, only at commit. Acknowledgements take effect only then, and nothing else of the
broker runs in between, so a commit is atomic to everyone watching. A queue that is full may refuse
publishes of a commit; all the rest of it is carried out, and the client is told by 406. While the
store refuses new messages, a commit with any that it would have to keep is refused as a whole, and
the channel's end rolls it back; so is one with more than the store writes at once. A rollback drops
the publishes and puts the acknowledged deliveries back among the channel's unacked ones; they are
not redelivered (RabbitMQ's rule for tx.rollback).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hareline.amqp.settling import reject_entries, release_entries, settle_entries
from hareline.broker.queues.entry import QueueEntry
from hareline.errors import ContentTooLarge, NotKept, PreconditionFailed
from hareline.storage.store import COMMIT_BYTES_MAX


class Settlement(NamedTuple):
    """``apply`` is to be done with the entries at commit."""

    deliveries: list[tuple[int, QueueEntry]]
    apply: Callable[[list[QueueEntry]], None]


class Transaction:
    """One open transaction; it begins anew after each commit or rollback."""

    def __init__(self) -> None:
        self._publishes: list[Callable[[], bool]] = []
        self._settlements: list[Settlement] = []
        self._kept_bytes = 0

    def publish(self, publish: Callable[[], bool], *, kept_bytes: int) -> None:
        """Keep a publish; ``commit`` carries it out, and it says whether every queue took it.

        ``kept_bytes``: of a message that a queue gives to the store, 0 for others.
        """
        self._publishes.append(publish)
        self._kept_bytes += kept_bytes

    def settle(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, settle_entries))

    def reject(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, reject_entries))

    def requeue(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, release_entries))

    def settled_entries(self) -> list[QueueEntry]:
        """Entries whose settlement waits for the commit."""
        return [entry for settlement in self._settlements for _, entry in settlement.deliveries]

    @property
    def concerns_store(self) -> bool:
        """Whether anything in it is for the store, so that the commit has to wait for the disk."""
        return self._kept_bytes > 0 or any(
            entry.message.position for entry in self.settled_entries()
        )

    def commit(self, refusal: str) -> None:
        """``refusal``: why the store takes nothing new, if so.

        Raises NotKept because of that, and ContentTooLarge for more than the store writes at once,
        when nothing is done; PreconditionFailed, when everything is done, if a queue refused a
        publish.
        """
        if refusal and self._kept_bytes:
            raise NotKept(f"transaction not committed, it cannot be stored: {refusal}")
        if self._kept_bytes > COMMIT_BYTES_MAX:
            raise ContentTooLarge(
                f"transaction not committed, it has {self._kept_bytes} octets to be stored, "
                f"the limit is {COMMIT_BYTES_MAX}"
            )
        publishes, self._publishes = self._publishes, []
        settlements, self._settlements = self._settlements, []
        self._kept_bytes = 0
        is_partial = False
        for publish in publishes:
            if not publish():
                is_partial = True
        for settlement in settlements:
            settlement.apply([entry for _, entry in settlement.deliveries])
        if is_partial:
            raise PreconditionFailed("partial tx completion")

    def rollback(self) -> list[tuple[int, QueueEntry]]:
        """Forget the publishes; returns the deliveries whose settlement is undone, with tags."""
        self._publishes = []
        self._kept_bytes = 0
        settlements, self._settlements = self._settlements, []
        return [delivery for settlement in settlements for delivery in settlement.deliveries]
