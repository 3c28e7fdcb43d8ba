"""Messages taken from a queue for an operator, as by basic.get, and what becomes of them.

Called by ``management`` for RabbitMQ's ``get``. The messages are acquired as by any consumer, so
nothing else has them meanwhile, and then leave, are dead-lettered, or come back as redelivered. A
paused queue gives them too: an operator looks into it.

Invariant: what was taken and not given on is back in its place, as if it had not been taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import REJECTED, SHOWN
from hareline.queues.queue import Queue

AckMode = Literal[
    "ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"
]


def take(queue: Queue, count: int, max_bytes: int | None = None) -> Iterator[QueueEntry]:
    """Acquire the next messages: ``count`` at most, and octets of bodies, but one in any case.

    Each is acquired as it is asked for; the caller may let others have their turn in between.
    """
    size = 0
    for number in range(count):
        if queue.is_deleted:
            return
        entry = _take_next(queue)
        if entry is None:
            return
        size += entry.message.size
        if number and max_bytes is not None and size > max_bytes:
            queue.restore([entry])
            return
        yield entry


def _take_next(queue: Queue) -> QueueEntry | None:
    if not queue.is_paused:
        return queue.get()
    if queue.lease is not None:
        queue.lease.touch()
    if queue.expiry is not None:
        while queue.expiry.drop_expired():
            continue  # as ``Queue.get``: the next entry must not be one that a later turn drops
    entry = queue.lane.get()
    if queue.overflow is not None:
        queue.overflow.on_delivered()
    return entry


def give_back(queue: Queue, entries: list[QueueEntry]) -> None:
    """Put back what was taken and not shown; of a deleted queue it goes where the rest is."""
    if queue.is_deleted:
        queue.release(entries, is_counted=False, cause=SHOWN)
    else:
        queue.restore(entries)


def acknowledge(queue: Queue, entries: list[QueueEntry], mode: AckMode) -> None:
    """End what ``take`` began. A rejection counts as a return, a look does not."""
    if mode == "ack_requeue_false":
        queue.tally.get_no_ack += len(entries)
        for entry in entries:
            queue.settle(entry)
        return
    queue.tally.get += len(entries)
    if mode == "reject_requeue_false":
        queue.reject(entries)
    else:
        is_rejected = mode == "reject_requeue_true"
        queue.release(entries, is_counted=is_rejected, cause=REJECTED if is_rejected else SHOWN)
