"""Credit that is more than one consumer's count: octet limits, and limits shared by a channel.

A consumer limited by count alone carries a plain integer (``Consumer.credit``) and never touches
this file. The others hold one or two windows, and every entry is put to each of them.      [hot]

Octets count message bodies. A message larger than what is left of an octet limit is still let
through when nothing else is outstanding, so that it cannot block its queue for ever
(AMQP 0-9-1, basic.qos prefetch-size).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hareline.broker.queues.consumer import Consumer

UNLIMITED: Final = 1 << 62


class CreditWindow:
    """At most ``limit_count`` deliveries and ``limit_bytes`` octets outstanding; 0 = no limit."""

    __slots__ = ("limit_bytes", "limit_count", "used_bytes", "used_count", "waiting")

    def __init__(self, limit_count: int = 0, limit_bytes: int = 0) -> None:
        self.limit_count = limit_count
        self.limit_bytes = limit_bytes
        self.used_count = 0
        self.used_bytes = 0
        self.waiting: list[Consumer] = []  # consumers this window turned away

    @property
    def is_limited(self) -> bool:
        return bool(self.limit_count or self.limit_bytes)

    def admits(self, size: int) -> bool:
        if self.limit_count and self.used_count >= self.limit_count:
            return False
        if not self.limit_bytes or self.used_bytes == 0:
            return True
        return self.used_bytes + size <= self.limit_bytes

    @property
    def free_count(self) -> int:
        """Deliveries that it admits whatever their sizes; at most 1 where octets are limited."""
        if self.limit_bytes:
            return 0 if self.used_bytes else 1
        return self.limit_count - self.used_count if self.limit_count else UNLIMITED

    def use_all(self, sizes: list[int]) -> None:
        self.used_count += len(sizes)
        self.used_bytes += sum(sizes)

    def use(self, size: int) -> None:
        self.used_count += 1
        self.used_bytes += size

    def restore(self, size: int) -> None:
        self.used_count -= 1
        self.used_bytes -= size

    def resize(self, limit_count: int, limit_bytes: int) -> None:
        self.limit_count = limit_count
        self.limit_bytes = limit_bytes

    def wake_waiting(self) -> None:
        """Offer the window to whom it turned away; those still refused come back to ``waiting``."""
        waiting, self.waiting = self.waiting, []
        for consumer in waiting:
            consumer.queue.activate(consumer)
