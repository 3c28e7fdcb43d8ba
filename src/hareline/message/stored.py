"""Messages whose content is on disk while they wait in a deep queue.                        [hot]

``queues.orders`` puts one in place of a message when its content leaves memory. It gives what that
message gave, and reads the disk only when it is asked for the content or a part of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from hareline.message.message import Message


class ContentSource(ABC):
    """Store of contents that have left memory, by position."""

    __slots__ = ()

    @abstractmethod
    def content(self, position: int) -> bytes:
        """``Message.content`` of the message there. Raises StoreError."""

    @abstractmethod
    def drop_spooled(self, position: int) -> None:
        """Release what the spool keeps at this position."""


class StoredMessage(Message):
    """A message without its content, which ``source`` reads on each use.

    ``stored_at``: where it is read, a position as ``source`` knows them. That is ``position`` for
    what the store keeps anyway, and a place in the spool otherwise; ``position`` keeps its meaning.

    This is a class of its own, and not one more of the optional facts, since ``content`` of all
    other messages is a slot that every delivery reads; here it is a property. A message made from
    this one (``replace``, ``unwritten``, ``expiring_at``) is whole again: it may outlive what is on
    disk.
    """

    __slots__ = ("_source", "_spooled", "stored_at")

    def __init__(
        self, message: Message, source: ContentSource, stored_at: int, *, is_spooled: bool = False
    ) -> None:
        """``is_spooled``: it is on disk for this object only, and goes from there with it."""
        self.address = message.address
        self.header_size = message.header_size
        self.size = message.size
        self.channel = message.channel
        self.arrival_ms = message.arrival_ms
        self.position = message.position
        self.extras = message.facts()
        self.stored_at = stored_at
        self._source = source
        self._spooled = _SpooledContent(source, stored_at) if is_spooled else None

    @property
    def content(self) -> bytes:  # type: ignore[override] # read-only: it never changes
        return self._source.content(self.stored_at)


class _SpooledContent:
    """Keeps a content in the spool as long as this object lives.

    A ``__del__`` of ``StoredMessage`` itself would be a call for each of them, and few are spooled.
    """

    __slots__ = ("_position", "_source")

    def __init__(self, source: ContentSource, position: int) -> None:
        self._source = source
        self._position = position

    def __del__(self) -> None:
        self._source.drop_spooled(self._position)
