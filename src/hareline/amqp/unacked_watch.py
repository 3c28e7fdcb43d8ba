"""Limits unacknowledged deliveries, and pages out their contents while memory is short.

All channels are looked at once a second, and at once when memory becomes short, in shares of the
turn; so a channel may be above its limit for a second. Consumers that hold deliveries for too long
are looked at in the same way (``amqp.consumer_watch``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Final

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.consumer_watch import ConsumerWatch
from hareline.amqp.context import Context
from hareline.auth.users import Identity
from hareline.clock import Clock, Timers
from hareline.errors import PreconditionFailed
from hareline.later import Job
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dispatch.reading import ReadingAccount
from hareline.queues.orders.window import STEP_SPOOLED_BYTES
from hareline.queues.queue import Queue

INTERVAL_S: Final = 1.0
ENTRIES_PER_STEP: Final = 512


class UnackedWatch:
    """Looks at all channels at intervals, while there is a limit or memory is short."""

    def __init__(self, context: Context, timers: Timers) -> None:
        self._context = context
        self._timers = timers
        self._consumers = ConsumerWatch(context)
        self._look: _Look | None = None

    def start(self) -> None:
        self._timers.call_later(INTERVAL_S, self.start)
        self.look()

    def look(self) -> None:
        """Look now, unless the last look is not over."""
        if self._look is None or self._look.is_over:
            steps = chain(self._consumers.steps(), _steps(self._context))
            self._look = _Look(self._context.clock, steps)
            self._context.shares.start(self._look)


class _Look(Job):
    __slots__ = ("_clock", "_steps", "is_over")

    def __init__(self, clock: Clock, steps: Iterator[None]) -> None:
        self._clock = clock
        self._steps = steps
        self.is_over = False

    def run(self, until_s: float) -> bool:
        self.is_over = True  # also after an error, so that there is a next look
        self.is_over = all(self._clock.running_s() < until_s for _ in self._steps)
        return self.is_over


def _steps(context: Context) -> Iterator[None]:
    """Look at each channel once; yields after each step."""
    limits = context.limits
    of_channel, of_user = limits.max_unacked_per_channel, limits.max_unacked_per_user
    is_short = any(each.environment.pressure.is_high for each in context.vhosts.values())
    if not (is_short or of_channel or of_user):
        return
    counts: dict[Identity, int] = {}
    fullest: dict[Identity, tuple[int, Channel]] = {}
    for channel in _channels(context):
        count, user = len(channel.port.unacked), channel.client.user
        if 0 < of_channel < count:
            _close(channel, "max_unacked_per_channel", of_channel, f"it has {count}")
        elif count and user is not None:
            who, found = user.identity, (count, channel)
            counts[who] = counts.get(who, 0) + count
            fullest[who] = max(fullest.get(who, found), found, key=itemgetter(0))
            if is_short:
                yield from _page_out(channel)
        yield
    for who, count in counts.items():
        here, channel = fullest[who]
        # the next look goes on if that is not enough, or the client has settled some meanwhile
        if 0 < of_user < count and here <= len(channel.port.unacked):
            text = f"its user has {count}, {here} of them on it"
            _close(channel, "max_unacked_per_user", of_user, text)


def _channels(context: Context) -> Iterator[Channel]:
    for connection in list(context.connections):
        if isinstance(connection, Connection) and connection.client.is_open:
            for channel in list(connection.channels.by_number.values()):
                if not channel.is_closing:
                    yield channel


def _close(channel: Channel, limit_name: str, limit: int, found: str) -> None:
    if channel.is_closing:  # since it was looked at
        return
    channel.parts.context.counts.limits_reached.count(limit_name)
    text = f"too many unacknowledged deliveries (limits.{limit_name} is {limit}): {found}"
    channel.connection.on_error(channel.number, PreconditionFailed(text, class_id=0, method_id=0))


def _page_out(channel: Channel) -> Iterator[None]:
    """Let contents of what the channel has unacknowledged leave memory; yields after each step."""
    unacked = channel.port.unacked
    is_complete = True
    for tags in unacked.in_shares(unacked.paged_tag, ENTRIES_PER_STEP):
        found = [unacked.entries[tag] for tag in tags if tag in unacked.entries]
        for entries in _of_step_size(found):
            for queue, delivered in _by_queue(entries).items():
                if queue.paging is not None:
                    is_complete = queue.paging.page_out_delivered(delivered) and is_complete
            yield
        if is_complete:
            unacked.paged_tag = tags[-1]


def _of_step_size(entries: list[QueueEntry]) -> Iterator[list[QueueEntry]]:
    """The entries in parts of so many octets: they may have to be written."""
    part: list[QueueEntry] = []
    size = 0
    for entry in entries:
        part.append(entry)
        size += entry.message.size
        if size >= STEP_SPOOLED_BYTES:
            yield part
            part, size = [], 0
    yield part


def _by_queue(entries: list[QueueEntry]) -> dict[Queue, list[QueueEntry]]:
    by_queue: dict[Queue, list[QueueEntry]] = {}
    for entry in entries:
        place = entry.queue
        queue = place.queue if isinstance(place, ReadingAccount) else place
        if isinstance(queue, Queue):
            by_queue.setdefault(queue, []).append(entry)
    return by_queue
