"""The interface of a lane: how a queue's entries come to its consumers.

A queue has one main lane: plain, selective (message groups, selectors), or reading (consumers take
nothing away). Browsers of an ordinary queue have a lane of their own beside it. Lanes inherit the
interface and share work by parts: ``consumer_book``, ``rings``.                              [hot]

Invariant: an entry of the queue that is ready stands in its ordering, or in the ``parking`` of its
main lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.queues.core.consumer_book import ConsumerBook
from hareline.queues.core.parking import NO_PARKING, Parking

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.entry import QueueEntry

# One queue's share of a turn. Large enough that a batch amortises its fixed cost (about 2 us),
# small enough that other queues and the sockets wait only a few milliseconds.
ENTRIES_PER_TURN: Final = 2048
BATCH_ENTRIES: Final = 512
BATCH_BYTES: Final = 262_144
# Consumers that a dispatch rule looks at for the price of an entry.
LOOKS_PER_ENTRY: Final = 16


class Lane:
    """Base of all lanes; its own answers are those of a deleted queue (``CLOSED_LANE``).

    ``consumers``: all that the lane serves. ``parking``: ready entries that are not in the
    ordering. ``wants_new_entries`` and ``wants_departures`` ask the queue for calls of ``on_ready``
    and ``on_departed``. ``keeps_entries``: it refers to ready entries that are not parked, so they
    stay objects. ``is_to_look_again``: the next ``run`` looks again at entries that no consumer
    could have. ``share``: entries that a ``run`` may deliver or,
    in a reading lane, look at.
    """

    __slots__ = (
        "consumers",
        "is_to_look_again",
        "keeps_entries",
        "parking",
        "share",
        "wants_departures",
        "wants_new_entries",
    )

    def __init__(self) -> None:
        self.consumers = ConsumerBook()
        self.is_to_look_again = False
        self.keeps_entries = False
        self.parking: Parking = NO_PARKING
        self.share = ENTRIES_PER_TURN
        self.wants_departures = False
        self.wants_new_entries = False

    # -------------------------------------------------------------------- delivery

    def run(self) -> bool:
        """Deliver within one turn's share; True if only the share stopped it."""
        return False

    def keep_up(self) -> None:
        """Do what ``run`` does beside delivering: the queue is paused."""

    def get(self) -> QueueEntry | None:
        """Acquire the next entry for basic.get."""
        return None

    def may_deliver(self, entry: QueueEntry) -> bool:
        """True if ``run`` could hand this ready entry to a consumer, or if that is not known."""
        return False

    def has_taker(self, message: Message) -> bool:
        """True if a consumer waits that would be given this new message at once."""
        return False

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        """Serve a new consumer as well."""
        raise AssertionError(f"{consumer} comes to a deleted queue")

    def remove(self, consumer: Consumer) -> None:
        """Stop serving a consumer; what it has unacked stays with its channel."""
        raise AssertionError(f"{consumer} leaves a deleted queue")

    def activate(self, consumer: Consumer) -> None:
        """Serve the consumer again, if it has credit now and may receive."""

    def finished(self) -> list[Consumer]:
        """The consumers that close at the end and have reached it: no ready entry is for them."""
        return []

    def hand_over_to(self, successor: Lane) -> None:
        """Let another lane go on with these consumers; all ready entries are in the ordering."""
        raise AssertionError("a deleted queue has no other lane")

    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        """Go on with the consumers of another lane; ``ready``: those that can receive now."""

    def selector_cost_with(self, consumer: Consumer) -> int:
        """As how many ordinary selectors those of the consumers would count with this one's.

        0 if it brings none, or none that is new here. Readers are not counted: each looks at
        messages in its own time.
        """
        return 0

    def stop(self) -> None:
        """The queue is deleted: cancel what is still to come."""

    # --------------------------------------------------------------------- entries

    def on_ready(self, entry: QueueEntry) -> None:
        """A new entry is ready, or one that was held."""

    def on_departed(self, entry: QueueEntry) -> None:
        """An entry was settled, or put back after it was acquired; if ``wants_departures``."""

    def take(self, count: int) -> list[QueueEntry]:
        """Remove and return the first ready entries, parked ones too; fewer if there are fewer."""
        return []

    def ready_entries(self) -> list[QueueEntry]:
        """Every ready entry, in order, left where it is."""
        return []

    def least(self) -> QueueEntry | None:
        """The ready entry that a full queue gives up first, left where it is."""
        return None


# A lane refers to its queue and the queue to its lane. A deleted queue takes this lane instead, so
# that both are freed at once by their reference counts, and what still calls the queue (a consumer
# whose credit comes back, a dispatch that was asked for before) finds nothing to do.
CLOSED_LANE: Final = Lane()
