"""Bodies that are in files, because they are too large for memory.

``storage.store.large_bodies`` implements these; messages refer to a body by ``Message.large``. A
file stays as long as a message or a record of the store refers to its body.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class BodyReader(ABC):
    """One reading of a large body, from its beginning on."""

    __slots__ = ()

    @abstractmethod
    def read(self, size: int) -> bytes:
        """The next ``size`` octets, at the end those that are left.

        Raises StoreError; at the end also if the octets are not those that were written.
        """


class LargeBody(ABC):
    """A body in a file, shared by all messages that have it.

    ``large_id``: what records call it by, above 0. ``size``: its octets.
    """

    __slots__ = ("__weakref__", "large_id", "size")

    def __init__(self, large_id: int, size: int) -> None:
        self.large_id = large_id
        self.size = size

    @abstractmethod
    def open(self) -> BodyReader:
        """Begin to read; the caller refers to the body until the reading ends."""

    @abstractmethod
    def sync(self) -> None:
        """Make the file durable, unless it is; for the thread that syncs. Raises OSError."""
