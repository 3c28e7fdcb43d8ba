"""Sign that the broker's memory is short.

``net.memory`` notices, ``window.set_spooling`` sets it for the queues of a virtual host, and each
queue's paging reads it at the end of its dispatches.

Invariant: the mark is below the watermark at which publishers are blocked, so that contents are
spooled before publishers have to wait.
"""

from __future__ import annotations


class MemoryPressure:
    """``is_high``: memory is above the mark from which contents are spooled."""

    __slots__ = ("is_high",)

    def __init__(self) -> None:
        self.is_high = False
