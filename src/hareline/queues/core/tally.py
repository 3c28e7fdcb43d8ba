"""Counters of a queue beside its depths: raised once for a batch, and never for a message.

Written by ``books`` and by what answers basic.get. Publishes are a queue's offsets, and
acknowledgements the entries that were settled and are not counted here; ``counts`` puts it
together when it is asked for.

Invariant: every entry that was settled was acknowledged, got without acknowledgement, or is in
``automatic`` or ``dropped``.                                                                [hot]
"""

from __future__ import annotations

from hareline.queues.core.entry import QueueEntry


class QueueTally:
    """``first_offset``: of the first message that is not of an earlier life.

    ``automatic``: entries handed to consumers that do not acknowledge. ``dropped``: entries that
    left otherwise than by a consumer or a get. ``reading``: deliveries to readers, who were to
    acknowledge ``reading_acks`` of them, and gave ``reading_back`` of these back. ``redelivered``:
    deliveries with the redelivered flag. ``get``, ``get_no_ack`` and ``get_empty`` are of
    basic.get.
    """

    __slots__ = (
        "automatic",
        "dropped",
        "first_offset",
        "get",
        "get_empty",
        "get_no_ack",
        "reading",
        "reading_acks",
        "reading_back",
        "redelivered",
    )

    def __init__(self) -> None:
        self.first_offset = 0
        self.automatic = 0
        self.dropped = 0
        self.reading = 0
        self.reading_acks = 0
        self.reading_back = 0
        self.redelivered = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0

    def count_get(self, entry: QueueEntry | None, *, acknowledges: bool) -> None:
        """Count a basic.get; ``entry``: what was acquired for it."""
        if entry is None:
            self.get_empty += 1
        elif acknowledges:
            self.get += 1
        else:
            self.get_no_ack += 1

    def count_readings(self, count: int, unacked_count: int) -> None:
        """Count deliveries to readers, ``unacked_count`` of them to be acknowledged."""
        self.reading += count
        self.reading_acks += unacked_count
