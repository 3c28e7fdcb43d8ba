"""Move, copy, delete, retry: what operators do to messages of a queue, some at a time.

Each of these is a generator that works in small steps: its caller (``management``) lets other
things happen between two of them, and may stop after any. What has been done until then stays done,
and stands in the ``Outcome``, which is updated at every step.

A message is put to where it goes, and settled where it was, in one callback of the loop; what one
callback does is in one batch of the journal. Where a batch of that size has to be divided, the new
message is written before the old one is settled: a crash may double a message and loses none.

Invariant: a message that could not be put where it should go stays in its place, and is counted
with the reason, also where one of several queues has taken it: rather two of it than none. Messages
that a consumer has are not touched, and no consumer is shown one that was moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hareline.broker.operations.selecting import Selection, selected
from hareline.broker.operations.targets import (
    ALARM,
    FULL,
    GONE,
    NOT_STORED,
    UNREADABLE,
    UNUSED,
)
from hareline.broker.operations.walking import standing
from hareline.errors import MalformedFrame, PreconditionFailed
from hareline.queues.core.entry import DELIVERY_COUNT
from hareline.queues.core.start_position import STREAM_OFFSET
from hareline.queues.dispatch.reading import ReadingLane

if TYPE_CHECKING:
    from hareline.broker.operations.targets import Target
    from hareline.message import Message
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.queue import Queue

OFFSETS_SHOWN_MAX: Final = 1_000  # of what was done; the counts are always right
_PER_STEP: Final = 16
#: What holds for the next message as well, so that the order of messages is kept.
LASTING: Final = frozenset((FULL, UNUSED, NOT_STORED, ALARM, GONE))


@dataclass(slots=True)
class Outcome:
    """``done``: messages moved, copied, deleted; ``offsets``: those of the first of them.

    ``refused``: messages that stay, by reason. ``left``: found, but not there any more when it was
    their turn. ``ticket``: of the store; what was done is durable with it.
    """

    done: int = 0
    octets: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    left: int = 0
    offsets: list[int] = field(default_factory=list)
    ticket: int = 0

    def count(self, entry: QueueEntry) -> None:
        """Note a message that the operation has done its work on."""
        self.done += 1
        self.octets += entry.message.size
        if len(self.offsets) < OFFSETS_SHOWN_MAX:
            self.offsets.append(entry.offset)


def delete(queue: Queue, selection: Selection, outcome: Outcome) -> Iterator[None]:
    """Settle messages without a word to anyone: no dead letter, no delivery."""
    check_removable(queue)
    for found in selected(queue, selection):
        for number, (entry, _) in enumerate(found, 1):
            there = _there(queue, entry, outcome)
            if there is not None:
                queue.settle_in_place([there])
                outcome.count(there)
                _note_ticket(queue, outcome)
            if not number % _PER_STEP:
                yield
        yield


def transfer(
    queue: Queue,
    target: Target,
    selection: Selection,
    outcome: Outcome,
    *,
    is_copy: bool = False,
    shortage: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Put messages to their target, and settle them here unless it ``is_copy``.

    ``shortage``: True while publishers are stopped for want of memory or disk. After a first
    message that a full target, the store or an alarm has refused, the rest stays too.
    """
    if not is_copy:
        check_removable(queue)
    lasting = ""
    for found in selected(queue, selection):
        for number, (entry, message) in enumerate(found, 1):
            if lasting:
                outcome.refused[lasting] += 1
                continue
            refusal = (
                ALARM
                if shortage()
                else _transfer_one(queue, target, entry, message, outcome, is_copy)
            )
            if refusal:
                outcome.refused[refusal] += 1
                lasting = refusal if refusal in LASTING else ""
            if not number % _PER_STEP:
                yield
        yield


def _transfer_one(
    queue: Queue,
    target: Target,
    entry: QueueEntry,
    message: Message | None,
    outcome: Outcome,
    is_copy: bool,
) -> str:
    """Reason why the message stays, or nothing if it is done or was not there any more."""
    if message is None:
        return UNREADABLE
    there = _there(queue, entry, outcome)
    if there is None:
        return ""
    environment = queue.environment
    assert environment is not None
    try:
        twin = as_it_came(queue, entry, message)
    except MalformedFrame:
        return UNREADABLE
    place = target.place_of(twin)
    if place.refusal:
        return place.refusal
    twin = twin.replace(address=place.address)  # another message, also to queues that share this
    twin.arrival_ms = environment.clock.now_ms
    refusal = target.put(place, twin)
    _note_ticket(queue, outcome)
    if refusal:
        return refusal
    if not is_copy and (still := standing(queue, there)) is not None:
        # a queue that got the message may have dead-lettered others to this one, and pushed it out
        queue.settle_in_place([still])
    outcome.count(entry)
    return ""


def _there(queue: Queue, entry: QueueEntry, outcome: Outcome) -> QueueEntry | None:
    there = None if queue.is_deleted else standing(queue, entry)
    if there is None:
        outcome.left += 1
    return there


def _note_ticket(queue: Queue, outcome: Outcome) -> None:
    if queue.environment is not None:
        outcome.ticket = queue.environment.store.ticket


def as_it_came(queue: Queue, entry: QueueEntry, message: Message) -> Message:
    """The message as the queue got it, without the headers that the queue has written into it.

    Raises MalformedFrame for headers that cannot be read.
    """
    if queue.shows_delivery_count and entry.returns:
        message = message.without_header(DELIVERY_COUNT)
    if isinstance(queue.lane, ReadingLane):
        message = message.without_header(STREAM_OFFSET)
    return message


def check_removable(queue: Queue) -> None:
    """Raise PreconditionFailed for a stream: what it has stays until its retention drops it."""
    if queue.arguments.get("x-queue-type") == "stream":
        raise PreconditionFailed(
            f"queue '{queue.name}' is a stream, whose messages stay until x-max-age or "
            "x-max-length-bytes drop them; copy them instead"
        )
