"""Counts of the messages of a queue, worked out of its counters when asked for.

Called by ``statistics`` and when a queue is deleted. Invariant: no number falls while the queue
exists.
"""

from __future__ import annotations

from hareline.counts import QueueCounts
from hareline.queues.books import QueueBooks


def queue_counts(queue: QueueBooks) -> QueueCounts:
    """Counts of the messages of a queue since the broker started."""
    tally = queue.tally
    automatic = tally.automatic + tally.reading - tally.reading_acks
    acks = queue.settled_count - tally.automatic - tally.dropped - tally.get_no_ack
    if tally.reading_acks:
        acks += tally.reading_acks - tally.reading_back - queue.unacked_count
    ledger, paging = queue.ledger, queue.paging
    return QueueCounts(
        publish=queue.next_offset - tally.first_offset,
        deliver=queue.delivered_count - automatic - tally.get - tally.get_no_ack,
        deliver_no_ack=automatic,
        get=tally.get,
        get_no_ack=tally.get_no_ack,
        get_empty=tally.get_empty,
        ack=acks,
        redeliver=tally.redelivered,
        disk_reads=0 if paging is None else paging.contents.read_count,
        disk_writes=0 if ledger is None else ledger.counts()[0],
    )


def queue_mark(queue: QueueBooks) -> int:
    """A number that changes with each change of the counts and depths of a queue."""
    return (
        2 * (queue.next_offset + queue.delivered_count)
        + queue.released_count
        + queue.settled_count
        + queue.tally.get_empty
        - queue.held_count
        - queue.unacked_count
    )
