"""Ids of messages by which a queue knows a duplicate (x-message-deduplication).

``IdsInQueue`` frees an id when its message has left the queue (RabbitMQ's plugin by noxdafox, and
queues of LavinMQ 2); ``IdCache`` remembers the newest ids, whatever becomes of their messages
(``x-cache-size``, as their exchanges).                                                      [hot]
"""

from __future__ import annotations

from abc import abstractmethod
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.events import Tally
from hareline.queues.policies.deadline_timer import NEVER

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.environment import QueueEnvironment

DEFAULT_HEADER: Final = "x-deduplication-header"
DEFAULT_CACHE_SIZE: Final = 128  # LavinMQ
TTL_HEADER: Final = "x-cache-ttl"
ID_SHOWN_MAX: Final = 255  # characters, in a report
_ID_OCTETS: Final = 16
#: Ids above a size that was lowered go with the next new ones, some at a time.
_DROPPED_PER_ADD: Final = 2


class Deduplication:
    """Known ids. ``header`` None: the default one, and without it the property message-id.

    ``queue_name``: for the log.
    """

    __slots__ = ("_environment", "_queue_name", "_tally", "header")

    def __init__(self, queue_name: str, environment: QueueEnvironment, header: str | None) -> None:
        self._queue_name = queue_name
        self._environment = environment
        self._tally = Tally()
        self.header = header

    @property
    def duplicate_count(self) -> int:
        """Duplicates since the queue began to look at ids, or the broker started."""
        return self._tally.count

    def id_of(self, message: Message) -> bytes | None:
        """The id, as a digest of type and value; None: it has none, and is never a duplicate."""
        value = self._value_of(message)
        if value is None:
            return None
        if isinstance(value, str):
            octets = b"s" + value.encode("utf-8", "surrogateescape")
        elif isinstance(value, int) and not isinstance(value, bool):
            octets = b"i%d" % value  # of any width
        else:
            octets = f"{type(value).__name__} {value!r}".encode("utf-8", "surrogateescape")
        return blake2b(octets, digest_size=_ID_OCTETS).digest()

    def _value_of(self, message: Message) -> object:
        value = message.header(self.header or DEFAULT_HEADER)
        if value is None and self.header is None:
            value = message.properties.message_id or None
            message.forget_properties()
        return value

    @abstractmethod
    def knows(self, key: bytes) -> bool:
        """True if a message with this id is a duplicate now."""

    @abstractmethod
    def add(self, key: bytes, entry: QueueEntry) -> None:
        """Note the id of a new message."""

    def count_duplicate(self, message: Message) -> None:
        """Count a message that is not taken for its id, and report now and then."""
        environment, tally = self._environment, self._tally
        environment.duplicate_counts["queue"] += 1
        now_ms = environment.clock.now_ms
        if tally.add(now_ms):
            environment.report(
                events.DUPLICATES,
                queue=self._queue_name,
                vhost=environment.vhost_name,
                id=str(self._value_of(message))[:ID_SHOWN_MAX],
                count=tally.take(now_ms),
            )

    def revive(self, message: Message, entry: QueueEntry) -> None:
        """Note the id of a message of an earlier life."""

    @property
    @abstractmethod
    def id_count(self) -> int:
        """Ids that are remembered."""


class IdsInQueue(Deduplication):
    """Ids of the messages that are in the queue: ready, held or unacknowledged.

    Messages that were there before the queue began to look at ids count after a restart only.
    """

    __slots__ = ("_by_offset", "_ids")

    def __init__(self, queue_name: str, environment: QueueEnvironment, header: str | None) -> None:
        super().__init__(queue_name, environment, header)
        self._ids: set[bytes] = set()
        # not read from the message again: its content may be on disk by then
        self._by_offset: dict[int, bytes] = {}

    def knows(self, key: bytes) -> bool:
        return key in self._ids

    def add(self, key: bytes, entry: QueueEntry) -> None:
        self._ids.add(key)
        self._by_offset[entry.offset] = key

    def revive(self, message: Message, entry: QueueEntry) -> None:
        key = self.id_of(message)
        if key is not None and key not in self._ids:
            self.add(key, entry)

    def forget(self, entry: QueueEntry) -> None:
        """Free the id of an entry that has left."""
        key = self._by_offset.pop(entry.offset, None)
        if key is not None:
            self._ids.discard(key)

    @property
    def id_count(self) -> int:
        return len(self._ids)


class IdCache(Deduplication):
    """The newest ``size`` ids, each for ``ttl_ms``, or as its own header x-cache-ttl says."""

    __slots__ = ("_until_ms", "size", "ttl_ms")

    def __init__(
        self,
        queue_name: str,
        environment: QueueEnvironment,
        header: str | None,
        size: int | None,
        ttl_ms: int | None,
    ) -> None:
        super().__init__(queue_name, environment, header)
        self._until_ms: dict[bytes, int] = {}  # the oldest id first
        self.set_bounds(size, ttl_ms)

    def set_bounds(self, size: int | None, ttl_ms: int | None) -> None:
        """Go by these for ids to come; None: LavinMQ's size, no end."""
        self.size = DEFAULT_CACHE_SIZE if size is None else size
        self.ttl_ms = ttl_ms

    def knows(self, key: bytes) -> bool:
        return self._environment.clock.now_ms < self._until_ms.get(key, 0)

    def add(self, key: bytes, entry: QueueEntry) -> None:
        ttl_ms = entry.message.header(TTL_HEADER)
        if not isinstance(ttl_ms, int) or isinstance(ttl_ms, bool) or ttl_ms < 0:
            ttl_ms = self.ttl_ms
        until_ms = self._until_ms
        until_ms.pop(key, None)  # one that is over, so that it becomes the newest
        until_ms[key] = NEVER if ttl_ms is None else self._environment.clock.now_ms + ttl_ms
        for _ in range(_DROPPED_PER_ADD):
            if len(until_ms) <= self.size:
                return
            del until_ms[next(iter(until_ms))]

    @property
    def id_count(self) -> int:
        return len(self._until_ms)
