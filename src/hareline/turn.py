"""The end-of-turn routine: what happens after the reads of one loop turn, in a written order.

Reads only *mark* work; ``finish`` then does it: every marked queue dispatches (bounded), then the
store is handed what must survive, then every marked connection writes once. ``schedule`` is
injected (``loop.call_soon`` in the server, nothing in a unit test, which calls ``finish`` by hand),
so there is no asyncio here.

Invariant: whatever is marked is run by exactly one later ``finish``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol


class Dispatching(Protocol):
    def dispatch(self) -> bool:
        """Deliver what can be delivered, within a budget; True when the budget cut it short."""


class Draining(Protocol):
    def finish_turn(self) -> None:
        """Emit what was put off to the end of the turn, then hand all output to the socket."""


class Turn:
    """``write_pending`` is the store's; nothing, where nothing is kept.

    ``is_behind``: dispatch or the store did not keep up, so publishers should pause;
    ``is_store_behind``: it was the store, and they are not to go on before it has caught up.
    """

    __slots__ = (
        "_connections",
        "_is_armed",
        "_queues",
        "_schedule",
        "is_behind",
        "is_store_behind",
        "on_finished",
        "write_pending",
    )

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._queues: list[Dispatching] = []
        self._connections: list[Draining] = []
        self._is_armed = False
        self.is_behind = False
        self.is_store_behind = False
        self.write_pending: Callable[[], bool] = _write_nothing
        self.on_finished: Callable[[], None] | None = None

    def mark_queue(self, queue: Dispatching) -> None:
        self._queues.append(queue)
        self.arm()

    def mark_connection(self, connection: Draining) -> None:
        self._connections.append(connection)
        self.arm()

    def arm(self) -> None:
        """See to it that ``finish`` runs, though nothing may be marked."""
        if not self._is_armed:
            self._is_armed = True
            self._schedule(self.finish)

    def finish(self) -> None:
        queues, self._queues = iter(self._queues), []
        connections: Iterator[Draining] = iter(())
        unfinished: list[Dispatching] = []
        try:
            unfinished.extend(queue for queue in queues if queue.dispatch())
            self.is_store_behind = self.write_pending()
            # Only now, so that what dispatch marks for this very turn does not ask for another one;
            # and not later, for what connections do next the store must be asked again.
            self._is_armed = False
            connections, self._connections = iter(self._connections), []
            for connection in connections:
                connection.finish_turn()
            self.is_behind = self.is_store_behind or bool(unfinished)
            if self.on_finished is not None:
                self.on_finished()
        except BaseException:
            self._is_armed = False
            raise
        finally:
            self._queues += unfinished
            self._queues += queues  # after an exception, who is still to come
            self._connections += connections
            if self._queues or self._connections:
                self.arm()


def _write_nothing() -> bool:
    """The turn of a broker without a store."""
    return False
