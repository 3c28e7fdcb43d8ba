"""Selection of the messages of an operation: offsets, a selector, a maximum count.

``operations.moving`` and exports go over ``selected``. An operation on many messages is long, so
everything here is a generator: it yields after each share, and what the share has found.

Invariant: a message is found at most once, and stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hareline.broker.operations.walking import (
    messages_of,
    parked_shares,
    read_together,
    walk,
)
from hareline.errors import MalformedFrame
from hareline.message import Message
from hareline.queues.core.entry import QueueEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.queue import Queue
from hareline.selectors.selector import Selector

LOOKED_UP_AT_ONCE: Final = 32  # offsets; one costs 5 to 50 us


@dataclass(frozen=True, slots=True)
class Selection:
    """``offsets``, ``selector``: None means any. ``limit``: only the first; None: all."""

    offsets: frozenset[int] | None = None
    selector: Selector | None = None
    limit: int | None = None


class Found(NamedTuple):
    """An entry, in the queue or made to show it, and its message with content; None: unreadable."""

    entry: QueueEntry
    message: Message | None


def selected(
    queue: Queue, selection: Selection, after: Any = None, *, is_backwards: bool = False
) -> Iterator[list[Found]]:
    """Shares of what the selection means, in order; of what was there when it began."""
    left = selection.limit
    offsets, selector = selection.offsets, selection.selector
    end = queue.next_offset
    wanted = None if offsets is None else set(offsets)
    if wanted is not None and after is None and isinstance(queue.order, FifoOrder | LogOrder):
        shares = _at(queue, sorted(wanted))
    else:
        shares = walk(queue, after, is_backwards=is_backwards)
    for share in shares:
        entries = [entry for entry in share if entry.offset < end]
        if wanted is not None:
            entries = [entry for entry in entries if entry.offset in wanted]
        for part in read_together(queue, entries):
            found = [
                Found(entry, message)
                for entry, message in zip(part, messages_of(queue, part), strict=True)
                if selector is None or _matches(selector, entry, message)
            ]
            if left is not None:
                found = found[:left]
                left -= len(found)
            if wanted is not None:
                wanted.difference_update([each.entry.offset for each in found])
            yield found
            if left == 0:
                return
        if wanted is not None and not wanted:
            return
        if not entries:
            yield []


def _at(queue: Queue, offsets: list[int]) -> Iterator[list[QueueEntry]]:
    """Shares of a queue in the order of offsets that have some of these, without a look at all.

    Some are empty, so that however many offsets are of messages that have left, others get turns.
    """
    shown = -1
    for number, offset in enumerate(offsets, 1):
        if not number % LOOKED_UP_AT_ONCE:
            yield []
        if offset <= shown:
            continue
        for share in queue.order.walk(offset - 1):
            yield share
            if share:
                shown = share[-1].offset
                break
    for parked in parked_shares(queue):
        yield [entry for _, entry in parked]


def _matches(selector: Selector, entry: QueueEntry, message: Message | None) -> bool:
    """A message whose content or properties cannot be read is not selected."""
    if message is None:
        return False
    try:
        return selector.matches(message, entry.delivery_count > 0)
    except MalformedFrame:
        return False
    finally:
        message.forget_properties()
