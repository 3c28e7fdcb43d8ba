"""Interface of the stores of messages and definitions.

Eight small roles, which ``server`` hands down:

====================  ==========================================================================
``MessageStore``      the durable path: batches, tickets, what waits for them
``QueueLedger``       one durable queue's part of it, told of each ``StoredEntry``
``SequenceLedger``    the highest sequences of a virtual host's producers
``StoreTransaction``  work of several turns that is kept or lost as a whole
``ContentStore``      contents that have left memory
``BodyStore``         large bodies, which are never whole in memory
``DefinitionStore``   exchanges, queues and bindings
``HostStore``         where Qpid clients come from
====================  ==========================================================================

The broker imports nothing else of ``storage``, so another store needs no change to a queue. This
module imports nothing of the broker: a store sees an entry as the four fields of ``StoredEntry``.

A *ticket* is the number of the batch that gathers now: what is added now is durable once
``durable_ticket`` has reached it. Tickets only grow, and one integer is all that has to be waited
for.                                                                                         [hot]
"""

from __future__ import annotations

import secrets
from abc import ABCMeta, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hareline.compiled import mypyc_attr

if TYPE_CHECKING:
    from hareline.errors import StoreError
    from hareline.message import LargeBody, Message


@mypyc_attr(allow_interpreted_subclasses=True)
class StoredEntry:
    """A queue entry as far as a store reads it: the base of ``queues.core.entry.QueueEntry``.

    ``offset`` fixes the entry's place in its queue. ``state``, one of ``queues.core.entry``, is
    SETTLED once the entry has left, and then it need not be written. ``delivery_count`` above 0
    says that the next delivery is a redelivery. The queue sets all three; ``message.position`` is
    set by the store when the message is written.

    A class, not a protocol: a ledger reads these fields for every message. The slots are the
    derived class's, since a base with slots of its own makes each entry slower to free.
    """

    __slots__ = ()

    message: Message
    offset: int
    state: int
    delivery_count: int


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLedger(metaclass=ABCMeta):
    """Part of a store for one durable queue; the queue tells it what happens to its entries.

    ``deliver_ticket``: deliveries from this queue may be written to a socket once this ticket is
    durable, since only then a restart after a crash knows that they may have gone out. It only
    grows, and is mostly durable already. ``writes_all``: entries that are settled before they are
    written are written all the same, so that a crash never gives their offsets out again.
    """

    __slots__ = ("deliver_ticket", "writes_all")

    def __init__(self) -> None:
        self.deliver_ticket = 0
        self.writes_all = False

    def counts(self) -> tuple[int, int]:
        """Return numbers of entries: written since the start, and kept now."""
        return 0, 0

    @abstractmethod
    def add(self, entry: StoredEntry) -> None:
        """Gather a new entry whose message must survive; called once, before it is settled."""

    def add_run(self, entries: Sequence[StoredEntry]) -> None:
        """Gather new entries that came together, in the order of their offsets, as ``add`` does."""
        for entry in entries:
            self.add(entry)

    @abstractmethod
    def settle(self, entry: StoredEntry) -> None:
        """Gather the end of an entry, whose state is SETTLED; no effect on transient messages."""

    @abstractmethod
    def hold_for_dead_letter(self, entry: StoredEntry) -> None:
        """Keep the message of a SETTLED entry over a crash until ``release_hold``.

        Its dead letter is not published yet.
        """

    @abstractmethod
    def release_hold(self, entry: StoredEntry) -> None:
        """Settle an entry that was given to ``hold_for_dead_letter``."""

    @abstractmethod
    def settle_paged(self, offsets: Sequence[int], positions: Sequence[int]) -> None:
        """Settle entries that were paged out; positions as the content store knows them."""

    @abstractmethod
    def on_acquired(self, entries: Sequence[StoredEntry]) -> None:
        """Note that these are about to be delivered; may raise ``deliver_ticket``."""

    @abstractmethod
    def on_released(self, entries: Sequence[StoredEntry]) -> None:
        """Gather the new ``delivery_count`` of entries that came back."""

    @abstractmethod
    def durable_end(self, next_offset: int) -> int:
        """The offset below which every entry survives a crash; at most ``next_offset``.

        Entries of a transaction survive once its end does. It never goes back.
        """

    @abstractmethod
    def forget(self) -> None:
        """The queue is deleted: all its entries are gone, and no call follows."""


class ProducerSequence:
    """The highest sequence that was accepted from one producer.

    ``highest``, ``used_ms`` (when it was last heard of) are the virtual host's. ``ticket``: of the
    batch that makes ``highest`` durable, 0 if it is in memory only; set by the ledger. ``written``:
    the sequence that the journal has, -1 for none; ``hold_count``: how many transactions that are
    not finished have moved it. Both are the store's.
    """

    __slots__ = ("highest", "hold_count", "producer_id", "ticket", "used_ms", "written")

    def __init__(self, producer_id: bytes) -> None:
        self.producer_id = producer_id
        self.highest = -1
        self.used_ms = 0
        self.ticket = 0
        self.written = -1
        self.hold_count = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class SequenceLedger(metaclass=ABCMeta):
    """Part of a store for the producers of one virtual host.

    ``by_id``: all that are known, the least recently used first. ``broker.producers`` adds, moves
    and removes them; the store has what is left of them in each new segment.
    """

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: OrderedDict[bytes, ProducerSequence] = OrderedDict()

    @abstractmethod
    def note(self, sequence: ProducerSequence) -> None:
        """Gather a new ``highest``, in the callback that adds its message to a queue's ledger."""

    @abstractmethod
    def is_undecided(self, sequence: ProducerSequence) -> bool:
        """True while a transaction other than the one at work may still lose ``highest``."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreTransaction:
    """Work of several turns that a crash keeps or loses as a whole.

    All that ledgers are told between ``enter`` and ``leave`` belongs to it; there may be many such
    pairs, each within one callback of the loop. What it adds may be written before ``finish``, but
    counts after a crash only if ``finish`` was durable; what it settles is written no earlier.
    This class does nothing, for stores that keep nothing.
    """

    __slots__ = ()

    def enter(self) -> None:
        """Begin a stretch of work that belongs to this transaction."""

    def leave(self) -> None:
        """End that stretch."""

    def finish(self) -> None:
        """Close the transaction: it is durable with the ticket that gathers now."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ContentStore(metaclass=ABCMeta):
    """Contents that have left memory, by position.

    A position below ``SPOOLED`` stands in the durable store, any other in the spool, which does not
    survive the process.
    """

    __slots__ = ()

    @abstractmethod
    def read(self, position: int) -> Message:
        """Return the message as it was, with this ``position``. Raises StoreError."""

    @abstractmethod
    def read_run(self, positions: Sequence[int]) -> list[Message]:
        """Return many, in this order; cheap where they stand one after the other."""

    @abstractmethod
    def content(self, position: int) -> bytes:
        """Return only ``Message.content``. Raises StoreError."""

    @abstractmethod
    def spool(self, message: Message) -> int:
        """Write a message that is not in the durable store to disk; returns its position."""

    @abstractmethod
    def drop_spooled(self, positions: Iterable[int]) -> None:
        """Free what is spooled at these positions; those below ``SPOOLED`` are skipped."""


SPOOLED = 1 << 62

#: Octets that one transaction may bring to the store; they are in memory until its commit.
COMMIT_BYTES_MAX = 1 << 28


def _no_turn() -> None:
    """Ask for no turn: tests step the broker by hand."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageStore(metaclass=ABCMeta):
    """The durable path.

    ``failure``: empty, or why nothing can be written until the broker starts again.
    ``refusal``: empty, or why new messages cannot be kept now (no room, or the store has failed),
    as a text for people. Publishes are refused then; dead letters and settlements still come.
    ``on_refusal_changed``: called when that changes.
    ``ask_for_turn``: called by the store when it needs a turn though nothing is marked.
    ``content_store``: None where contents never leave memory.
    """

    __slots__ = (
        "ask_for_turn",
        "content_store",
        "durable_ticket",
        "failure",
        "on_refusal_changed",
        "refusal",
        "ticket",
    )

    def __init__(self, content_store: ContentStore | None = None) -> None:
        self.ticket = 1
        self.durable_ticket = 0
        self.failure = ""
        self.refusal = ""
        self.on_refusal_changed: list[Callable[[], None]] = []
        self.ask_for_turn: Callable[[], None] = _no_turn
        self.content_store = content_store

    def refuse(self, reason: str) -> None:
        """Set ``refusal`` and report a change; empty: new messages can be kept again."""
        if reason != self.refusal:
            self.refusal = reason
            for report in self.on_refusal_changed:
                report()

    @abstractmethod
    def open_queue(self, queue_id: int, name: str) -> QueueLedger | None:
        """Return the ledger of a durable queue; None if this store keeps nothing of queues."""

    def open_sequences(self, vhost: str) -> SequenceLedger | None:
        """Return the ledger of a virtual host's producers; None if the store keeps nothing."""
        return None

    @abstractmethod
    def write_pending(self) -> bool:
        """Hand what has gathered to the disk, if that is ready for more; returns ``is_behind``.

        Called by the turn after queues have dispatched and before connections write. Once it was
        True, the store asks for a turn when it is False again.
        """

    @abstractmethod
    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        """Call back once, when this ticket is durable or the store has failed; never at once.

        The ticket may be the one that gathers, with nothing in it and no turn marked.
        """

    def begin_transaction(self) -> StoreTransaction:
        """Return a transaction that may take several turns; it must be finished."""
        return StoreTransaction()

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """True while so much waits for the disk that publishers should pause."""

    @abstractmethod
    def close(self) -> None:
        """Make everything durable and close all files; may wait for the disk."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BodyDraft(metaclass=ABCMeta):
    """A large body that is still being received, piece by piece."""

    __slots__ = ()

    @abstractmethod
    def add(self, octets: bytes) -> None:
        """Append a piece. Raises ContentTooLarge when the disk is full, StoreError otherwise."""

    @abstractmethod
    def finish(self) -> LargeBody:
        """Return the whole body. Raises as ``add`` does; then the draft must be abandoned."""

    @abstractmethod
    def abandon(self) -> None:
        """Remove what was received; no effect after ``finish``."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BodyStore(metaclass=ABCMeta):
    """Bodies that are too large for memory."""

    __slots__ = ()

    @abstractmethod
    def begin(self, size: int) -> BodyDraft:
        """Return a draft for a body of ``size`` octets."""


def new_incarnation() -> str:
    """16 hex digits, drawn at random for each declaration of a queue.

    They tell a queue from an earlier one of its name, and stay over restarts.
    """
    return secrets.token_hex(8)


class StoredReader(NamedTuple):
    """``offset``: the next one that the reader wants; ``put_ms``: when it said so, epoch time."""

    queue_id: int
    name: str
    offset: int
    is_pinned: bool
    put_ms: int


@mypyc_attr(allow_interpreted_subclasses=True)
class ReaderStore(metaclass=ABCMeta):
    """The positions of readers in streams. Raises StoreError."""

    __slots__ = ()

    @abstractmethod
    def write_readers(
        self,
        changed: Mapping[tuple[int, str], StoredReader | None],
        on_lost: Callable[[StoreError], None],
    ) -> None:
        """Write these, by queue id and name, as one change; None deletes.

        ``on_lost`` is called if the change does not become durable.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class DefinitionStore:
    """Durable exchanges, queues and bindings. Each change is made as a whole or not at all.

    A change that raises StoreError was not made. A store may let changes gather, and make them
    durable together while the broker goes on. If that fails, all of them are lost, which
    ``undo_if_lost`` and ``when_settled`` report; until then no client may be promised anything.

    This class only counts ids, for brokers without a disk: virtual hosts are the only copy there.
    """

    __slots__ = ("_last_queue_id",)

    def __init__(self) -> None:
        self._last_queue_id = 0

    @property
    def reader_store(self) -> ReaderStore | None:
        """Store of the positions of readers; None: they are not kept."""
        return None

    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        """Call ``undo`` if the change just made is lost, after the calls for later changes.

        A deletion needs no undo: the store repeats it with its next change.
        """

    def when_settled(
        self, callback: Callable[[StoreError | None], None], vhost: str, *names: str
    ) -> bool:
        """Call back when all changes so far are durable, or with an error when they are undone.

        ``names``: only for changes of these queues and exchanges; none: for whatever there is.
        Returns whether there is anything to wait for that this callback does not wait for already.
        """
        return False

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
        """Add a queue; returns its id, above 0, which no other queue ever has.

        ``owner``: the only client id whose connections may use the queue; None: all may.
        ``incarnation``: see ``new_incarnation``; None: the store draws one.
        """
        self._last_queue_id += 1
        return self._last_queue_id

    def delete_queue(self, vhost: str, name: str, *, queue_id: int = 0) -> None:
        """Delete a queue and its bindings.

        ``queue_id``: by which the message store knows it, if it does.
        """

    def set_queue_settings(
        self, vhost: str, name: str, *, is_paused: bool, changes: Mapping[str, object]
    ) -> None:
        """Keep what operators have set for a queue; see ``broker.live_arguments``."""

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
        """Add an exchange; returns the id of its ``queue``, 0 without one.

        ``queue``: name of a queue that is added and deleted with the exchange.
        """
        if queue is None:
            return 0
        self._last_queue_id += 1
        return self._last_queue_id

    def delete_exchange(
        self, vhost: str, name: str, *, queue: str | None = None, queue_id: int = 0
    ) -> None:
        """Delete an exchange, the bindings from it and to it, and its ``queue`` with this id."""

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
        """Add a binding to a ``kind`` of destination, "queue" or "exchange".

        A repetition has no effect. ``replaced``: arguments of bindings that this one replaces,
        which have the same names and routing key.
        """

    def unbind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> None:
        """Delete a binding; a missing one is no error."""


@mypyc_attr(allow_interpreted_subclasses=True)
class HostStore(metaclass=ABCMeta):
    """Hosts that Qpid clients come from, and the day from 1970-01-01 when each was last seen.
    Changes are durable as those of ``DefinitionStore``; raises StoreError."""

    __slots__ = ()

    @abstractmethod
    def hosts(self) -> list[tuple[str, int]]:
        """Return hosts and days, the most recently remembered host last."""

    @abstractmethod
    def remember_host(
        self, host: str, seen_day: int, on_lost: Callable[[StoreError], None]
    ) -> None:
        """Set the day of this host, in place of an earlier one."""

    @abstractmethod
    def forget_hosts(self, hosts: Iterable[str]) -> None:
        """Delete these hosts; a missing one is no error."""
