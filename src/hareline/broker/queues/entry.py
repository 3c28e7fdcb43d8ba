"""A message's place in one queue.

=========  ====================================  =============================================
state      meaning                               leaves it by
=========  ====================================  =============================================
READY      in the ordering, anyone may take it   acquire -> ACQUIRED, purge -> SETTLED
ACQUIRED   one consumer or basic.get has it      settle -> SETTLED, release -> READY
SETTLED    gone from the queue                   nothing
=========  ====================================  =============================================

Only ``broker.queues.queue`` and its dispatcher change the state.                            [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hareline.broker.queues.consumer import Consumer
    from hareline.broker.queues.queue import Queue
    from hareline.message import Message

READY: Final = 0
ACQUIRED: Final = 1
SETTLED: Final = 2

STATE_NAMES: Final = ("ready", "acquired", "settled")


class QueueEntry:
    """``offset`` only grows within a queue and fixes the entry's place in it.

    ``delivery_count`` counts deliveries that came back; above 0 the next one is "redelivered".
    ``consumer`` is who acquired it; None while ready and for basic.get.
    """

    __slots__ = ("consumer", "delivery_count", "message", "offset", "queue", "state")

    def __init__(self, queue: Queue, message: Message, offset: int) -> None:
        self.queue = queue
        self.message = message
        self.offset = offset
        self.state = READY
        self.delivery_count = 0
        self.consumer: Consumer | None = None

    def __repr__(self) -> str:
        return f"<QueueEntry {self.offset} of {self.queue.name!r}, {STATE_NAMES[self.state]}>"
