"""Entries of an earlier life come back into a queue, as recovery has found them.

Called by ``storage.recovery`` once for each durable queue, before there are any clients.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Final

from hareline.message import Message
from hareline.queues.queue import Queue

RESTORED_PER_STEP: Final = 4_096  # entries, before some may leave memory

Found = tuple[int, int, Message]  # offset, delivery count, message


def takes_pages(queue: Queue) -> bool:
    """True if entries may come by ``restore_paged``."""
    return (
        queue.paging is not None
        and queue.order.paged is not None
        and queue.has_entries_to_itself
        and queue.hold is None
        and (queue.overflow is None or not queue.overflow.counts_unacked)
    )


def has_levels(queue: Queue) -> bool:
    """True if the queue has priorities."""
    paged = queue.order.paged
    return paged is not None and paged.has_levels


def restore_entries(queue: Queue, entries: Iterable[Found]) -> None:
    """Give a queue its entries, in the order of offsets."""
    paging = queue.paging
    for number, (offset, delivery_count, message) in enumerate(entries, 1):
        queue.revive(offset, delivery_count, message)
        if paging is not None and not number % RESTORED_PER_STEP:
            paging.on_restored()
    if paging is not None:
        paging.on_restored()


def restore_paged(
    queue: Queue,
    offsets: array[int],
    positions: array[int],
    ready_bytes: int,
    delivery_counts: Mapping[int, int] | None = None,
    *,
    kept: Iterable[Found] = (),
    level: int = 0,
    sizes: array[int] | None = None,
) -> None:
    """Give a queue entries whose contents stay on disk, behind all of their level.

    ``offsets`` and ``positions`` are ``array("Q")`` of the same length, of entries that become
    numbers; ``ready_bytes``: the octets of their bodies; ``delivery_counts`` has those above 0.
    ``kept``: entries that stay objects, since they expire or show how often they came back.
    ``level``: of priority; 0 in queues without. ``sizes``: octets of each body, which only a log
    asks for. Only if ``takes_pages``; ``end_paged`` is to follow
    when all are there.
    """
    assert takes_pages(queue), queue
    assert queue.paging is not None
    objects = [queue.revive(*each, is_paged=True) for each in kept]
    kept_bytes = sum([entry.message.size for entry in objects])
    queue.count_revived(
        offsets[-1] if offsets else -1,
        ready_bytes + kept_bytes,
        returned_count=len(delivery_counts or ()),
    )
    queue.paging.restore(
        offsets,
        positions,
        ready_bytes + kept_bytes,
        delivery_counts or {},
        list(objects),
        level,
        sizes,
    )


def end_paged(queue: Queue) -> None:
    """All entries of an earlier life are there; limits apply to them."""
    if queue.paging is not None:
        queue.paging.on_restored()
    if queue.overflow is not None:
        queue.overflow.enforce(None)
    queue.mark()
