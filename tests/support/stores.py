"""A store whose disk is the test's hand: batches become durable, or fail, when a test says so.

Stands for ``hareline.storage.store.durable.DurableStore`` in the tests of everything that waits
for it, and writes down what queues tell it. It keeps the contract of ``storage.interface`` and
checks that the others do: an entry is added before it is settled, settled once at most, and nothing
is said of a queue that was forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hareline.errors import StoreError
from hareline.message import UNWRITTEN, Message
from hareline.queues.core.entry import SETTLED
from hareline.storage.interface import (
    DefinitionStore,
    MessageStore,
    ProducerSequence,
    QueueLedger,
    SequenceLedger,
    StoredEntry,
)


class FakeLedger(QueueLedger):
    """What one queue has told: lists of offsets, in order.

    ``living`` are the entries that were added and not settled, by offset; ``messages`` what each
    was when it was added. Of ``settled`` only those count whose message the store has, or is to
    have. ``covers``: entries below it may be delivered at once; None is all.
    """

    def __init__(self, store: FakeStore, name: str) -> None:
        super().__init__()
        self.store = store
        self.name = name
        self.added: list[int] = []
        self.settled: list[int] = []
        self.acquired: list[int] = []
        self.released: list[tuple[int, int]] = []
        self.living: dict[int, StoredEntry] = {}
        self._ever: dict[int, StoredEntry] = {}  # of this run, settled ones too
        self.covers: int | None = None
        self.is_forgotten = False

    def add(self, entry: StoredEntry) -> None:
        assert not self.is_forgotten, entry
        assert entry.message.position == UNWRITTEN, "added with a place of its own already"
        assert entry.state != SETTLED, "added when it was settled"
        assert entry.offset not in self.added, "added twice"
        self.added.append(entry.offset)
        self.living[entry.offset] = self._ever[entry.offset] = entry
        self.store.pending.append(entry)

    def settle(self, entry: StoredEntry) -> None:
        if self.is_forgotten:  # its dead letter had to wait for others
            return
        assert entry.state == SETTLED, entry
        if not entry.message.position:
            assert entry.offset not in self.living, "kept, and yet transient"
            return
        assert self.living.pop(entry.offset, None) is entry, "settled twice, or never added"
        self.settled.append(entry.offset)
        self.store.settled_count += 1

    def hold_for_dead_letter(self, entry: StoredEntry) -> None:
        assert entry.state == SETTLED, entry

    def release_hold(self, entry: StoredEntry) -> None:
        self.settle(entry)

    def settle_paged(self, offsets: Sequence[int], positions: Sequence[int]) -> None:
        raise AssertionError("nothing stands in pages here")

    def on_acquired(self, entries: Sequence[StoredEntry]) -> None:
        assert not self.is_forgotten
        self.acquired += [entry.offset for entry in entries]
        if self.covers is not None and any(entry.offset >= self.covers for entry in entries):
            self.deliver_ticket = self.store.ticket
            self.store.is_asked = True

    def on_released(self, entries: Sequence[StoredEntry]) -> None:
        assert not self.is_forgotten
        self.released += [(entry.offset, entry.delivery_count) for entry in entries]

    def durable_end(self, next_offset: int) -> int:
        waiting = [entry.offset for entry in self.store.pending if self._is_ours(entry)]
        waiting += [entry.offset for entry in self.store.in_flight if self._is_ours(entry)]
        return min(waiting, default=next_offset)

    def _is_ours(self, entry: StoredEntry) -> bool:
        return self._ever.get(entry.offset) is entry

    def forget(self) -> None:
        assert not self.is_forgotten, "deleted twice"
        self.is_forgotten = True
        self.living.clear()

    def restored(self, entries: Iterable[StoredEntry]) -> None:
        """These were there before the start."""
        for entry in entries:
            self.added.append(entry.offset)
            self.living[entry.offset] = entry


class FakeSequences(SequenceLedger):
    """Sequences of a virtual host, as they were ``noted``; ``undecided`` are those of producers
    whose transaction is said to be unfinished.
    """

    def __init__(self, store: FakeStore) -> None:
        super().__init__()
        self.store = store
        self.noted: list[tuple[bytes, int]] = []
        self.undecided: set[bytes] = set()

    def note(self, sequence: ProducerSequence) -> None:
        assert self.store.pending or self.store.settled_count, "noted without a message"
        self.noted.append((sequence.producer_id, sequence.highest))
        sequence.ticket = self.store.ticket

    def is_undecided(self, sequence: ProducerSequence) -> bool:
        return sequence.producer_id in self.undecided


class FakeStore(MessageStore):
    """One batch is on its way at a time, as in the real one; ``sync`` makes it durable.

    Messages get positions when their batch is built. ``batches`` holds how many messages each had.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ledgers: dict[str, FakeLedger] = {}
        self.sequences: dict[str, FakeSequences] = {}
        self.pending: list[StoredEntry] = []
        self.settled_count = 0  # since the last batch
        self.is_asked = False  # somebody waits for the batch that is gathered
        self.batches: list[int] = []
        self.is_writing = False
        self.in_flight: list[StoredEntry] = []  # in the batch on its way
        self.is_slow = False  # what ``is_behind`` says
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self._next_position = 1

    def open_queue(self, queue_id: int, name: str) -> FakeLedger | None:
        assert queue_id > 0
        ledger = self.ledgers[name] = FakeLedger(self, name)
        return ledger

    def open_sequences(self, vhost: str) -> FakeSequences:
        return self.sequences.setdefault(vhost, FakeSequences(self))

    def write_pending(self) -> bool:
        if not self.is_writing and not self.failure:
            self._build()
        return self.is_slow

    def _build(self) -> None:
        if not (self.pending or self.settled_count or self.is_asked):
            return
        entries, self.pending = self.pending, []
        self.in_flight = entries
        messages = {entry.message: None for entry in entries if entry.state != SETTLED}
        for message in messages:
            message.position = self._next_position
            self._next_position += 1
        self.batches.append(len(messages))
        self.settled_count = 0
        self.is_asked = False
        self.is_writing = True
        self.ticket += 1

    def sync(self) -> None:
        """The batch on its way is durable; the next one is on its way at once."""
        assert self.is_writing, "nothing is on its way to the disk"
        self.is_writing = False
        self.in_flight = []
        self.durable_ticket = self.ticket - 1
        self._tell(self.durable_ticket)
        self._build()

    def sync_all(self) -> None:
        """Everything that has gathered is durable."""
        self.write_pending()
        while self.is_writing:
            self.sync()

    def fail(self, reason: str) -> None:
        """The disk is broken, for good."""
        self.failure = reason
        self.is_writing = False
        self.refuse(reason)
        self._tell(self.ticket)

    def _tell(self, ticket: int) -> None:
        due = [callback for number, callback in self.waiting if number <= ticket]
        self.waiting = [pair for pair in self.waiting if pair[0] > ticket]
        for callback in due:
            callback()

    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        assert self.durable_ticket < ticket <= self.ticket, "waits for what is durable, or no batch"
        assert not self.failure, "waits for what will never be durable"
        self.waiting.append((ticket, callback))
        if ticket == self.ticket:
            self.is_asked = True
            self.ask_for_turn()

    @property
    def is_behind(self) -> bool:
        return self.is_slow

    def close(self) -> None:
        self.sync_all()


class FakeDefinitions(DefinitionStore):
    """Writes down what is there; ``failure`` makes every change raise StoreError.

    ``gathers``: changes wait for ``commit``, and ``loss`` is why that loses them. ``is_busy``:
    the disk has not done so far what ``commit`` asks for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failure = ""
        self.gathers = False
        self.ask_for_turn: Callable[[], object] = list  # asks nobody
        self.loss = ""
        self.is_busy = False
        self.commits = 0
        self._names: set[str] = set()  # of what has gathered
        self._before: tuple[dict[str, int], set[str], set[tuple[str, str, str, str]]] | None = None
        self._undo: list[Callable[[StoreError], None]] = []
        self._waiting: dict[Callable[[StoreError | None], None], None] = {}
        self.queues: dict[str, int] = {}
        self.exchanges: set[str] = set()
        self.bindings: set[tuple[str, str, str, str]] = set()
        self.settings: dict[str, tuple[bool, dict[str, object]]] = {}

    def set_queue_settings(
        self, vhost: str, name: str, *, is_paused: bool, changes: Mapping[str, object]
    ) -> None:
        self._change(name)
        self.settings[name] = (is_paused, dict(changes))

    def _change(self, *names: str) -> None:
        if self.failure:
            raise StoreError(self.failure)
        if self.gathers and self._before is None:
            self.ask_for_turn()
            self._before = (dict(self.queues), set(self.exchanges), set(self.bindings))
            self._names.clear()
        if self.gathers:
            self._names.update(names)

    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        if self._before is not None:
            self._undo.append(undo)

    def when_settled(
        self, callback: Callable[[StoreError | None], None], vhost: str, *names: str
    ) -> bool:
        if self._before is None or callback in self._waiting:
            return False
        if names and not self._names.intersection(names):
            return False
        self._waiting[callback] = None
        return True

    def commit(self) -> None:
        if self.is_busy:
            return
        before, self._before = self._before, None
        undo, self._undo = self._undo, []
        waiting, self._waiting = self._waiting, {}
        if before is None:
            return
        self.commits += 1
        error = StoreError(self.loss) if self.loss else None
        if error is not None:
            self.queues, self.exchanges, self.bindings = before
            for call in reversed(undo):
                call(error)
        for callback in waiting:
            callback(error)

    def add_queue(
        self,
        vhost: str,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None = None,
        incarnation: str | None = None,
    ) -> int:
        self._change(name)
        assert name not in self.queues
        queue_id = super().add_queue(
            vhost,
            name,
            is_auto_delete=is_auto_delete,
            arguments=arguments,
            owner=owner,
            incarnation=incarnation,
        )
        self.queues[name] = queue_id
        return queue_id

    def delete_queue(self, vhost: str, name: str, *, queue_id: int = 0) -> None:
        self._change(name)
        del self.queues[name]
        self.bindings = {one for one in self.bindings if one[1:3] != ("queue", name)}

    def add_exchange(
        self,
        vhost: str,
        name: str,
        type_name: str,
        *,
        is_auto_delete: bool,
        is_internal: bool,
        arguments: Mapping[str, object],
        queue: str | None = None,
    ) -> int:
        self._change(name)
        assert name not in self.exchanges
        self.exchanges.add(name)
        if queue is None:
            return 0
        return self.add_queue(vhost, queue, is_auto_delete=False, arguments={})

    def delete_exchange(
        self, vhost: str, name: str, *, queue: str | None = None, queue_id: int = 0
    ) -> None:
        self._change(name)
        self.exchanges.remove(name)
        if queue is not None:
            self.delete_queue(vhost, queue)
        self.bindings = {
            one for one in self.bindings if one[0] != name and one[1:3] != ("exchange", name)
        }

    def bind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
        replaced: Sequence[Mapping[str, object]] = (),
    ) -> None:
        self._change(source, destination)
        self.bindings.add((source, kind, destination, routing_key))

    def unbind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> None:
        self._change(source, destination)
        self.bindings.remove((source, kind, destination, routing_key))


def persistent(message: Message) -> Message:
    """The same message as a publish with delivery-mode 2 makes it."""
    message.position = UNWRITTEN
    return message
