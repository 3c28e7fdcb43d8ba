"""What of one queue leaves memory, and when.

A queue that is *deep*, beyond two windows, keeps one window near its head as it is. Behind it:

==================================  ===========================================================
FIFO and every level of priority    entries become numbers in pages (``pages``), unless somebody
                                    else refers to them; these lose the content of their message
all other entries: sorted, in a     they stay, and lose the content of their message
log, held, parked
==================================  ===========================================================

What the store keeps is there already and leaves memory as soon as it is durable. The rest has to be
spooled first: above the mark of the broker's memory (``MemoryPressure``), and behind the limits of
a queue with ``x-overflow`` = ``flow-to-disk``. ``Queue.dispatch`` calls ``step`` when it is done,
so this costs a shallow queue one comparison a turn, and a deep one some milliseconds at most.

Invariant: nothing is read back that is not durable yet or in the spool, and what cannot be read
costs its own entry and no other; the store keeps it, for whoever repairs the journal.      [hot]
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.broker.queues.entry import ACQUIRED, SETTLED, QueueEntry
from hareline.broker.queues.orders.fifo import FifoOrder
from hareline.broker.queues.orders.priority import PriorityOrder
from hareline.broker.queues.paging.pages import PAGE_BYTES, PAGE_ENTRIES, Page, Pager
from hareline.broker.queues.policies.overflow import stored_bytes
from hareline.errors import StoreError
from hareline.message import ContentSource, Message, StoredMessage
from hareline.storage.interface import SPOOLED

if TYPE_CHECKING:
    from hareline.broker.queues.environment import QueueEnvironment
    from hareline.broker.queues.orders.order import EntryOrder
    from hareline.broker.queues.ports import QueuePort
    from hareline.storage.interface import ContentStore

# The window: what consumers take in some tens of milliseconds, so that a queue whose consumers keep
# up with its publishers never touches the disk, and 64 deep queues have one GiB of contents.
WINDOW_ENTRIES: Final = 8_192
WINDOW_BYTES: Final = 16_777_216
DEEP_FROM: Final = 2  # windows
PRESSED_SHARE: Final = 8  # of the window, while memory is short
# One step, in a turn: 0.5 us an entry, and more for what has to be spooled.
STEP_ENTRIES: Final = 4_096
STEP_SPOOLED_BYTES: Final = 8_388_608
# Contents that a dispatch has read and looks at more than once.
RECENT_BYTES: Final = 1_048_576


class Contents(ContentSource):
    """Contents of a content store, the latest remembered until the end of the dispatch."""

    __slots__ = ("_content_store", "_recent", "_recent_bytes")

    def __init__(self, content_store: ContentStore) -> None:
        self._content_store = content_store
        self._recent: dict[int, bytes] = {}
        self._recent_bytes = 0

    def content(self, position: int) -> bytes:
        content = self._recent.get(position)
        if content is None:
            content = self._content_store.content(position)
            self.remember(position, content)
        return content

    def remember(self, position: int, content: bytes) -> None:
        """It will be asked for soon."""
        if self._recent_bytes > RECENT_BYTES:
            self.forget()
        self._recent[position] = content
        self._recent_bytes += len(content)

    def __contains__(self, position: int) -> bool:
        return position in self._recent

    def forget(self) -> None:
        """The end of a dispatch."""
        if self._recent:
            self._recent.clear()
            self._recent_bytes = 0

    def drop_spooled(self, position: int) -> None:
        self._content_store.drop_spooled((position,))


class Paging(Pager):
    """``has_stored``: there may be entries whose message has lost its content, so that entries have
    to pass ``readable`` before anybody looks at it."""

    __slots__ = (
        "_all_entries",
        "_can_be_numbers",
        "_can_spool",
        "_content_store",
        "_contents",
        "_environment",
        "_is_spooling",
        "_is_stopped",
        "_is_waiting",
        "_last_offset",
        "_marks",
        "_order",
        "_order_add",
        "_queue",
        "_readable_offset",
        "_watched",
        "_watched_bytes",
        "has_stored",
    )

    def __init__(
        self,
        queue: QueuePort,
        order: EntryOrder,
        environment: QueueEnvironment,
        content_store: ContentStore,
    ) -> None:
        self._queue = queue
        self._environment = environment
        self._content_store = content_store
        self._contents = Contents(content_store)
        self._order = order if isinstance(order, FifoOrder | PriorityOrder) else None
        self._order_add = order.add
        self._all_entries = order
        self._last_offset = 0  # of the queue, at the last step
        # (ticket, offset): when this ticket is durable, all entries before that offset are
        self._marks: deque[tuple[int, int]] = deque()
        self._readable_offset = 0
        self._is_waiting = False  # for the last of these tickets
        self._is_stopped = False
        self._is_spooling = False
        self._can_spool = False  # in this step, until the disk says no
        self._can_be_numbers = False
        # entries that are in no page, whole ones unless they were replaced meanwhile
        self._watched: deque[QueueEntry] = deque()
        self._watched_bytes = 0
        self.has_stored = False

    @property
    def add(self) -> Callable[[QueueEntry], None] | None:
        """What adds to the ordering and watches; None where the ordering's own ``add`` will do."""
        return None if self._order is not None else self._add

    def _add(self, entry: QueueEntry) -> None:
        self.watch(entry)
        self._order_add(entry)

    def watch(self, entry: QueueEntry) -> None:
        """This entry is where no page can take it from; its content may leave memory later."""
        message = entry.message
        if (message.extras is None or message.large is None) and (
            self._is_spooling or (message.position and self._queue.ledger is not None)
        ):
            watched = self._watched
            watched.append(entry)
            self._watched_bytes += message.size
            if len(watched) > WINDOW_ENTRIES or self._watched_bytes > WINDOW_BYTES:
                self._queue.mark()  # what is held asks for no dispatch

    # ----------------------------------------------------------------------- the step

    def step(self) -> None:
        """The end of a dispatch: let go of a share of what is to leave memory."""
        self._contents.forget()
        queue = self._queue
        count = queue.ready_count
        is_pressed = self._environment.pressure.is_high
        if (
            count <= DEEP_FROM * WINDOW_ENTRIES
            and queue.ready_bytes <= DEEP_FROM * WINDOW_BYTES
            and len(self._watched) <= WINDOW_ENTRIES
            and self._watched_bytes <= WINDOW_BYTES
            and not is_pressed
            and queue.memory_window is None
        ):
            return
        self._page_out(count, is_pressed)

    def _page_out(self, count: int, is_pressed: bool) -> None:
        queue = self._queue
        keep_count, keep_bytes = WINDOW_ENTRIES, WINDOW_BYTES
        if is_pressed:
            keep_count //= PRESSED_SHARE
            keep_bytes //= PRESSED_SHARE
        of_overflow = queue.memory_window
        if of_overflow is not None:
            keep_count = min(keep_count, of_overflow[0])
            keep_bytes = min(keep_bytes, of_overflow[1])
        self._note_readable()
        is_spooling = is_pressed or of_overflow is not None
        if is_spooling and not self._is_spooling:
            self._is_spooling = True
            self._watch_the_whole()
        self._is_spooling = self._can_spool = is_spooling
        if queue.ledger is None and not is_spooling:
            return
        limit = max(STEP_ENTRIES, 2 * (queue.next_offset - self._last_offset))
        self._last_offset = queue.next_offset
        if is_spooling and queue.ready_bytes:
            limit = min(limit, 1 + STEP_SPOOLED_BYTES * count // queue.ready_bytes)
        left = limit - self._replace_watched(keep_count, keep_bytes, limit)
        if self._order is not None and left > 0:
            if keep_bytes < queue.ready_bytes:
                keep_count = min(keep_count, keep_bytes * count // queue.ready_bytes)
            left -= self._fill_pages(self._order, keep_count, left)
        if left <= 0:
            queue.mark()
        elif self._marks and not self._is_waiting and not self._environment.store.failure:
            self._is_waiting = True
            self._environment.store.when_durable(self._marks[-1][0], self._on_durable)

    def _fill_pages(self, order: FifoOrder | PriorityOrder, keep: int, limit: int) -> int:
        """Of what is served first, ``keep`` entries stay. Returns how many entries were moved."""
        moved = 0
        self._can_be_numbers = self._queue.has_entries_to_itself
        for fifo in order.fifos:
            count = len(fifo)
            if count and moved < limit:
                moved += fifo.page_out(self, keep, limit - moved)
            keep = max(0, keep - count)
        return moved

    def _replace_watched(self, keep_count: int, keep_bytes: int, limit: int) -> int:
        """The longest watched first; returns how many were looked at."""
        watched = self._watched
        queue = self._queue
        is_kept = queue.ledger is not None
        looks = 0
        while looks < limit and (len(watched) > keep_count or self._watched_bytes > keep_bytes):
            entry = watched[0]
            message = entry.message
            if (
                entry.state not in (SETTLED, ACQUIRED)
                and not isinstance(message, StoredMessage)
                and not (entry.delivery_count and queue.shows_delivery_count)
            ):
                if (
                    is_kept
                    and message.position
                    and (message.position < 0 or entry.offset >= self._readable_offset)
                ):
                    break  # not written yet
                self._let_go_of_content(entry, message)
            watched.popleft()
            self._watched_bytes -= message.size
            looks += 1
        return looks

    def _let_go_of_content(self, entry: QueueEntry, message: Message) -> None:
        """The entry is not acquired; its message is whole, and as it is stored if it is."""
        if message.extras is not None and message.large is not None:
            return
        if message.position and self._queue.ledger is not None:
            entry.message = StoredMessage(message, self._contents, message.position)
            self.has_stored = True
        else:
            position = self._spool(message)
            if position:
                entry.message = StoredMessage(message, self._contents, position, is_spooled=True)
                self.has_stored = True

    def _spool(self, message: Message) -> int:
        """Where it is from now on; 0: nowhere, it is not to be spooled or there is no room."""
        if not self._can_spool:
            return 0
        try:
            return self._content_store.spool(message)
        except StoreError:
            self._can_spool = False  # the next step tries again; what is here stays in memory
            return 0

    def _watch_the_whole(self) -> None:
        """From now on what the store does not keep may leave memory too; what is there may."""
        queue = self._queue
        entries = queue.unordered_entries()
        if self._order is None:
            entries += self._all_entries
        else:
            for fifo in self._order.fifos:
                entries += fifo.kept_entries()
        for entry in entries:
            if (
                entry.state != SETTLED
                and (queue.ledger is None or not entry.message.position)
                and not isinstance(entry.message, StoredMessage)
            ):
                self.watch(entry)

    def _note_readable(self) -> None:
        """Which entries are durable by now, and from when on those are that came since."""
        store, marks = self._environment.store, self._marks
        while marks and marks[0][0] <= store.durable_ticket:
            self._readable_offset = max(self._readable_offset, marks.popleft()[1])
        if self._queue.ledger is None:
            return
        offset = self._queue.next_offset
        if offset > (marks[-1][1] if marks else self._readable_offset):
            if marks and marks[-1][0] == store.ticket:
                marks[-1] = (store.ticket, offset)
            else:
                marks.append((store.ticket, offset))

    def _on_durable(self) -> None:
        self._is_waiting = False
        if not self._is_stopped:
            self._queue.mark()

    # --------------------------------------------------------------- for pages, as pager

    def page_out(self, page: Page, entries: list[QueueEntry], *, keeps_unwritten: bool) -> int:
        queue = self._queue
        is_kept = queue.ledger is not None
        readable_offset = self._readable_offset
        can_be_numbers = self._can_be_numbers
        counts_metadata = queue.counts_stored_bytes
        add_offset, add_position = page.offsets.append, page.positions.append
        count = 0
        size_bytes = page.size_bytes
        for entry in entries:
            if entry.state == SETTLED:
                count += 1
                continue
            message = entry.message
            position = message.position
            is_number = can_be_numbers and not entry.expires_at_ms
            if is_kept and position:
                if position < 0 or entry.offset >= readable_offset:
                    if not keeps_unwritten:
                        break
                    is_number = False
                elif entry.delivery_count and queue.shows_delivery_count:
                    is_number = False  # its message has a header that is not stored
                elif not is_number and not isinstance(message, StoredMessage):
                    self._let_go_of_content(entry, message)
            else:
                position = self._spooled(entry, message, is_number)
                is_number = position > 0
            if is_number:
                add_offset(entry.offset)
                add_position(position)
                if entry.delivery_count:
                    if page.counts is None:
                        page.counts = {}
                    page.counts[entry.offset] = entry.delivery_count
                if position >= SPOOLED:
                    page.is_spooled = True
                if counts_metadata:
                    page.stored_bytes += stored_bytes(message)
            else:
                page.kept.append(entry)
            count += 1
            size_bytes += message.size
            if size_bytes >= PAGE_BYTES:
                break
        page.size_bytes = size_bytes
        return count

    def _spooled(self, entry: QueueEntry, message: Message, may_be_number: bool) -> int:
        """Where an entry stands from now on that the store does not keep; 0: it is no number, and
        has perhaps lost its content."""
        if (
            not self._can_spool
            or (message.extras is not None and message.large is not None)
            or isinstance(message, StoredMessage)
            or (entry.delivery_count and self._queue.shows_delivery_count)
        ):
            return 0
        if may_be_number:
            return self._spool(message)
        self._let_go_of_content(entry, message)
        return 0

    def entries_of(self, page: Page) -> list[QueueEntry]:
        if not page.offsets:
            return page.kept
        entries = self._numbers(page)
        if page.kept:
            entries += page.kept
            entries.sort(key=_offset_of)
        return entries

    def _numbers(self, page: Page) -> list[QueueEntry]:
        """Those entries of a page that are numbers, and can be read; they are objects now."""
        queue = self._queue
        try:
            messages = self._content_store.read_run(page.positions)
            entries = list(map(queue.entry_class, repeat(queue), messages, page.offsets))
        except StoreError:
            entries = self._numbers_one_by_one(page)
        if page.counts is not None:
            for entry in entries:
                entry.delivery_count = page.counts.get(entry.offset, 0)
        if page.is_spooled:
            self._content_store.drop_spooled(page.positions)
        return entries

    def _numbers_one_by_one(self, page: Page) -> list[QueueEntry]:
        queue = self._queue
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
        queue.on_lost_pages(len(page.offsets) - len(entries), max(lost_bytes, 0), stored)
        self._report(len(page.offsets) - len(entries), reason)
        return entries

    def unfold(self, page: Page) -> None:
        entries = self._numbers(page)
        for entry in entries:
            if entry.message.large is None:
                self._let_go_of_content(entry, entry.message)
        page.offsets = array("Q")
        page.positions = array("Q")
        page.counts = None
        page.is_spooled = False
        page.stored_bytes = 0
        page.kept = sorted(page.kept + entries, key=_offset_of)

    # ------------------------------------------------------------------------ the way out

    def readable(
        self, entries: list[QueueEntry], *, are_in_place: bool = False
    ) -> list[QueueEntry]:
        """These entries, whose contents somebody is about to look at; without those that cannot be
        read, which leave the queue.

        What is read is remembered until the end of the dispatch. The entries stay without content,
        since others may keep them long after they were settled. ``are_in_place``: they stand where
        they did, in the ordering or parked.
        """
        contents = self._contents
        stored = [
            (entry, message)
            for entry in entries
            if isinstance(message := entry.message, StoredMessage)
            and entry.state != SETTLED
            and message.stored_at not in contents
        ]
        if not stored:
            return entries
        try:
            messages = self._content_store.read_run([message.stored_at for _, message in stored])
        except StoreError:
            return self._readable_one_by_one(entries, stored, are_in_place)
        for (_, before), message in zip(stored, messages, strict=True):
            contents.remember(before.stored_at, message.content)
        return entries

    def _readable_one_by_one(
        self,
        entries: list[QueueEntry],
        stored: list[tuple[QueueEntry, StoredMessage]],
        are_in_place: bool,
    ) -> list[QueueEntry]:
        lost: list[QueueEntry] = []
        reason = ""
        for entry, message in stored:
            try:
                self._contents.content(message.stored_at)
            except StoreError as error:
                reason = reason or str(error)
                lost.append(entry)
        self._queue.on_lost(lost, are_in_place=are_in_place)
        self._report(len(lost), reason)
        return [entry for entry in entries if entry not in lost]

    def whole(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """As ``readable``, for whoever makes other messages of theirs: those have their content
        again where that is possible, so that it is not read a second time."""
        stored = [
            (entry, message.stored_at)
            for entry in entries
            if isinstance(message := entry.message, StoredMessage)
        ]
        try:
            messages = self._content_store.read_run([position for _, position in stored])
        except StoreError:
            return self.readable(entries)
        for (entry, _), message in zip(stored, messages, strict=True):
            entry.message = message
        return entries

    def _report(self, count: int, reason: str) -> None:
        if count:
            self._environment.report(
                events.MESSAGES_UNREADABLE,
                queue=self._queue.name,
                vhost=self._environment.vhost_name,
                count=count,
                reason=reason,
            )

    # -------------------------------------------------------------- all at once, and none

    @property
    def is_paged(self) -> bool:
        """Whether entries stand in pages, so that it takes the disk to have them all."""
        return self._order is not None and any(fifo.paged_count for fifo in self._order.fifos)

    def drop_pages(self) -> int:
        """Forget all entries that are numbers, without reading them; returns how many they were."""
        if self._order is None:
            return 0
        return self._order.drop_pages(self._drop_page)

    def _drop_page(self, page: Page) -> None:
        queue = self._queue
        if queue.ledger is not None:
            queue.ledger.settle_paged(page.offsets, page.positions)
        if page.is_spooled:
            self._content_store.drop_spooled(page.positions)
        if page.stored_bytes:
            queue.on_pages_dropped(page.stored_bytes)

    def leave_content(self, entry: QueueEntry) -> None:
        """An entry of an earlier life, which the store keeps, loses the content of its message."""
        if not (entry.delivery_count and self._queue.shows_delivery_count):
            self._let_go_of_content(entry, entry.message)

    def restore(
        self,
        offsets: array[int],
        positions: array[int],
        size_bytes: int,
        delivery_counts: Mapping[int, int],
        kept: list[QueueEntry],
        level: int,
    ) -> None:
        """Entries of an earlier life, numbers and kept ones, behind all that are of this level.

        ``size_bytes``: the octets of all their bodies.
        """
        order = self._order
        assert order is not None, self
        all_offsets: Sequence[int] = offsets
        if kept:
            all_offsets = sorted([*offsets, *map(_offset_of, kept)])
        if not all_offsets:
            return
        average_bytes = size_bytes // len(all_offsets)
        per_page = min(PAGE_ENTRIES, 1 + PAGE_BYTES // (1 + average_bytes))
        start = kept_start = 0
        for first in range(0, len(all_offsets), per_page):
            end, kept_end = len(offsets), len(kept)
            if first + per_page < len(all_offsets):
                behind = all_offsets[first + per_page]
                end = bisect_left(offsets, behind, start)
                kept_end = bisect_left(kept, behind, kept_start, key=_offset_of)
            page = Page()
            page.offsets = offsets[start:end]
            page.positions = positions[start:end]
            page.kept = kept[kept_start:kept_end]
            page.size_bytes = len(page) * average_bytes
            if delivery_counts:
                counts = {
                    offset: delivery_counts[offset]
                    for offset in page.offsets
                    if offset in delivery_counts
                }
                page.counts = counts or None
            order.add_page(self, page, level)
            start, kept_start = end, kept_end

    def on_restored(self) -> None:
        """Everything there is stands in the store."""
        self._readable_offset = self._queue.next_offset
        self._last_offset = self._queue.next_offset
        self.step()

    def stop(self) -> None:
        """The queue is deleted and empty; without these references it is freed."""
        self._is_stopped = True
        self._watched.clear()
        self._contents.forget()
        self._order = None
        del self._order_add, self._queue


def set_spooling(environment: QueueEnvironment, queues: Iterable[QueuePort], is_high: bool) -> None:
    """The mark was passed, in this direction; called by ``server`` for each virtual host."""
    environment.pressure.is_high = is_high
    if is_high:
        for queue in queues:
            if queue.ready_count or queue.held_count:
                queue.mark()


def _offset_of(entry: QueueEntry) -> int:
    return entry.offset
