"""Settle, reject or release entries of any number of queues, and give their consumers credit back.

Called for a channel's acknowledgements (``amqp.settling``), for what a transaction has kept of them
(``amqp.transactions``) and for deliveries that cannot be sent again (``amqp.redelivery``).

Invariant: the consumer of each entry gets its credit back exactly once.
"""

from __future__ import annotations

from hareline.queues.core.entry import EntryQueue, QueueEntry


def settle_entries(entries: list[QueueEntry]) -> None:
    """Settle entries of any number of queues, one by one."""
    for entry in entries:
        entry.queue.settle(entry)
        consumer = entry.consumer
        if consumer is not None:
            consumer.restore_credit(entry.message.size)


def reject_entries(entries: list[QueueEntry]) -> None:
    """Reject entries of any number of queues, one call for each queue."""
    for queue, rejected in _by_queue(entries):
        queue.reject(rejected)


def release_entries(entries: list[QueueEntry], *, is_counted: bool = True) -> None:
    """Release entries of any number of queues, one call for each queue."""
    for queue, released in _by_queue(entries):
        queue.release(released, is_counted=is_counted)


def _by_queue(entries: list[QueueEntry]) -> list[tuple[EntryQueue, list[QueueEntry]]]:
    """The entries of each queue, whose consumers have their credit back."""
    by_queue: dict[EntryQueue, list[QueueEntry]] = {}
    for entry in entries:
        consumer = entry.consumer
        if consumer is not None:
            consumer.restore_credit(entry.message.size)
        by_queue.setdefault(entry.queue, []).append(entry)
    return list(by_queue.items())
