"""The store that keeps nothing: messages and definitions last as long as the process.

Used by ``hareline.testing``, and by a broker with ``storage.kind = "memory"``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hareline.errors import StoreError
from hareline.storage.interface import DefinitionStore, MessageStore, QueueLedger


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


class MemoryDefinitions(DefinitionStore):
    """Counts ids; the virtual hosts themselves are the only copy."""

    __slots__ = ("_last_id",)

    def __init__(self) -> None:
        self._last_id = 0

    def add_queue(
        self,
        vhost: str,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None = None,
        incarnation: str | None = None,
    ) -> int:
        self._last_id += 1
        return self._last_id

    def delete_queue(self, vhost: str, name: str, *, queue_id: int = 0) -> None:
        """It was only in memory."""

    def set_queue_settings(
        self, vhost: str, name: str, *, is_paused: bool, changes: Mapping[str, object]
    ) -> None:
        """They are only in memory."""

    def add_exchange(
        self,
        vhost: str,
        name: str,
        type_name: str,
        *,
        is_auto_delete: bool,
        is_internal: bool,
        arguments: Mapping[str, object],
        queue: str | None = None,
    ) -> int:
        if queue is None:
            return 0
        self._last_id += 1
        return self._last_id

    def delete_exchange(
        self, vhost: str, name: str, *, queue: str | None = None, queue_id: int = 0
    ) -> None:
        """It was only in memory."""

    def bind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
        replaced: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """It is only in memory."""

    def unbind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> None:
        """It was only in memory."""

    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        """Nothing is lost while there is the process."""

    def when_settled(
        self, callback: Callable[[StoreError | None], None], vhost: str, *names: str
    ) -> bool:
        return False
