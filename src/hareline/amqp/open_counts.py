"""How many connections and channels are open, and whose: numbers that the limits are held against.

``amqp.open_limits`` notes what comes and goes, and compares. Each number is kept as it changes:
a broker with ten thousand connections must not look at all of them for each that comes.

Invariant: a name that has nothing open has no entry, so that names which come once cost nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from hareline.auth.peer import network_of
from hareline.auth.users import Identity

Key = TypeVar("Key", bound=Hashable)


class OpenCounts:
    """``connections`` and ``channels``: of the whole broker; users by their identity.

    ``by_address``: connections, by ``network_of`` of the client's address.
    """

    __slots__ = (
        "by_address",
        "by_user",
        "by_vhost",
        "channels",
        "channels_by_user",
        "connections",
    )

    def __init__(self) -> None:
        self.connections = 0
        self.channels = 0
        self.by_vhost: dict[str, int] = {}
        self.by_user: dict[Identity, int] = {}
        self.by_address: dict[str, int] = {}
        self.channels_by_user: dict[Identity, int] = {}

    def count_connection(self, by: int, vhost_name: str, user: Identity, host: str) -> None:
        """A connection is open (1), or no longer is (-1)."""
        self.connections += by
        add_to(self.by_vhost, vhost_name, by)
        add_to(self.by_user, user, by)
        add_to(self.by_address, network_of(host), by)

    def count_channel(self, by: int, user: Identity) -> None:
        """A channel is open (1), or no longer is (-1)."""
        self.channels += by
        add_to(self.channels_by_user, user, by)


def add_to(counts: dict[Key, int], name: Key, by: int) -> None:
    """Add to a number; one that becomes 0 is forgotten."""
    count = counts.get(name, 0) + by
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)
