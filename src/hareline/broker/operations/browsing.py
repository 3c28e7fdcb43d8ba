"""A page of a queue's messages, from either end or from where an earlier page stopped.

Called by ``management``. The walk is by positions: a million messages before the page cost nothing
in most queues, and nothing is acquired, counted as delivered or moved.

Invariant: a page ends with a position from which the next one goes on, unless there is no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hareline.broker.operations.positions import position_of, rank_of
from hareline.broker.operations.selecting import Found, Selection, selected
from hareline.queues.queue import Queue
from hareline.selectors.selector import Selector


@dataclass(slots=True)
class BrowsedPage:
    """``found``: in the order of delivery, or from the end on. ``position``: where the next page
    begins; None: at this end there is no more. ``size``: octets of the bodies found."""

    found: list[Found] = field(default_factory=list)
    position: str | None = None
    size: int = 0


def browse(
    queue: Queue,
    page: BrowsedPage,
    *,
    count: int,
    position: str | None = None,
    is_backwards: bool = False,
    selector: Selector | None = None,
    max_bytes: int,
) -> Iterator[None]:
    """Fill a page with up to ``count`` messages, or octets of bodies; yields after each share.

    A first message is shown whatever its size. Raises InvalidPosition.
    """
    after = None if position is None else rank_of(position, queue.order)
    selection = Selection(selector=selector, limit=count + 1)
    for share in selected(queue, selection, after, is_backwards=is_backwards):
        for found in share:
            size = page.size + found.entry.message.size
            if page.found and (len(page.found) >= count or size > max_bytes):
                page.position = position_of(queue.order.rank(page.found[-1].entry))
                return
            page.found.append(found)
            page.size = size
        yield
