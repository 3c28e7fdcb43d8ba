"""tx: publishes and settlements of a channel, kept until commit.

Publishes are checked and routed as they come, as in RabbitMQ; they are enqueued, and the unroutable
ones returned, only at commit. Acknowledgements take effect only then, and nothing else of the
broker runs in between, so a commit is atomic to everyone watching. A queue that is full may refuse
publishes of a commit; all the rest of it is carried out, and the client is told by 406. A rollback
drops the publishes and puts the acknowledged deliveries back among the channel's unacked ones; they
are not redelivered (RabbitMQ's rule for tx.rollback).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hareline.amqp.settling import reject_entries, release_entries, settle_entries
from hareline.broker.queues.entry import QueueEntry
from hareline.errors import PreconditionFailed


class Settlement(NamedTuple):
    """``apply`` is to be done with the entries at commit."""

    deliveries: list[tuple[int, QueueEntry]]
    apply: Callable[[list[QueueEntry]], None]


class Transaction:
    """One open transaction; it begins anew after each commit or rollback."""

    def __init__(self) -> None:
        self._publishes: list[Callable[[], bool]] = []
        self._settlements: list[Settlement] = []

    def publish(self, publish: Callable[[], bool]) -> None:
        """Keep a publish; ``commit`` carries it out, and it says whether every queue took it."""
        self._publishes.append(publish)

    def settle(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, settle_entries))

    def reject(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, reject_entries))

    def requeue(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, release_entries))

    def settled_entries(self) -> list[QueueEntry]:
        """Entries whose settlement waits for the commit."""
        return [entry for settlement in self._settlements for _, entry in settlement.deliveries]

    def commit(self) -> None:
        """Raises PreconditionFailed, when everything is done, if a queue refused a publish."""
        publishes, self._publishes = self._publishes, []
        settlements, self._settlements = self._settlements, []
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
        settlements, self._settlements = self._settlements, []
        return [delivery for settlement in settlements for delivery in settlement.deliveries]
