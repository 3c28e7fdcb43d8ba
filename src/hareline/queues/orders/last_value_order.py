"""First in, first out, with only the newest value of each key (``x-last-value-key``).

The order is that of arrival, and a new value goes to the end like any other message. Which older
one it replaces is in ``values``; the queue finds that book here when it is made, and drops what is
replaced as it drops any entry.                                                              [hot]
"""

from __future__ import annotations

from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValues


class LastValueOrder(FifoOrder):
    """A FIFO and the book of its last values; entries have to be RankedEntry.

    Those that ``values`` knows stay objects in its pages.
    """

    __slots__ = ("values",)

    def __init__(self, key_header: str) -> None:
        super().__init__()
        self.values = LastValues(key_header)
