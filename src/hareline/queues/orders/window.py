"""Paging of one queue: the entries that leave memory, and when.

A queue that is *deep*, beyond two windows, keeps one window near its head as it is. Behind it:

==================================  ===========================================================
FIFO and every level of priority    entries become numbers in pages (``pages``); those that the
(``EntryOrder.paged``)              ordering shares with another part of the queue stay objects
                                    there, and lose the content of their message
logs, but those of last values      the same (``log_pages``), except that the window is the newest
                                    part, and readers leave numbers where they are
all other entries: sorted, held,    they stay, and lose the content of their message
parked
delivered and not acknowledged      the same, while memory is short (``page_out_delivered``)
==================================  ===========================================================

What the store keeps leaves memory as soon as it is durable. The rest has to be spooled first: above
the mark of the broker's memory, and behind the limits of a queue with ``x-overflow`` =
``flow-to-disk``. ``step`` costs a shallow queue one comparison a turn.

Invariant: nothing leaves memory that is neither durable nor in the spool.                  [hot]
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hareline.errors import StoreError
from hareline.message import Message, StoredMessage, stored_bytes
from hareline.queues.core.entry import ACQUIRED, SETTLED, QueueEntry
from hareline.queues.core.pages import PAGE_BYTES, PAGE_ENTRIES, Page
from hareline.queues.core.part_ports import PagingPort
from hareline.queues.core.ports import QueuePort
from hareline.queues.orders.read_back import ReadBack, offset_of
from hareline.storage.interface import SPOOLED

if TYPE_CHECKING:
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.orders.order import EntryOrder
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


class Paging(PagingPort):
    """The paging of one queue out of memory; the ordering's pages call it as their ``Pager``.

    ``has_stored``: there may be entries whose message has lost its content, so entries have to pass
    ``readable`` before a content is read. ``contents``: what reads it.
    """

    __slots__ = (
        "_can_be_numbers",
        "_can_spool",
        "_content_store",
        "_environment",
        "_is_spooling",
        "_is_waiting",
        "_last_offset",
        "_marks",
        "_order",
        "_order_add",
        "_paged_order",
        "_queue",
        "_read_back",
        "_readable_offset",
        "_watched",
        "_watched_bytes",
        "contents",
        "has_stored",
    )

    def __init__(
        self,
        queue: QueuePort,
        order: EntryOrder,
        environment: QueueEnvironment,
        content_store: ContentStore,
    ) -> None:
        self._queue: QueuePort | None = queue
        self._environment = environment
        self._content_store = content_store
        self._read_back = ReadBack(queue, environment, content_store)
        self.contents = self._read_back.contents
        self.set_order(order)
        self._last_offset = 0  # of the queue, at the last step
        # (ticket, offset): when this ticket is durable, all entries before that offset are
        self._marks: deque[tuple[int, int]] = deque()
        self._readable_offset = 0
        self._is_waiting = False  # for the last of these tickets
        self._is_spooling = False
        self._can_spool = False  # in this step, until the disk says no
        self._can_be_numbers = False
        # entries that stand in no page; whole ones, unless they were replaced in the meantime
        self._watched: deque[QueueEntry] = deque()
        self._watched_bytes = 0
        self.has_stored = False

    def set_order(self, order: EntryOrder) -> None:
        """Page the entries of this ordering from now on; the one before has no pages."""
        self._order = order
        self._order_add = order.add
        self._paged_order = order.paged

    @property
    def add(self) -> Callable[[QueueEntry], None] | None:
        """The function that adds and watches; None where the ordering's own ``add`` does."""
        return None if self._paged_order is not None else self._add

    def _add(self, entry: QueueEntry) -> None:
        self.watch(entry)
        self._order_add(entry)

    def watch(self, entry: QueueEntry) -> None:
        """Remember an entry that no page can take; its content may leave memory later."""
        message = entry.message
        queue = self._queue
        if (
            queue is not None
            and (message.extras is None or message.large is None)
            and (self._is_spooling or (message.position and queue.ledger is not None))
        ):
            watched = self._watched
            watched.append(entry)
            self._watched_bytes += message.size
            if len(watched) > WINDOW_ENTRIES or self._watched_bytes > WINDOW_BYTES:
                queue.mark()  # what is held asks for no dispatch

    # ----------------------------------------------------------------------- the step

    def step(self) -> None:
        """The end of a dispatch: let go of a share of what is to leave memory."""
        queue = self._queue
        if queue is None:
            return
        if self.has_stored:
            self.contents.forget()
        count = queue.ready_count
        is_pressed = self._environment.pressure.is_high
        if (
            count <= DEEP_FROM * WINDOW_ENTRIES
            and queue.ready_bytes <= DEEP_FROM * WINDOW_BYTES
            and len(self._watched) <= WINDOW_ENTRIES
            and self._watched_bytes <= WINDOW_BYTES
            and not is_pressed
            and (queue.overflow is None or queue.overflow.memory_window is None)
        ):
            return
        self._page_out(queue, count, is_pressed)

    def _page_out(self, queue: QueuePort, count: int, is_pressed: bool) -> None:
        keep_count, keep_bytes = WINDOW_ENTRIES, WINDOW_BYTES
        if is_pressed:
            keep_count //= PRESSED_SHARE
            keep_bytes //= PRESSED_SHARE
        of_overflow = None if queue.overflow is None else queue.overflow.memory_window
        if of_overflow is not None:
            keep_count = min(keep_count, of_overflow[0])
            keep_bytes = min(keep_bytes, of_overflow[1])
        self._note_readable(queue)
        is_spooling = is_pressed or of_overflow is not None
        if is_spooling and not self._is_spooling:
            self._is_spooling = True
            self._watch_the_whole(queue)
        self._is_spooling = self._can_spool = is_spooling
        if queue.ledger is None and not is_spooling:
            return
        limit = max(STEP_ENTRIES, 2 * (queue.next_offset - self._last_offset))
        self._last_offset = queue.next_offset
        if is_spooling and queue.ready_bytes:
            limit = min(limit, 1 + STEP_SPOOLED_BYTES * count // queue.ready_bytes)
        left = limit - self._replace_watched(queue, keep_count, keep_bytes, limit)
        if self._paged_order is not None and left > 0:
            if keep_bytes < queue.ready_bytes:
                keep_count = min(keep_count, keep_bytes * count // queue.ready_bytes)
            self._can_be_numbers = queue.has_entries_to_itself
            left -= self._paged_order.page_out(self, keep_count, left)
        if left <= 0:
            queue.mark()
        else:
            self._await_durable()

    def _replace_watched(
        self, queue: QueuePort, keep_count: int, keep_bytes: int, limit: int
    ) -> int:
        """Let contents of watched entries go, the oldest first; returns how many were looked at."""
        watched = self._watched
        looks = 0
        while looks < limit and (len(watched) > keep_count or self._watched_bytes > keep_bytes):
            entry = watched[0]
            message = entry.message
            if (
                entry.state not in (SETTLED, ACQUIRED)
                and not isinstance(message, StoredMessage)
                and not (entry.delivery_count and queue.shows_delivery_count)
            ):
                if self._is_unwritten(queue, entry):
                    break
                self._let_go_of_content(queue, entry, message)
            watched.popleft()
            self._watched_bytes -= message.size
            looks += 1
        return looks

    def _is_unwritten(self, queue: QueuePort, entry: QueueEntry) -> bool:
        """The store is to have this entry, and does not have it yet."""
        position = entry.message.position
        return bool(
            position
            and queue.ledger is not None
            and (position < 0 or entry.offset >= self._readable_offset)
        )

    def page_out_delivered(self, entries: list[QueueEntry]) -> bool:
        """Let contents of deliveries go that wait for an acknowledgement: memory is short.

        They are read again when a delivery is sent once more or comes back. Returns False if some
        of them can go later, when they are durable or the disk has room. Others stay whole for
        good: those of a queue that shows delivery counts, which are written into them when they
        come back, and what a deleted queue would dead-letter, since the store forgets it with the
        queue.
        """
        queue = self._queue
        if (
            queue is None
            or queue.shows_delivery_count
            or (queue.dead_letters is not None and queue.dead_letters.wants("deleted"))
        ):
            return True
        self._note_readable(queue)
        self._await_durable()
        self._can_spool = self._environment.pressure.is_high
        is_complete = True
        for entry in entries:
            message = entry.message
            if entry.state != ACQUIRED or isinstance(message, StoredMessage):
                continue
            if self._is_unwritten(queue, entry):
                is_complete = False
            # the queue that a reading is of has the message too, so to spool it gains nothing
            elif entry.queue is queue or (message.position and queue.ledger is not None):
                self._let_go_of_content(queue, entry, message)
        return is_complete and self._can_spool

    def _let_go_of_content(self, queue: QueuePort, entry: QueueEntry, message: Message) -> None:
        """The entry keeps all of its message but the content.

        The message is whole and, if the store has it, as it is stored.
        """
        if message.extras is not None and message.large is not None:
            return
        if message.position and queue.ledger is not None:
            entry.message = StoredMessage(message, self.contents, message.position)
            self.has_stored = True
        else:
            position = self._spool(message)
            if position:
                entry.message = StoredMessage(message, self.contents, position, is_spooled=True)
                self.has_stored = True

    def _spool(self, message: Message) -> int:
        """Write a message to the spool; returns its position, 0: not to be spooled, or no room."""
        if not self._can_spool:
            return 0
        try:
            return self._content_store.spool(message)
        except StoreError:
            self._can_spool = False  # the next step tries again; what is here stays in memory
            return 0

    def _watch_the_whole(self, queue: QueuePort) -> None:
        """Watch what is there and the store does not keep: from now on it may leave memory too."""
        entries = queue.lane.parking.entries()
        if queue.hold is not None:
            entries += queue.hold.entries()
        paged_order = self._paged_order
        entries += self._order if paged_order is None else paged_order.kept_entries()
        for entry in entries:
            if (
                entry.state != SETTLED
                and (queue.ledger is None or not entry.message.position)
                and not isinstance(entry.message, StoredMessage)
            ):
                self.watch(entry)

    def _note_readable(self, queue: QueuePort) -> None:
        """Note which entries are durable by now, and the ticket at which later ones will be."""
        store, marks = self._environment.store, self._marks
        while marks and marks[0][0] <= store.durable_ticket:
            self._readable_offset = max(self._readable_offset, marks.popleft()[1])
        if queue.ledger is None:
            return
        offset = queue.next_offset
        if offset > (marks[-1][1] if marks else self._readable_offset):
            if marks and marks[-1][0] == store.ticket:
                marks[-1] = (store.ticket, offset)
            else:
                marks.append((store.ticket, offset))

    def _await_durable(self) -> None:
        """Go on when what the last mark is for is durable."""
        store = self._environment.store
        if self._marks and not self._is_waiting and not store.failure:
            self._is_waiting = True
            store.when_durable(self._marks[-1][0], self._on_durable)

    def _on_durable(self) -> None:
        self._is_waiting = False
        if self._queue is not None:
            self._queue.mark()

    # --------------------------------------------------------------- for pages, as pager

    def page_out(self, page: Page, entries: list[QueueEntry], *, keeps_unwritten: bool) -> int:
        queue = self._queue
        assert queue is not None, page
        is_kept = queue.ledger is not None
        readable_offset = self._readable_offset
        can_be_numbers = self._can_be_numbers
        counts_metadata = queue.overflow is not None and queue.overflow.counts_unacked
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
                    self._let_go_of_content(queue, entry, message)
            else:
                position = self._spooled(queue, entry, message, is_number)
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

    def _spooled(
        self, queue: QueuePort, entry: QueueEntry, message: Message, may_be_number: bool
    ) -> int:
        """Spool an entry that the store does not keep; returns the position of one that can become
        a number, 0: it stays an object, perhaps without content."""
        if (
            not self._can_spool
            or (message.extras is not None and message.large is not None)
            or isinstance(message, StoredMessage)
            or (entry.delivery_count and queue.shows_delivery_count)
        ):
            return 0
        if may_be_number:
            return self._spool(message)
        self._let_go_of_content(queue, entry, message)
        return 0

    def entries_of(self, page: Page) -> list[QueueEntry]:
        return self._read_back.entries_of(page)

    def unfold(self, page: Page) -> None:
        queue = self._queue
        assert queue is not None, page
        entries = self._read_back.numbered_entries(page)
        for entry in entries:
            if entry.message.extras is None or entry.message.large is None:
                self._let_go_of_content(queue, entry, entry.message)
        page.offsets = array("Q")
        page.positions = array("Q")
        page.counts = None
        page.is_spooled = False
        page.stored_bytes = 0
        page.kept = sorted(page.kept + entries, key=offset_of)

    def shown(self, page: Page) -> list[QueueEntry]:
        return self._read_back.shown(page)

    def entries_at(
        self,
        offsets: Sequence[int],
        positions: array[int],
        sizes: array[int],
        stored_each: int,
    ) -> list[QueueEntry]:
        return self._read_back.entries_at(offsets, positions, sizes, stored_each)

    def drop_spooled(self, positions: array[int]) -> None:
        self._content_store.drop_spooled(positions)

    # ------------------------------------------------------------------------ the way out

    def readable(
        self, entries: list[QueueEntry], *, are_in_place: bool = False
    ) -> list[QueueEntry]:
        """These entries, whose contents are about to be read; those that cannot be leave the queue.
        ``are_in_place``: they stand where they did, in the ordering or parked."""
        return self._read_back.readable(entries, are_in_place)

    def whole(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """As ``readable``; their messages have their content again where that is possible."""
        return self._read_back.whole(entries)

    # -------------------------------------------------------------- all at once, and none

    @property
    def paged_count(self) -> int:
        """The number of entries that are no objects any more."""
        return 0 if self._paged_order is None else self._paged_order.paged_count

    @property
    def is_paged(self) -> bool:
        """True if entries stand in pages, so that it takes the disk to have them all."""
        return self.paged_count > 0

    def drop_pages(self) -> int:
        """Forget all entries that are numbers, without reading them; returns how many they were."""
        if self._paged_order is None:
            return 0
        return self._paged_order.drop_pages(self._drop_page)

    def _drop_page(self, page: Page) -> None:
        queue = self._queue
        assert queue is not None, page
        if queue.ledger is not None:
            queue.ledger.settle_paged(page.offsets, page.positions)
        if page.is_spooled:
            self._content_store.drop_spooled(page.positions)
        if page.stored_bytes and queue.overflow is not None:
            queue.overflow.on_pages_dropped(page.stored_bytes)

    def drop_numbers(self, page: Page) -> None:
        queue = self._queue
        assert queue is not None, page
        self._drop_page(page)
        queue.on_pages_left(len(page.offsets), page.size_bytes, 0, reason="retention")

    def leave_content(self, entry: QueueEntry) -> None:
        """Take the content from an entry of an earlier life, whose message the store keeps."""
        queue = self._queue
        assert queue is not None, entry
        if not (entry.delivery_count and queue.shows_delivery_count):
            self._let_go_of_content(queue, entry, entry.message)

    def restore(
        self,
        offsets: array[int],
        positions: array[int],
        size_bytes: int,
        delivery_counts: Mapping[int, int],
        kept: list[QueueEntry],
        level: int,
        sizes: array[int] | None,
    ) -> None:
        """Entries of an earlier life, numbers and kept ones, behind all that are of this level;
        ``size_bytes``: the octets of all their bodies; ``sizes``: those of each number."""
        order = self._paged_order
        assert order is not None, self
        all_offsets: Sequence[int] = offsets
        if kept:
            all_offsets = sorted([*offsets, *map(offset_of, kept)])
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
                kept_end = bisect_left(kept, behind, kept_start, key=offset_of)
            page = Page()
            page.offsets = offsets[start:end]
            page.positions = positions[start:end]
            page.sizes = None if sizes is None else sizes[start:end]
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
        """All entries of an earlier life up to here stand in the store: some may leave memory."""
        queue = self._queue
        assert queue is not None, self
        self._readable_offset = self._last_offset = queue.next_offset
        self.step()

    def stop(self) -> None:
        """The queue is deleted and empty: let go of it, so that it is freed at once."""
        self._watched.clear()
        self._read_back.stop()
        self._paged_order = None
        self._queue = None


def set_spooling(environment: QueueEnvironment, queues: Iterable[QueuePort], is_high: bool) -> None:
    """Memory is above its mark now, or below it; called by ``server`` for each virtual host."""
    environment.pressure.is_high = is_high
    if is_high:
        for queue in queues:
            if queue.paging is not None and (queue.ready_count or queue.held_count):
                queue.mark()
