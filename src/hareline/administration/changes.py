"""Administrative changes: durable first, then in memory, then reported to the listeners.

A store may write later, so a part hands over what to do then. A change begins when no other is
under way, since it is checked against memory. In a batch memory comes first, since later changes
depend on earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, Final

from hareline.errors import StoreError
from hareline.storage.administration import AdministrationStore, Record

#: Who acts when no user does, by RabbitMQ's name.
INTERNAL: Final = "rmq-internal"

Listener = Callable[[str, Mapping[str, Any]], None]


class Changes:
    """``on_event``: called with the name of an event, such as "user.created", and its fields."""

    __slots__ = ("_error", "_is_batch", "_pending", "_waiting", "on_event", "store")

    def __init__(self, store: AdministrationStore) -> None:
        self.store = store
        self.on_event: list[Listener] = []
        self._is_batch = False
        self._pending = 0
        self._error: StoreError | None = None
        self._waiting: list[Callable[[StoreError | None], None]] = []

    @property
    def is_pending(self) -> bool:
        """True while something is written, but neither durable nor lost."""
        return self._pending > 0

    def write(
        self,
        apply: Callable[[], None],
        *,
        put: Iterable[Record] = (),
        delete: Iterable[Record] = (),
        vhost: str | None = None,
    ) -> None:
        """Put and delete these records, and delete a virtual host; call ``apply`` once durable.

        ``apply`` runs in the context of the caller, and never if the write is lost; within a batch
        it runs at once. Raises StoreError if a store that writes at once cannot.
        """
        if vhost is not None:
            self.store.delete_vhost(vhost)
        self.store.delete(*delete)
        self.store.put(*put)
        if self._is_batch:
            apply()
        else:
            self._when_durable(apply)

    def sweep(self, vhost: str) -> None:
        """Delete a virtual host again; if that write is lost, with the next change."""
        self.store.delete_vhost(vhost, is_repeated=True)
        self._when_durable(_nothing, is_repeated=True)

    def when_settled(self, callback: Callable[[StoreError | None], None]) -> bool:
        """Call this when all changes are durable, or one is lost; False if there are none."""
        if self.is_pending:
            self._waiting.append(callback)
        return self.is_pending

    def tell(self, event: str, by: str, **fields: Any) -> None:
        """Tell the listeners that this was done, by this user."""
        told = {**fields, "user_who_performed_action": by}
        for listener in self.on_event:
            listener(event, told)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Apply changes of the block at once; ``when_settled`` reports when they are durable.

        If they are lost, a restart has none of them.
        """
        was_batch, self._is_batch = self._is_batch, True
        try:
            yield
        finally:
            self._is_batch = was_batch
            if not was_batch:
                self._when_durable(_nothing)

    def _when_durable(self, apply: Callable[[], None], *, is_repeated: bool = False) -> None:
        context = copy_context()

        def on_settled(error: StoreError | None) -> None:
            self._pending -= 1
            if not is_repeated:
                self._error = self._error or error
            try:
                if error is None:
                    context.run(apply)
            finally:
                self._tell_waiting()

        if self.store.when_settled(on_settled):
            self._pending += 1
        else:
            apply()

    def _tell_waiting(self) -> None:
        if self.is_pending:
            return
        waiting, self._waiting = self._waiting, []
        error, self._error = self._error, None
        for callback in waiting:
            callback(error)


def _nothing() -> None:
    """Nothing is left to be done."""
