"""Changes of a user carried over to its open connections, in shares of the turn.

``administration.users`` adds connections that are to be closed, or to take over new rights. The
first of them follow at once, as many as a share has time for; the rest follow in the next turns, so
that a user with ten thousand connections makes no other client wait.

Invariant: connections follow in the order in which changes were made; one that is gone is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from hareline.amqp.context import Context
from hareline.amqp.ports import LiveConnection
from hareline.auth.users import INTERNAL
from hareline.later import Job

Change = Callable[[LiveConnection], None]


class ConnectionChanges(Job):
    """One for a broker, so that many changes have one share together."""

    __slots__ = ("_context", "_due", "_is_under_way")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._due: deque[tuple[LiveConnection, Change]] = deque()
        self._is_under_way = False

    def add(self, connections: Iterable[LiveConnection], change: Change) -> None:
        """Have ``change`` done to each of these connections."""
        self._due.extend([(connection, change) for connection in connections])
        if self._due and not self._is_under_way:
            self._is_under_way = not self._context.shares.start(self, self._on_done)

    def run(self, until_s: float) -> bool:
        context, due = self._context, self._due
        while due:
            connection, change = due.popleft()
            if connection in context.connections:
                try:
                    change(connection)
                except BaseException:  # this run is lost, but the next change goes on
                    self._is_under_way = False
                    raise
                if context.clock.running_s() >= until_s:
                    break
        return not due

    def _on_done(self) -> None:
        self._is_under_way = False


def is_administered(connection: LiveConnection, name: str) -> bool:
    """True if the user of this name that is administered here has logged in on the connection."""
    user = connection.client.user
    return user is not None and user.name == name and user.backend == INTERNAL
