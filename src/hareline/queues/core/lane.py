"""The interface of a lane: how a queue's entries come to its consumers.

A queue has one main lane: plain (every consumer may have every entry), selective (message groups,
selectors), or reading (consumers take nothing away). Browsers of an ordinary queue have a lane of
their own beside it. The queue calls what stands here and knows nothing else of a lane; lanes
inherit nothing but this, and share work by parts: ``consumer_book``, ``rings``, ``readers``.

Invariant: an entry of the queue that is ready stands in its ordering, or in the ``parking`` of its
main lane.                                                                                   [hot]
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.consumer_book import ConsumerBook
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.parking import Parking

# One queue's share of a turn. Large enough that a batch amortises its fixed cost (about 2 us),
# small enough that other queues and the sockets wait only a few milliseconds.
ENTRIES_PER_TURN: Final = 2048
BATCH_ENTRIES: Final = 512
BATCH_BYTES: Final = 262_144


class Lane(metaclass=ABCMeta):
    """What the queue calls of any of its lanes. ``consumers``: all that the lane serves."""

    __slots__ = ("consumers",)

    consumers: ConsumerBook

    @abstractmethod
    def add(self, consumer: Consumer) -> None:
        """Serve a new consumer as well."""

    @abstractmethod
    def remove(self, consumer: Consumer) -> None:
        """Stop serving a consumer; what it has unacked stays with its channel."""

    @abstractmethod
    def activate(self, consumer: Consumer) -> None:
        """Serve the consumer again, if it has credit now and may receive."""

    @abstractmethod
    def on_ready(self, entry: QueueEntry) -> None:
        """A new entry is ready, or one that was held."""

    @abstractmethod
    def run(self) -> bool:
        """Deliver within one turn's share; True if only the share stopped it."""

    @abstractmethod
    def finished(self) -> list[Consumer]:
        """The consumers that close at the end and have reached it: no ready entry is for them."""


class MainLane(Lane):
    """What the queue also calls of the lane by which it is emptied, and basic.get is served.

    ``parking``: ready entries that are not in the ordering. ``wants_new_entries`` and
    ``wants_departures`` ask the queue for calls of ``on_ready`` and ``on_departed``.
    ``keeps_entries``: it refers to ready entries that are not parked, so they stay objects.
    ``is_to_look_again``: the next ``run`` looks again at entries that no consumer could have.
    """

    __slots__ = (
        "is_to_look_again",
        "keeps_entries",
        "parking",
        "wants_departures",
        "wants_new_entries",
    )

    is_to_look_again: bool
    keeps_entries: bool
    parking: Parking
    wants_departures: bool
    wants_new_entries: bool

    @abstractmethod
    def hand_over_to(self, successor: MainLane) -> None:
        """Let another lane go on with these consumers; all ready entries are in the ordering."""

    @abstractmethod
    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        """Go on with the consumers of another lane; ``ready``: those that can receive now."""

    @abstractmethod
    def get(self) -> QueueEntry | None:
        """Acquire the next entry for basic.get."""

    @abstractmethod
    def take(self, count: int) -> list[QueueEntry]:
        """Remove and return the first ready entries, parked ones too; fewer if there are fewer."""

    @abstractmethod
    def ready_entries(self) -> list[QueueEntry]:
        """Every ready entry, in order, left where it is."""

    @abstractmethod
    def least(self) -> QueueEntry | None:
        """The ready entry that a full queue gives up first, left where it is."""

    @abstractmethod
    def on_departed(self, entry: QueueEntry) -> None:
        """An entry was settled, or put back after it was acquired; if ``wants_departures``."""

    @abstractmethod
    def may_deliver(self, entry: QueueEntry) -> bool:
        """True if ``run`` could hand this ready entry to a consumer, or if that is not known."""

    @abstractmethod
    def has_taker(self, message: Message) -> bool:
        """True if a consumer waits that would be given this new message at once."""

    @abstractmethod
    def selector_cost_with(self, consumer: Consumer) -> int:
        """As how many ordinary selectors those of the consumers would count with this one's.

        0 if it brings none, or none that is new here. Readers are not counted: each looks at
        messages in its own time.
        """

    @abstractmethod
    def stop(self) -> None:
        """The queue is deleted: cancel what is still to come."""
