"""Entries that are not valid yet: which they are, and making them ready at their time.

Called by ``queue`` for each new entry, where the queue looks at headers, and for deliveries that
come back, where it has a delayed retry. A held entry stands in no ordering, so others overtake it;
at its time it takes the place its offset gives it. The queues of x-delayed-message exchanges have
``delay``, a subclass. The headers that count, and when a message with one is ready:

=========================  =====================  ================================================
header                     value                  ready at
=========================  =====================  ================================================
x-qpid-not-valid-before    epoch milliseconds     the millisecond after it (Broker-J holds a
                                                  message while "now" is not past this value)
x-opt-delivery-time        epoch milliseconds     that instant
x-opt-delivery-delay       milliseconds           this long after it came to the queue
x-delay                    milliseconds           likewise
one that the queue names   ISO 8601, timestamp    that instant; without a zone it is UTC
one that the queue names   epoch milliseconds     that instant
=========================  =====================  ================================================

The first four are looked at with x-hold-on-publish, the last with x-hold-until-header. Any numeric
field type counts; of the four a timestamp too: its number is taken as milliseconds, as Broker-J
does, although AMQP's timestamps are seconds. A fraction is cut off. Any other value counts as
absent. Of several headers the latest instant counts.

Invariant: every held entry of the queue is in ``_heap``; an entry there that is not held expired,
was dropped or made due while it was held, and is passed over.                               [hot]
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from heapq import heapify, heappop, heappush
from math import ceil, isfinite
from typing import TYPE_CHECKING, ClassVar, Final

from hareline.message import Timestamp
from hareline.queues.core.credit import UNLIMITED
from hareline.queues.core.entry import HELD, QueueEntry
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.core.part_ports import HoldPort
from hareline.queues.core.ports import QueuePort
from hareline.queues.policies.deadline_timer import NEVER, DeadlineTimer
from hareline.queues.policies.retry import Retry

if TYPE_CHECKING:
    from hareline.message import Message

READIED_PER_STEP: Final = 2048  # some milliseconds; the rest is readied in the next turns
LEFT_ALLOWED: Final = 64  # kept in the heap, beyond as many as there are held ones

_PREFIX: Final = b"x-"  # of those of x-hold-on-publish
_INSTANT: Final = 0
_LAST_INVALID: Final = 1  # the last instant at which it is not valid
_DELAY: Final = 2
_TIME_OF_DAY: Final = 3

HoldHeader = tuple[str, bytes, int]  # name, its octets, and the kind of value

ON_PUBLISH: Final[tuple[HoldHeader, ...]] = tuple(
    (name, name.encode(), kind)
    for name, kind in (
        ("x-qpid-not-valid-before", _LAST_INVALID),
        ("x-opt-delivery-time", _INSTANT),
        ("x-opt-delivery-delay", _DELAY),
        ("x-delay", _DELAY),
    )
)


def hold_headers(on_publish: bool | None, until_header: str | None) -> tuple[HoldHeader, ...]:
    """The headers that hold messages in a queue; none: it holds no message as it comes."""
    headers = ON_PUBLISH if on_publish else ()
    if until_header is None:
        return headers
    return (*headers, (until_header, until_header.encode(), _TIME_OF_DAY))


class Hold(HoldPort):
    """The held entries of one queue, and the timer for the first of them.

    ``headers``: they hold messages as they come. ``retry``: of deliveries that come back, None is
    at once. ``per_step``: how many are made ready at once, the rest in the next turns;
    ``bytes_per_step``: of about how many octets of bodies.
    """

    per_step: ClassVar[int] = READIED_PER_STEP
    bytes_per_step: ClassVar[int] = UNLIMITED  # their contents are not looked at

    __slots__ = ("_clock", "_deadline", "_heap", "_queue", "headers", "retry")

    def __init__(self, queue: QueuePort, environment: QueueEnvironment) -> None:
        self.headers = ON_PUBLISH
        self.retry: Retry | None = None
        self._queue: QueuePort | None = queue
        self._clock = environment.clock
        self._heap: list[tuple[int, int, QueueEntry]] = []
        self._deadline = DeadlineTimer(environment, self._on_deadline)

    def takes(self, entry: QueueEntry, since_ms: int) -> bool:
        """Keep the entry, which came at ``since_ms``, if it is to be held; returns whether it is.

        Its state is the caller's to change.

        Raises MalformedFrame for a message whose headers are no table.
        """
        ready_ms = ready_at_ms(entry.message, since_ms, self.headers)
        if ready_ms <= self._clock.now_ms:
            return False
        self._keep(entry, ready_ms)
        return True

    def takes_returned(self, cause: int) -> bool:
        """True if entries that come back for this ``cause`` are to wait."""
        return self.retry is not None and self.retry.causes & cause != 0

    def keep_returned(self, entries: list[QueueEntry]) -> None:
        """Keep entries that came back until they are retried; their state is the caller's."""
        assert self.retry is not None, self
        now_ms = self._clock.now_ms
        for entry in entries:
            self._keep(entry, now_ms + self.retry.delay_ms(entry.returns))

    def _keep(self, entry: QueueEntry, ready_ms: int) -> None:
        heap, queue = self._heap, self._queue
        if queue is not None and len(heap) > 2 * queue.held_count + LEFT_ALLOWED:
            self._forget_left()
        heappush(heap, (ready_ms, entry.offset, entry))
        if ready_ms < self._deadline.at_ms:
            self._deadline.set(ready_ms)

    def take_all(self) -> list[QueueEntry]:
        """Remove and return every held entry, in the order in which they came."""
        entries = [entry for _, _, entry in self._heap if entry.state == HELD]
        entries.sort(key=_offset_of)
        self._heap.clear()
        self._deadline.cancel()
        return entries

    def entries(self) -> list[QueueEntry]:
        """Every held entry, in no order, left where it is."""
        return [entry for _, _, entry in self._heap if entry.state == HELD]

    def schedule(self) -> list[tuple[int, int, QueueEntry]]:
        """A heap of instant, offset and entry for operators; those that are not held have left.

        A copy, which costs some nanoseconds for each; nothing else is done for all of them at once.
        """
        return self._heap.copy()

    def make_due(self, entries: list[QueueEntry]) -> None:
        """Do now what is to be done with these held entries when their time has come."""
        held = [entry for entry in entries if entry.state == HELD]
        while held and self._queue is not None:
            held = held[self._on_ready(self._queue, held) :]

    def stop(self) -> None:
        """The queue is deleted: let go of it, so that it is freed at once."""
        self._deadline.stop()
        self._heap.clear()
        self._queue = None

    def _on_deadline(self) -> None:
        queue = self._queue
        if queue is None:
            return
        heap, now_ms = self._heap, self._clock.now_ms
        room_bytes = self.bytes_per_step
        due: list[tuple[int, int, QueueEntry]] = []
        ready: list[QueueEntry] = []
        expired: list[QueueEntry] = []
        for _ in range(self.per_step):
            if not heap or heap[0][0] > now_ms or room_bytes <= 0:
                break
            item = heappop(heap)
            entry = item[2]
            if entry.state == HELD:
                # ready and expired at once: a dispatch would still deliver it
                if 0 < entry.expires_at_ms <= now_ms:
                    expired.append(entry)
                else:
                    due.append(item)
                    ready.append(entry)
                room_bytes -= entry.message.size
        if expired:
            queue.drop(expired, "expired")
        if ready:
            for item in due[self._on_ready(queue, ready) :]:
                heappush(heap, item)
        if len(heap) > 2 * queue.held_count + LEFT_ALLOWED:
            self._forget_left()
        if heap and heap[0][0] < self._deadline.at_ms:
            self._deadline.set(heap[0][0])

    def _on_ready(self, queue: QueuePort, entries: list[QueueEntry]) -> int:
        """Make ready the entries whose time has come, in this order; returns how many were."""
        queue.make_held_ready(entries)
        return len(entries)

    def _forget_left(self) -> None:
        self._heap[:] = [item for item in self._heap if item[2].state == HELD]
        heapify(self._heap)

    def __len__(self) -> int:
        """Entries in the heap, with those that have left and still stand there."""
        return len(self._heap)


def ready_at_ms(message: Message, now_ms: int, headers: tuple[HoldHeader, ...] = ON_PUBLISH) -> int:
    """The instant in epoch milliseconds at which a message that came at ``now_ms`` is ready.

    0 if it may be delivered at once. Raises MalformedFrame for headers that are no table.
    """
    octets = message.property_octets
    if headers is ON_PUBLISH and _PREFIX not in octets:
        return 0
    ready_ms = 0
    # a name that does not occur in the octets is no header: quicker than four look-ups
    for name, name_octets, kind in headers:
        if name_octets not in octets:
            continue
        value = message.header(name)
        number = _instant_ms(value) if kind == _TIME_OF_DAY else whole_number(value)
        if number <= 0:
            continue
        if kind == _DELAY:
            number += now_ms
        elif kind == _LAST_INVALID:
            number += 1
        ready_ms = max(ready_ms, number)
    return ready_ms


def _instant_ms(value: object) -> int:
    """The instant that a value means, in epoch milliseconds; 0: it means none."""
    if isinstance(value, Timestamp):
        return value * 1000
    if not isinstance(value, str):
        return whole_number(value)
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return 0
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return ceil(instant.timestamp() * 1000)  # not before the microsecond that it says


def whole_number(value: object) -> int:
    """A numeric header as an integer; infinity is NEVER, and any other value 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return 0
    if isfinite(value):
        return int(value)
    return NEVER if value > 0 else 0


def _offset_of(entry: QueueEntry) -> int:
    return entry.offset
