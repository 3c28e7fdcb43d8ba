"""Deliveries that wait for an acknowledgement without end, looked at once a second.

``server`` starts an ``UnackedWatch``. It closes channels that have more of them than a limit says,
with the code and in the place of RabbitMQ's consumer timeout, and lets their contents leave memory
while that is short. Nothing is counted for this when a message is delivered, so a channel may be
above its limit for a second.

Invariant: a look goes on in shares of the turn, however many deliveries there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.context import Context
from hareline.amqp.shares import Job
from hareline.auth.users import Identity
from hareline.broker.queues.dispatch.reader import ReadingAccount
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.queue import Queue
from hareline.clock import Timers
from hareline.errors import PreconditionFailed

INTERVAL_S: Final = 1.0
ENTRIES_PER_STEP: Final = 512


class UnackedWatch:
    """Looks at all channels at intervals, while there is a limit or memory is short."""

    def __init__(self, context: Context, timers: Timers) -> None:
        self._context = context
        self._timers = timers

    def start(self) -> None:
        """Look now and at intervals."""
        if self._context.shares.start(_Look(self._context), self._arm):
            self._arm()

    def _arm(self) -> None:
        self._timers.call_later(INTERVAL_S, self.start)


class _Look(Job):
    __slots__ = ("_clock", "_steps")

    def __init__(self, context: Context) -> None:
        self._clock = context.clock
        self._steps = _look(context)

    def run(self, until_s: float) -> bool:
        return all(self._clock.running_s() < until_s for _ in self._steps)


def _look(context: Context) -> Iterator[None]:
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
                yield from _let_go_of_contents(channel)
        yield
    for who, count in counts.items():
        if 0 < of_user < count:  # the next look goes on if that is not enough
            here, channel = fullest[who]
            text = f"its user has {count}, {here} of them on it"
            _close(channel, "max_unacked_per_user", of_user, text)


def _channels(context: Context) -> Iterator[Channel]:
    for connection in list(context.connections):
        if isinstance(connection, Connection) and connection.client.is_open:
            for channel in list(connection.channels.by_number.values()):
                if not channel.is_closing:
                    yield channel


def _close(channel: Channel, limit_name: str, limit: int, found: str) -> None:
    channel.parts.context.counts.limits_reached.count(limit_name)
    text = f"too many unacknowledged deliveries (limits.{limit_name} is {limit}): {found}"
    channel.connection.on_error(channel.number, PreconditionFailed(text, class_id=0, method_id=0))


def _let_go_of_contents(channel: Channel) -> Iterator[None]:
    """Let what the channel has unacknowledged leave memory; yields after each step."""
    entries = list(channel.port.unacked.entries.values())
    for start in range(0, len(entries), ENTRIES_PER_STEP):
        by_queue: dict[Queue, list[QueueEntry]] = {}
        for entry in entries[start : start + ENTRIES_PER_STEP]:
            place = entry.queue
            queue = place.queue if isinstance(place, ReadingAccount) else place
            if isinstance(queue, Queue):
                by_queue.setdefault(queue, []).append(entry)
        for queue, delivered in by_queue.items():
            if queue.paging is not None:
                queue.paging.leave_delivered(delivered)
        yield
