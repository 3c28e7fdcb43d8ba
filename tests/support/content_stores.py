"""A store and a content store in memory that are as strict as a disk is.

What was not written yet, or has no entry any more, cannot be read; what is broken raises; what is
spooled has to be dropped exactly once. For tests of everything that lets contents leave memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy

from hareline.errors import StoreError
from hareline.events import Event
from hareline.message import TRANSIENT, UNWRITTEN, Message
from hareline.queues.core.entry import SETTLED
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.window import Paging
from hareline.queues.queue import Queue
from hareline.storage.interface import SPOOLED, ContentStore, MessageStore, QueueLedger, StoredEntry
from tests.support.timers import ManualTimers, queue_environment
from tests.support.turns import ManualTurn


class MemoryContentStore(ContentStore):
    """``records`` by position, the spool's too. ``broken``: what cannot be read any more.
    ``is_full``: nothing can be spooled.

    ``reads`` counts single reads, ``runs`` holds how many each run asked for.
    """

    def __init__(self) -> None:
        self.records: dict[int, Message] = {}
        self.broken: set[int] = set()
        self.is_full = False
        self.reads = 0
        self.runs: list[int] = []
        self._next_spooled = SPOOLED

    def read(self, position: int) -> Message:
        self.reads += 1
        return self._message(position)

    def read_run(self, positions: Sequence[int]) -> list[Message]:
        self.runs.append(len(positions))
        return [self._message(position) for position in positions]

    def content(self, position: int) -> bytes:
        return self.read(position).content

    def _message(self, position: int) -> Message:
        if position in self.broken or position not in self.records:
            raise StoreError(f"nothing to read at {position}")
        return copy(self.records[position])

    def spool(self, message: Message) -> int:
        if self.is_full:
            raise StoreError("no space left on device")
        position = self._next_spooled
        self._next_spooled += 1
        self.records[position] = copied = copy(message)
        if copied.position:
            copied.position = UNWRITTEN
        return position

    def drop_spooled(self, positions: Iterable[int]) -> None:
        for position in positions:
            if position >= SPOOLED:
                del self.records[position]

    @property
    def spooled(self) -> list[int]:
        """Positions in the spool."""
        return [position for position in self.records if position >= SPOOLED]


class PagedLedger(QueueLedger):
    """``living``: offset to position, UNWRITTEN as long as it has none."""

    def __init__(self, store: PagingStore) -> None:
        super().__init__()
        self.store = store
        self.living: dict[int, int] = {}
        self.acquired: list[int] = []
        self.released: list[int] = []
        self.is_forgotten = False

    def add(self, entry: StoredEntry) -> None:
        assert entry.message.position == UNWRITTEN
        assert entry.offset not in self.living
        self.living[entry.offset] = UNWRITTEN
        self.store.pending.append((self, entry))

    def settle(self, entry: StoredEntry) -> None:
        assert entry.state == SETTLED
        if entry.message.position != TRANSIENT:
            self._settle(entry.offset, entry.message.position)

    def hold_for_dead_letter(self, entry: StoredEntry) -> None:
        assert entry.state == SETTLED

    def release_hold(self, entry: StoredEntry) -> None:
        self.settle(entry)

    def settle_paged(self, offsets: Sequence[int], positions: Sequence[int]) -> None:
        for offset, position in zip(offsets, positions, strict=True):
            if position < SPOOLED:
                self._settle(offset, position)

    def _settle(self, offset: int, position: int) -> None:
        assert self.living.pop(offset) == position
        if position > 0:
            self.store.let_go(position)

    def on_acquired(self, entries: Sequence[StoredEntry]) -> None:
        self.acquired += [entry.offset for entry in entries]

    def on_released(self, entries: Sequence[StoredEntry]) -> None:
        self.released += [entry.offset for entry in entries]

    def durable_end(self, next_offset: int) -> int:
        waiting = [offset for offset, position in self.living.items() if position == UNWRITTEN]
        return min(waiting, default=next_offset)

    def forget(self) -> None:
        self.is_forgotten = True
        for position in self.living.values():
            if position > 0:
                self.store.let_go(position)
        self.living.clear()


class PagingStore(MessageStore):
    """``write_pending`` gives positions; what was given one can be read after ``sync``.

    ``keeps_all``: also when nobody has it any more, for tests that look at what has gone.
    """

    def __init__(self, *, keeps_all: bool = False) -> None:
        self.keeps_all = keeps_all
        self.memory = MemoryContentStore()
        super().__init__(self.memory)
        self.pending: list[tuple[PagedLedger, StoredEntry]] = []
        self.written: list[Message] = []
        self.references: dict[int, int] = {}
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self._next_position = 1 << 32

    def open_queue(self, queue_id: int, name: str) -> PagedLedger:
        return PagedLedger(self)

    def write_pending(self) -> bool:
        pending, self.pending = self.pending, []
        for ledger, entry in pending:
            if entry.offset in ledger.living:
                message = entry.message
                if message.position == UNWRITTEN:
                    message.position = self._next_position
                    self._next_position += 1
                    self.written.append(message)
                ledger.living[entry.offset] = message.position
                self.references[message.position] = self.references.get(message.position, 0) + 1
        if pending or any(ticket == self.ticket for ticket, _ in self.waiting):
            self.ticket += 1
        return False

    def sync(self) -> None:
        """What is written is durable."""
        self.write_pending()
        for message in self.written:
            if message.position in self.references or self.keeps_all:
                self.memory.records[message.position] = copy(message)
        self.written = []
        self.durable_ticket = self.ticket - 1
        due = [callback for ticket, callback in self.waiting if ticket <= self.durable_ticket]
        self.waiting = [pair for pair in self.waiting if pair[0] > self.durable_ticket]
        for callback in due:
            callback()

    def let_go(self, position: int) -> None:
        self.references[position] -= 1
        if not self.references[position]:
            del self.references[position]
            if not self.keeps_all:
                self.memory.records.pop(position, None)

    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        assert self.durable_ticket < ticket <= self.ticket
        self.waiting.append((ticket, callback))

    @property
    def is_behind(self) -> bool:
        return False

    def close(self) -> None:
        self.sync()


class PagedQueue:
    """A queue with this order over a content store; durable, or one the store keeps nothing of."""

    def __init__(
        self,
        order: EntryOrder,
        *,
        is_durable: bool,
        keeps_all: bool = False,
        make_queue: type[Queue] = Queue,
    ) -> None:
        self.turn = ManualTurn()
        self.store = PagingStore(keeps_all=keeps_all)
        self.content_store = self.store.memory
        self.timers = ManualTimers(on_rung=self.turn.run)
        reports = self.reports = list[tuple[Event, dict[str, object]]]()
        self.environment = queue_environment(
            self.timers,
            report=lambda event, **fields: reports.append((event, fields)),
            store=self.store,
        )
        self.turn.write_pending = self.store.write_pending
        self.queue = make_queue("q", order, self.turn, environment=self.environment)
        self.paging = Paging(self.queue, order, self.environment, self.content_store)
        self.queue.install(paging=self.paging)
        self.ledger: PagedLedger | None = None
        if is_durable:
            self.ledger = self.store.open_queue(1, "q")
            self.queue.install(ledger=self.ledger)

    def settle_down(self) -> None:
        """Everything is durable, and all that may leave memory has."""
        for _ in range(1000):
            self.turn.run()
            self.store.sync()
            if not self.turn.is_armed:
                return
        raise AssertionError("it never comes to rest")
