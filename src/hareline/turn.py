"""The end-of-turn routine: what happens after the reads of one loop turn, in a written order.

Reads only *mark* work; ``finish`` then does it: connections whose input had used up its share go
on, every marked queue dispatches (bounded), then the store is handed what must survive, then every
marked connection writes once. ``schedule`` is injected (``loop.call_soon`` in the server, nothing
in a unit test, which calls ``finish`` by hand), so there is no asyncio here.

*Work* bounds how much one turn reads, not octets: a publish of 60 octets may be routed to
a thousand queues. One unit is an entry added to a queue, or the time that takes; connections count
it in ``work``, stop at ``WORK_PER_SHARE`` each, and wait in line for the next turn. Thousands of
them cannot make a turn long either: when it has read ``WORK_PER_TURN``, floods wait in line, and
anything else has ``WORK_WHEN_FULL``.

The ports below are no ABCs: compiled classes that inherit one would share its cache of isinstance.

Invariant: exactly one later ``finish`` runs everything that is marked, and continues what waits in
line.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

WORK_PER_S: Final = 2_000_000
WORK_PER_TURN: Final = 32_768  # about 16 ms: with the rest of a turn, connections wait 30 ms
WORK_PER_SHARE: Final = 4_096
# What a connection may still do at once when a turn has read all that it should: some 130 us, which
# answers a small question. Whoever has more to do waits in line with the rest of it.
WORK_WHEN_FULL: Final = 256
# Of all that wait in line, once: with more of them each has a smaller share.
WORK_PER_ROUND: Final = 4 * WORK_PER_TURN
# Dispatches stop here, and the other marked queues have the next turn. Each queue has a share of
# its own (``lane.ENTRIES_PER_TURN``), but a client can mark thousands of queues.
DISPATCH_S: Final = 0.02


class Receiving:
    """A connection that waits in line with the rest of what it read."""

    __slots__ = ()

    @abstractmethod
    def go_on(self) -> None:
        """Handle more of what was read, up to a share."""


class Dispatching:
    """A queue, or a part of one, that has something to do at the end of the turn."""

    __slots__ = ()

    @abstractmethod
    def dispatch(self) -> bool:
        """Deliver what can be delivered, within a budget; True when the budget cut it short."""


class Draining:
    """A connection that has something to write at the end of the turn."""

    __slots__ = ()

    @abstractmethod
    def finish_turn(self) -> None:
        """Emit what was put off to the end of the turn, then hand all output to the socket."""


class Turn:
    """Collects marked work and runs it at the end of the turn.

    ``now`` gives seconds of a clock that does not go back; without it work takes no time.
    ``write_pending`` is the store's; it does nothing in a broker without a store.

    ``is_behind``: dispatch or the store did not keep up, so publishers should pause;
    ``is_store_behind``: it was the store, and they must wait until it has caught up.
    ``number``: of this turn. ``work``: units of work that were read in it, or done while
    connections write. ``line_share``: of those that wait in line, the units that each may do in a
    turn. ``watch`` is told how many seconds each turn took, if it is there.

    ``behind_count``: turns that were behind at their end; ``store_behind_count``: those where it
    was the store; ``left_count``: queues whose dispatch a turn has left to the next one.
    """

    __slots__ = (
        "_connections",
        "_is_armed",
        "_line",
        "_queues",
        "_schedule",
        "behind_count",
        "is_behind",
        "is_store_behind",
        "left_count",
        "line_share",
        "now",
        "number",
        "on_finished",
        "store_behind_count",
        "watch",
        "work",
        "write_pending",
    )

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        now: Callable[[], float] = float,
    ) -> None:
        self._schedule = schedule
        self.now = now
        self._queues: list[Dispatching] = []
        self._line: deque[Receiving] = deque()
        self.line_share = WORK_PER_SHARE
        self.work = 0
        self.number = 0
        self._connections: list[Draining] = []
        self._is_armed = False
        self.is_behind = False
        self.is_store_behind = False
        self.behind_count = 0
        self.store_behind_count = 0
        self.left_count = 0
        self.write_pending: Callable[[], bool] = _write_nothing
        self.on_finished: Callable[[], None] | None = None
        self.watch: Callable[[float], object] | None = None

    def mark_queue(self, queue: Dispatching) -> None:
        self._queues.append(queue)
        self.arm()

    def mark_connection(self, connection: Draining) -> None:
        self._connections.append(connection)
        self.arm()

    def wait_in_line(self, connection: Receiving) -> None:
        """Call ``connection.go_on`` in a later turn, after connections that were in line before."""
        self._line.append(connection)
        self.arm()

    def arm(self) -> None:
        """Make ``finish`` run, even if nothing is marked."""
        if not self._is_armed:
            self._is_armed = True
            self._schedule(self.finish)

    def finish(self) -> None:
        queues: Iterator[Dispatching] = iter(())
        connections: Iterator[Draining] = iter(())
        postponed: list[Dispatching] = []
        unfinished: list[Dispatching] = []
        started_s = 0.0 if self.watch is None else self.now()
        try:
            self._serve_line()
            queues, self._queues = iter(self._queues), []
            end_s = self.now() + DISPATCH_S
            for queue in queues:
                if queue.dispatch():
                    unfinished.append(queue)
                if self.now() > end_s:
                    break
            postponed = list(queues)
            # Only now, so that what dispatch marks for this turn does not request another one;
            # and not later: the store may need a further turn as soon as it has had this one, and
            # for what connections do next it must be asked again.
            self._is_armed = False
            self.is_store_behind = self.write_pending()
            self.work = 0  # what waited behind a commit is handled as its connection writes
            connections, self._connections = iter(self._connections), []
            for connection in connections:
                connection.finish_turn()
            self.is_behind = self.is_store_behind or bool(unfinished) or bool(postponed)
            if self.is_behind:
                self.behind_count += 1
                self.store_behind_count += self.is_store_behind
                self.left_count += len(unfinished) + len(postponed)
            if self.on_finished is not None:
                self.on_finished()
            if self.watch is not None:
                self.watch(self.now() - started_s)
        except BaseException:
            self._is_armed = False
            raise
        finally:
            self.work = 0
            self.number += 1
            # The postponed ones come first; after an exception there are others still to come.
            self._queues[:0] = [*postponed, *queues, *unfinished]
            self._connections += connections
            if self._queues or self._connections or self._line:
                self.arm()

    def _serve_line(self) -> None:
        """Continue the connections that waited longest, at least one, while the turn has room."""
        count = len(self._line)
        share = WORK_PER_ROUND // count if count else WORK_PER_SHARE
        self.line_share = min(WORK_PER_SHARE, max(WORK_WHEN_FULL, share))
        for _ in range(count):
            self._line.popleft().go_on()
            if self.work >= WORK_PER_TURN:
                break


def _write_nothing() -> bool:
    """The turn of a broker without a store."""
    return False
