"""Contents that have left memory, read back when they are needed.

``queues.orders.window`` owns one of these for its queue and says what leaves; this module makes
whole again what left: entries of pages (``entries_of``), the contents of entries that stayed
objects (``readable``), and whole messages for entries that leave the queue as other messages
(``whole``).

Invariant: what cannot be read costs its own entry and no other. That entry leaves the queue and is
reported; the store keeps what it has of it, for a repair of the journal.                    [hot]
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.errors import StoreError
from hareline.message import ContentSource, StoredMessage, stored_bytes
from hareline.queues.core.entry import ACQUIRED, SETTLED, NumberedEntry, QueueEntry

if TYPE_CHECKING:
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.core.pages import Page
    from hareline.queues.core.ports import QueuePort
    from hareline.storage.interface import ContentStore

# Contents that a dispatch has read and looks at more than once.
RECENT_BYTES: Final = 1_048_576

offset_of: Final = attrgetter("offset")


class Contents(ContentSource):
    """Contents of a content store; the latest are remembered until the end of the dispatch.

    ``read_count``: how many were read from the store, here and in ``ReadBack``.
    """

    __slots__ = ("_content_store", "_recent", "_recent_bytes", "read_count")

    def __init__(self, content_store: ContentStore) -> None:
        self._content_store = content_store
        self._recent: dict[int, bytes] = {}
        self._recent_bytes = 0
        self.read_count = 0

    def content(self, position: int) -> bytes:
        content = self._recent.get(position)
        if content is None:
            content = self._content_store.content(position)
            self.read_count += 1
            self.remember(position, content)
        return content

    def remember(self, position: int, content: bytes) -> None:
        """Keep a content that will be asked for soon."""
        if self._recent_bytes > RECENT_BYTES:
            self.forget()
        self._recent[position] = content
        self._recent_bytes += len(content)

    def __contains__(self, position: int) -> bool:
        return position in self._recent

    def forget(self) -> None:
        """Forget all contents; the dispatch has ended."""
        if self._recent:
            self._recent.clear()
            self._recent_bytes = 0

    def drop_spooled(self, position: int) -> None:
        self._content_store.drop_spooled((position,))


class ReadBack:
    """Reads back what has left the memory of one queue.

    ``contents``: where messages without content read it.
    """

    __slots__ = ("_content_store", "_environment", "_queue", "contents")

    def __init__(
        self, queue: QueuePort, environment: QueueEnvironment, content_store: ContentStore
    ) -> None:
        self._queue: QueuePort | None = queue
        self._environment = environment
        self._content_store = content_store
        self.contents = Contents(content_store)

    # --------------------------------------------------------- entries that are objects

    def readable(self, entries: list[QueueEntry], are_in_place: bool) -> list[QueueEntry]:
        """These entries, whose contents are about to be read; those that cannot be leave the queue.

        What is read is remembered until the end of the dispatch. The entries stay without content,
        since they may be referred to long after they were settled. ``are_in_place``: they stand
        where they did, in the ordering or parked.

        Acquired and settled ones, which browsers come to, are not read: no content is needed.
        """
        contents = self.contents
        stored = [
            (entry, message)
            for entry in entries
            if isinstance(message := entry.message, StoredMessage)
            and entry.state not in (ACQUIRED, SETTLED)
            and message.stored_at not in contents
        ]
        if not stored:
            return entries
        try:
            messages = self._content_store.read_run([message.stored_at for _, message in stored])
        except StoreError:
            return self._readable_one_by_one(entries, stored, are_in_place)
        contents.read_count += len(messages)
        for (_, before), message in zip(stored, messages, strict=True):
            contents.remember(before.stored_at, message.content)
        return entries

    def _readable_one_by_one(
        self,
        entries: list[QueueEntry],
        stored: list[tuple[QueueEntry, StoredMessage]],
        are_in_place: bool,
    ) -> list[QueueEntry]:
        queue = self._queue
        assert queue is not None
        lost: list[QueueEntry] = []
        reason = ""
        for entry, message in stored:
            try:
                self.contents.content(message.stored_at)
            except StoreError as error:
                reason = reason or str(error)
                lost.append(entry)
        queue.on_lost(lost, are_in_place=are_in_place)
        self._report(queue, len(lost), reason)
        return [entry for entry in entries if entry not in lost]

    def whole(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """As ``readable``, for a caller that makes other messages of theirs, or sends them again.

        The messages have their content again where that is possible, so that it is not read a
        second time. Acquired ones are read too.
        """
        stored = [
            (entry, message)
            for entry in entries
            if isinstance(message := entry.message, StoredMessage)
        ]
        try:
            messages = self._content_store.read_run([message.stored_at for _, message in stored])
        except StoreError:
            return self._readable_one_by_one(entries, stored, are_in_place=False)
        self.contents.read_count += len(messages)
        for (entry, _), message in zip(stored, messages, strict=True):
            entry.message = message
        return entries

    # --------------------------------------------------------- entries that are numbers

    def entries_of(self, page: Page) -> list[QueueEntry]:
        """All entries of a page that can be read, in order; numbers become objects."""
        if not page.offsets:
            return page.kept
        entries = self.numbered_entries(page)
        if page.kept:
            entries += page.kept
            entries.sort(key=offset_of)
        return entries

    def numbered_entries(self, page: Page) -> list[QueueEntry]:
        """The numbers of a page that can be read, in order, as objects with whole messages."""
        queue = self._queue
        assert queue is not None
        try:
            messages = self._content_store.read_run(page.positions)
            entries = list(map(queue.entry_class, repeat(queue), messages, page.offsets))
        except StoreError:
            entries = self._numbers_one_by_one(queue, page)
        self.contents.read_count += len(entries)
        if page.counts is not None:
            for entry in entries:
                entry.delivery_count = page.counts.get(entry.offset, 0)
        if page.is_spooled:
            self._content_store.drop_spooled(page.positions)
        return entries

    def _numbers_one_by_one(self, queue: QueuePort, page: Page) -> list[QueueEntry]:
        entries: list[QueueEntry] = []
        reason = ""
        lost_bytes = page.size_bytes - sum([entry.message.size for entry in page.kept])
        stored = page.stored_bytes
        for offset, position in zip(page.offsets, page.positions, strict=True):
            try:
                message = self._content_store.read(position)
            except StoreError as error:
                reason = reason or str(error)
                continue
            entries.append(queue.entry_class(queue, message, offset))
            lost_bytes -= message.size
            if page.stored_bytes:
                stored -= stored_bytes(message)
        lost_count = len(page.offsets) - len(entries)
        queue.on_pages_left(lost_count, max(lost_bytes, 0), stored, reason="unreadable")
        self._report(queue, lost_count, reason)
        return entries

    def shown(self, page: Page) -> list[QueueEntry]:
        """The numbers of a page that can be read, as objects that stand nowhere."""
        queue = self._queue
        assert queue is not None
        entries: list[QueueEntry] = []
        try:
            messages = self._content_store.read_run(page.positions)
            entries += map(NumberedEntry, repeat(queue), messages, page.offsets)
        except StoreError:
            for offset, position in zip(page.offsets, page.positions, strict=True):
                with suppress(StoreError):  # found and reported when it is its turn
                    message = self._content_store.read(position)
                    entries.append(NumberedEntry(queue, message, offset))
        if page.counts is not None:
            for entry in entries:
                entry.delivery_count = page.counts.get(entry.offset, 0)
        return entries

    def entries_at(
        self,
        offsets: Sequence[int],
        positions: array[int],
        sizes: array[int],
        stored_each: int,
    ) -> list[QueueEntry]:
        """Numbers of a log that can be read, in order, as objects; they stay numbers."""
        queue = self._queue
        assert queue is not None
        entry_class = queue.entry_class
        try:
            messages = self._content_store.read_run(positions)
            self.contents.read_count += len(messages)
            return list(map(entry_class, repeat(queue), messages, offsets))
        except StoreError:
            pass  # which of them it is shows below
        entries: list[QueueEntry] = []
        reason = ""
        lost_bytes = 0
        for offset, position, size in zip(offsets, positions, sizes, strict=True):
            try:
                message = self._content_store.read(position)
            except StoreError as error:
                reason = reason or str(error)
                lost_bytes += size
            else:
                entries.append(entry_class(queue, message, offset))
        self.contents.read_count += len(entries)
        lost_count = len(offsets) - len(entries)
        stored = stored_each * lost_count
        queue.on_pages_left(lost_count, lost_bytes, stored, reason="unreadable")
        self._report(queue, lost_count, reason)
        return entries

    def _report(self, queue: QueuePort, count: int, reason: str) -> None:
        if count:
            self._environment.report(
                events.MESSAGES_UNREADABLE,
                queue=queue.name,
                vhost=self._environment.vhost_name,
                count=count,
                reason=reason,
            )

    def stop(self) -> None:
        """The queue is deleted and empty: let go of it, so that it is freed at once."""
        self.contents.forget()
        self._queue = None
