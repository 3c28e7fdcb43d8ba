"""Whether the broker's memory is short, for queues to go by.

``net.memory`` notices, ``paging.set_spooling`` tells the queues of a virtual host, and each queue's
paging looks here at the end of its dispatches.

Invariant: the mark is below the watermark at which publishers are blocked, so that contents are
spooled before anybody has to wait.
"""

from __future__ import annotations


class MemoryPressure:
    """``is_high``: memory is above the mark from which contents are spooled."""

    __slots__ = ("is_high",)

    def __init__(self) -> None:
        self.is_high = False
