"""Message store that keeps nothing: messages last as long as the process.

Used by ``hareline.testing``, and by a broker with ``storage.kind = "memory"``.
"""

from __future__ import annotations

from collections.abc import Callable

from hareline.storage.interface import MessageStore, QueueLedger


class MemoryStore(MessageStore):
    """Every ticket is durable at once."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.durable_ticket = self.ticket

    def open_queue(self, queue_id: int, name: str) -> QueueLedger | None:
        return None

    def write_pending(self) -> bool:
        return False

    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        raise AssertionError("no ticket is ever waited for")

    @property
    def is_behind(self) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to close."""
