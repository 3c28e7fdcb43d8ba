"""What the broker asks of the place where messages and definitions are kept.

Seven small roles, which ``server`` hands down: ``MessageStore`` (the durable path), ``QueueLedger``
(one durable queue's part of it), ``StoreTransaction`` (what is kept or lost as a whole though it is
done in several turns), ``ContentStore`` (contents that have left memory), ``BodyStore`` (large
bodies, which never are in memory), ``DefinitionStore`` (virtual hosts, exchanges, queues,
bindings) and ``HostStore`` (where clients of another product come from). The broker imports nothing
of ``storage`` but this module, so another store needs no change to a queue.

A *ticket* is the number of the batch that is gathered at the moment: what is added now is durable
once ``durable_ticket`` has come to it. Tickets only grow; nothing waits for more than one integer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hareline.broker.queues.entry import QueueEntry
    from hareline.errors import StoreError
    from hareline.message import LargeBody, Message


class QueueLedger(ABC):
    """What a store keeps of one durable queue; the queue tells it what happens to its entries.

    ``deliver_ticket``: what was delivered from this queue may be written to a socket when this
    ticket is durable, since only then a crash would know that it may have been delivered. It only
    grows, and hardly ever is one that is still to come.
    """

    __slots__ = ("deliver_ticket",)

    def __init__(self) -> None:
        self.deliver_ticket = 0

    @abstractmethod
    def add(self, entry: QueueEntry) -> None:
        """A new entry whose message must survive; called once for it, before it is settled."""

    @abstractmethod
    def settle(self, entry: QueueEntry) -> None:
        """The entry has left the queue, its state is SETTLED; nothing for transient messages."""

    @abstractmethod
    def hold_for_dead_letter(self, entry: QueueEntry) -> None:
        """The entry has left the queue, its state is SETTLED, and its dead letter has to wait.

        Until ``release_hold`` a crash must not lose its message.
        """

    @abstractmethod
    def release_hold(self, entry: QueueEntry) -> None:
        """As ``settle``, for one of which ``hold_for_dead_letter`` was told."""

    @abstractmethod
    def settle_paged(self, offsets: Sequence[int], positions: Sequence[int]) -> None:
        """Settle entries that stood in pages; positions as the content store knows them."""

    @abstractmethod
    def on_acquired(self, entries: list[QueueEntry]) -> None:
        """These entries are about to be delivered; may raise ``deliver_ticket``."""

    @abstractmethod
    def on_released(self, entries: list[QueueEntry]) -> None:
        """These entries came back; their ``delivery_count`` has changed."""

    @abstractmethod
    def forget(self) -> None:
        """The queue is deleted: all its entries are gone, and nothing more is told of them."""


class StoreTransaction:
    """What is kept or lost as a whole, though it is done in several turns.

    That is whatever queues tell their ledgers between ``enter`` and ``leave``, of which there may
    be many pairs, each in one callback of the loop. What it adds may be written before ``finish``,
    and does not count after a crash unless that was called; what it settles is not written before.
    This class does nothing, for stores that keep nothing.
    """

    __slots__ = ()

    def enter(self) -> None:
        """What follows is part of this transaction."""

    def leave(self) -> None:
        """What follows is not."""

    def finish(self) -> None:
        """All of it is done: durable with the ticket that is gathered at the moment."""


class ContentStore(ABC):
    """Contents that have left memory, by position.

    A position below ``SPOOLED`` is one in the durable store, from there on one in the spool, which
    does not survive the process.
    """

    __slots__ = ()

    @abstractmethod
    def read(self, position: int) -> Message:
        """The message as it was; its ``position`` is this one. Raises StoreError."""

    @abstractmethod
    def read_run(self, positions: Sequence[int]) -> list[Message]:
        """Many at once, in this order; cheap where they stand one after the other."""

    @abstractmethod
    def content(self, position: int) -> bytes:
        """``Message.content`` alone. Raises StoreError."""

    @abstractmethod
    def spool(self, message: Message) -> int:
        """Put the content of a message, which is not in the durable store, on disk."""

    @abstractmethod
    def drop_spooled(self, positions: Iterable[int]) -> None:
        """These are needed no more; positions below ``SPOOLED`` are passed over."""


SPOOLED = 1 << 62

#: What a transaction may bring to the store; all of it is in memory until its commit.
COMMIT_BYTES_MAX = 1 << 28


class MessageStore(ABC):
    """The durable path. ``failure`` is empty, or why nothing can be written any more, for good.

    ``refusal`` is empty, or why new messages cannot be kept now, for people: there is no room, or
    the store has failed. Publishes are refused then; what the broker itself adds (dead letters)
    still comes, and so do settlements. ``on_refusal_changed`` are called when it changes.

    ``write_pending`` is the turn's call, after its queues have dispatched and before connections
    write. ``ask_for_turn`` is the store's: a turn is to come, though nothing may be marked.
    ``content_store`` is None where contents never leave memory.
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
        self.ask_for_turn: Callable[[], None] = _ask_nobody
        self.content_store = content_store

    def refuse(self, reason: str) -> None:
        """The store's own call: new messages cannot be kept, for this reason; empty: they can."""
        if reason != self.refusal:
            self.refusal = reason
            for tell in self.on_refusal_changed:
                tell()

    @abstractmethod
    def open_queue(self, queue_id: int, name: str) -> QueueLedger | None:
        """The ledger of a durable queue; None if this store keeps nothing of queues."""

    @abstractmethod
    def write_pending(self) -> bool:
        """Hand over to the disk what has gathered, if it is ready for more; returns ``is_behind``.

        Once it was True, a turn must be asked for when it is False again.
        """

    @abstractmethod
    def when_durable(self, ticket: int, callback: Callable[[], None]) -> None:
        """Call once when this ticket is durable, or the store has failed; never from within.

        The ticket may be the one that is gathered, with nothing in it and no turn marked.
        """

    def begin_transaction(self) -> StoreTransaction:
        """A transaction that may take several turns; it must be finished."""
        return StoreTransaction()

    @property
    @abstractmethod
    def is_behind(self) -> bool:
        """Whether so much waits for the disk that publishers should pause."""

    @abstractmethod
    def close(self) -> None:
        """An orderly end: everything durable, all files closed. May wait for the disk."""


class BodyDraft(ABC):
    """A large body that is still coming, piece by piece."""

    __slots__ = ()

    @abstractmethod
    def add(self, octets: bytes) -> None:
        """The next piece. Raises ContentTooLarge when the disk is full, StoreError otherwise."""

    @abstractmethod
    def finish(self) -> LargeBody:
        """All of it has come. Raises as ``add`` does; the draft is to be abandoned then."""

    @abstractmethod
    def abandon(self) -> None:
        """The rest will not come: nothing of it stays. Nothing is done after ``finish``."""


class BodyStore(ABC):
    """Where bodies go that are too large for memory."""

    __slots__ = ()

    @abstractmethod
    def begin(self, size: int) -> BodyDraft:
        """A body of ``size`` octets is about to come."""


def _ask_nobody() -> None:
    """The store of a broker whose turns somebody steps."""


class DefinitionStore(ABC):
    """Durable exchanges, queues and bindings. Each change is made as a whole or not at all.

    A change raises StoreError, and then nothing of it was made. A store may gather the changes of a
    turn and make them durable together, at its end. That may fail for all of them, which is told by
    ``undo_if_lost`` and ``tell_if_lost``; until then nobody may be promised anything.
    """

    __slots__ = ()

    @abstractmethod
    def undo_if_lost(self, undo: Callable[[StoreError], None]) -> None:
        """Call ``undo`` if the change that was just made is lost, after those of later changes.

        For a deletion, which the store makes up for with its next change, this is only news.
        """

    @abstractmethod
    def tell_if_lost(self, callback: Callable[[StoreError], None]) -> None:
        """Call once, when all is undone, if what has gathered so far is lost.

        Never if nothing has; asking again has no effect.
        """

    @abstractmethod
    def add_queue(
        self,
        vhost: str,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None = None,
    ) -> int:
        """Returns the queue's id, which no other queue ever had or will have; above 0.

        ``owner``: the client id whose connections alone may use the queue; None for everybody's.
        """

    @abstractmethod
    def delete_queue(self, vhost: str, name: str) -> None:
        """With its bindings."""

    @abstractmethod
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
        """``queue``: a queue that comes and goes with it; returns its id as ``add_queue`` does, 0
        where there is none."""

    @abstractmethod
    def delete_exchange(self, vhost: str, name: str, *, queue: str | None = None) -> None:
        """With the bindings from it and to it, and with the queue that it has had."""

    @abstractmethod
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
        """``kind``: "queue" or "exchange". A repetition is no error.

        ``replaced``: arguments of bindings that go with it, which are otherwise the same.
        """

    @abstractmethod
    def unbind(
        self,
        vhost: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> None: ...


class HostStore(ABC):
    """Hosts that Qpid clients come from, and the day when each was last seen.

    Days are counted from 1970-01-01. Every call is one transaction; raises StoreError.
    """

    __slots__ = ()

    @abstractmethod
    def hosts(self) -> list[tuple[str, int]]:
        """Hosts and days, in the order in which ``remember_host`` was last called for them."""

    @abstractmethod
    def remember_host(self, host: str, seen_day: int) -> None:
        """In place of what was known of this host."""

    @abstractmethod
    def forget_hosts(self, hosts: Iterable[str]) -> None:
        """A host that is not known is no error."""
