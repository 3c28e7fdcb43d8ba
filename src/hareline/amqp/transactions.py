"""tx: publishes and settlements of a channel, kept until commit.

Publishes are checked and routed as they come, as in RabbitMQ; they are enqueued, and the unroutable
ones returned, only at commit. Acknowledgements take effect only then, and nothing else of the
broker runs in between, so a commit is atomic to everyone watching. A rollback drops the publishes
and puts the acknowledged deliveries back among the channel's unacked ones; they are not redelivered
(RabbitMQ's rule for tx.rollback).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hareline.amqp.settling import release_entries, settle_entries
from hareline.broker.queues.entry import QueueEntry


class Settlement(NamedTuple):
    deliveries: list[tuple[int, QueueEntry]]
    is_requeue: bool


class Transaction:
    """One open transaction; it begins anew after each commit or rollback."""

    def __init__(self) -> None:
        self._publishes: list[Callable[[], None]] = []
        self._settlements: list[Settlement] = []

    def publish(self, publish: Callable[[], None]) -> None:
        """Keep a publish; it is carried out by ``commit``."""
        self._publishes.append(publish)

    def settle(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, is_requeue=False))

    def requeue(self, entries: list[tuple[int, QueueEntry]]) -> None:
        self._settlements.append(Settlement(entries, is_requeue=True))

    def settled_entries(self) -> list[QueueEntry]:
        """Entries whose settlement waits for the commit."""
        return [entry for settlement in self._settlements for _, entry in settlement.deliveries]

    def commit(self) -> None:
        publishes, self._publishes = self._publishes, []
        settlements, self._settlements = self._settlements, []
        for publish in publishes:
            publish()
        for settlement in settlements:
            entries = [entry for _, entry in settlement.deliveries]
            if settlement.is_requeue:
                release_entries(entries)
            else:
                settle_entries(entries)

    def rollback(self) -> list[tuple[int, QueueEntry]]:
        """Forget the publishes; returns the deliveries whose settlement is undone, with tags."""
        self._publishes = []
        settlements, self._settlements = self._settlements, []
        return [delivery for settlement in settlements for delivery in settlement.deliveries]
