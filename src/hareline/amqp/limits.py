"""Numbers that limits are held against: what is open, and how fast users publish.

``amqp.context`` compares. Counts are kept as they change: a broker with ten thousand connections
must not look at all of them for each that comes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeVar

from hareline.auth.peer import network_of
from hareline.auth.users import Identity, User
from hareline.clock import Clock, TokenBucket
from hareline.counts import ReachedLimits

Key = TypeVar("Key", bound=Hashable)

USERS_MAX: Final = 1024  # above it, buckets that are full again are forgotten


class OpenCounts:
    """Connections and channels that are open; names that have nothing open have no entry.

    ``by_address``: connections, by ``network_of`` of the client's address. Users by identity.
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
        self.channels += by
        add_to(self.channels_by_user, user, by)


def add_to(counts: dict[Key, int], name: Key, by: int) -> None:
    """Add to a number; one that becomes 0 is forgotten."""
    count = counts.get(name, 0) + by
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)


class UserRate:
    """The buckets of one user, None where it has no limit; ``limits`` are what they were made of.

    Messages and octets, as in ``limits``.
    """

    __slots__ = ("limits", "messages", "octets")

    def __init__(self) -> None:
        self.limits: tuple[int | None, int | None] = (None, None)
        self.messages: TokenBucket | None = None
        self.octets: TokenBucket | None = None

    def is_full(self, now_s: float) -> bool:
        """True if new buckets would be no different."""
        return all(
            bucket is None or bucket.is_full(now_s) for bucket in (self.messages, self.octets)
        )


class PublishRates:
    """Limits on the rates of publishing users: their buckets, which outlast their connections.

    What is overdrawn is waited for with the socket unread: nothing is refused, no message is lost.

    ``per_user``, ``bytes_per_user``: a second, of users without a limit of their own; 0: any.
    ``reached`` counts how often one has to be waited for.
    """

    __slots__ = ("_by_user", "_clock", "bytes_per_user", "per_user", "reached")

    def __init__(self, clock: Clock, reached: ReachedLimits) -> None:
        self._clock = clock
        self.reached = reached
        self.per_user = 0
        self.bytes_per_user = 0
        self._by_user: dict[Identity, UserRate] = {}

    def of(self, user: User | None) -> UserRate | None:
        """The buckets of a user, by the limits that it has now; None if it has none."""
        if user is None:
            return None
        messages, octets = user.max_publish_rate, user.max_publish_bytes_rate
        if messages is None:
            messages = self.per_user or None
        if octets is None:
            octets = self.bytes_per_user or None
        if messages is None and octets is None:
            return None
        rate = self._by_user.get(user.identity)
        if rate is None:
            self._make_room()
            rate = self._by_user[user.identity] = UserRate()
        if rate.limits != (messages, octets):
            now_s = self._clock.monotonic_s
            rate.limits = (messages, octets)
            rate.messages = _at(messages, rate.messages, now_s)
            rate.octets = _at(octets, rate.octets, now_s)
        return rate

    def _make_room(self) -> None:
        if len(self._by_user) >= USERS_MAX:
            now_s = self._clock.monotonic_s
            self._by_user = {
                user: rate for user, rate in self._by_user.items() if not rate.is_full(now_s)
            }


def _at(rate: int | None, bucket: TokenBucket | None, now_s: float) -> TokenBucket | None:
    """A bucket of this rate: the one that is there, as full as it is, or a new one."""
    if rate is None:
        return None
    if bucket is None:
        return TokenBucket(rate, now_s)
    bucket.set_rate(rate, now_s)
    return bucket
