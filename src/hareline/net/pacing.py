"""Pacing: a bounded read of each connection at a time, and turns while the broker is behind.

``net.shell`` asks ``pause`` after a read that filled the buffer, or that published while the broker
is behind; the turn calls ``on_turn_finished``, which lets paused connections be read again. A
paused connection stands in exactly one line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from hareline.turn import Turn

# About 0.5 ms of publishes, and small enough for what it turns into to stay in the cache.
READ_BUFFER_BYTES: Final = 65_536
ADDRESSES_MAX: Final = 1_024  # of ours, that clients have come to
LARGE_BUFFER_BYTES: Final = 524_288  # for bodies of many frames, whose cost is copying


class Paced(ABC):
    """A connection, as far as pacing goes."""

    __slots__ = ()

    @property
    @abstractmethod
    def publishes(self) -> bool:
        """True once it has published."""

    @abstractmethod
    def set_behind(self, is_behind: bool) -> None:
        """Stop reading it, or read it again."""


class Pacing:
    """Turns of all connections of a broker, so that none waits for another's flood.

    A connection that fills the read buffer is not read again before the turn is over; otherwise the
    event loop would go on reading it as long as it has more. While the dispatch of a turn is
    unfinished, connections that publish are read one after the other, one piece a turn: fast
    publishers would fill a queue whose consumers could take everything, because each turn would
    read more than it delivers. A deep queue may drain for seconds, so they are not stopped until it
    has drained. While the store is behind they are not read at all: it catches up as fast as the
    disk is.

    The read buffers are shared by all connections: one is filled and emptied in one call each. So
    are the addresses that they came to.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._publishers: dict[Paced, None] = {}  # those that wait, in the order of coming
        self._others: dict[Paced, None] = {}
        self.read_buffer = memoryview(bytearray(READ_BUFFER_BYTES))
        self.large_buffer = memoryview(bytearray(LARGE_BUFFER_BYTES))
        self._addresses: dict[tuple[str, int], tuple[str, int]] = {}

    def pause(self, connection: Paced) -> None:
        """Stop reading it until the turn ends or, while dispatch is behind, its turn comes."""
        if connection not in self._publishers and connection not in self._others:
            (self._publishers if connection.publishes else self._others)[connection] = None
            connection.set_behind(True)
            self._turn.arm()

    def shared_address(self, sockname: tuple[str, int] | None) -> tuple[str, int]:
        """Our own address of a connection: one object for all that came to it."""
        if sockname is None:  # the peer was gone before it could be asked for
            return ("", 0)
        address = sockname[:2]
        if len(self._addresses) >= ADDRESSES_MAX:
            self._addresses.clear()
        return self._addresses.setdefault(address, address)

    def forget(self, connection: Paced) -> None:
        """The connection has ended."""
        self._publishers.pop(connection, None)
        self._others.pop(connection, None)

    def on_turn_finished(self) -> None:
        """Read those that waited again, as far as the broker has caught up."""
        publishers = self._publishers
        if publishers and self._turn.is_behind:
            if not self._turn.is_store_behind:
                first = next(iter(publishers))
                del publishers[first]
                first.set_behind(False)
        elif publishers:
            self._publishers = {}
            for connection in publishers:
                connection.set_behind(False)
        if self._others:
            others, self._others = self._others, {}
            for connection in others:
                connection.set_behind(False)
