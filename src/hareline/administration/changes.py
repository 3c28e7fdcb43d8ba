"""How a change is made: durable first, then in memory, then told to the listeners.

Each part of ``hareline.administration`` writes through one ``Changes``. A change that cannot be
written raises StoreError before anything else has happened.

Invariant: what a listener is told is durable, or will be with the end of the batch it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from hareline.storage.administration import AdministrationStore, Record

#: Who acts when no user does, by RabbitMQ's name.
INTERNAL: Final = "rmq-internal"

Listener = Callable[[str, Mapping[str, Any]], None]


class Changes:
    """``on_event``: called with the name of an event, such as "user.created", and its fields."""

    __slots__ = ("_is_batch", "on_event", "store")

    def __init__(self, store: AdministrationStore) -> None:
        self.store = store
        self.on_event: list[Listener] = []
        self._is_batch = False

    def put(self, *records: Record) -> None:
        """Write these records. Raises StoreError."""
        self.store.put(*records)
        self._commit()

    def delete(self, *records: Record) -> None:
        """Delete the records with these keys. Raises StoreError."""
        self.store.delete(*records)
        self._commit()

    def delete_vhost(self, name: str) -> None:
        """Delete all that is kept of a virtual host. Raises StoreError."""
        self.store.delete_vhost(name)
        self._commit()

    def tell(self, event: str, by: str, **fields: Any) -> None:
        """Tell the listeners that this was done, by this user."""
        told = {**fields, "user_who_performed_action": by}
        for listener in self.on_event:
            listener(event, told)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make what is changed in the block durable at its end, and not one by one.

        Raises StoreError at the end if that fails; then a restart has none of it.
        """
        was_batch, self._is_batch = self._is_batch, True
        try:
            yield
        finally:
            self._is_batch = was_batch
        self._commit()

    def _commit(self) -> None:
        if not self._is_batch:
            self.store.commit()
