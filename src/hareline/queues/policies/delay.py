"""The entries of an x-delayed-message exchange: all are held, and at their time they go on.

Those with a ``schedule`` that repeats send a copy, and are put back for their next time.

The queue of such an exchange (``broker.delayed_queues``) has one of these as its ``hold``. Nothing
in that queue is ever ready: at its time an entry leaves, and its message goes to the exchange
again, a share of the work at a time. Entries that are due together, as after a restart, go in the
order of their times, and not before a recovery has ended.

Invariant: the store hears that an entry is gone in the callback of the loop in which it gets what
was made of its message, so a crash neither loses nor doubles it.                            [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from hareline import events
from hareline.errors import MalformedFrame, PreconditionFailed, StoreError
from hareline.queues.core.entry import HELD, QueueEntry
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.orders.read_back import RECENT_BYTES
from hareline.queues.policies.hold import Hold, whole_number
from hareline.queues.policies.schedule import (
    AT_HEADER,
    Schedule,
    check_schedule,
    deliver_at_ms,
    has_schedule,
    schedule_of,
    without_schedule,
)

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.ports import QueuePort

DELAY_HEADER: Final = "x-delay"
# RabbitMQ's plugin does not delay by more than 2**32 - 1; here the header's widest type is the
# limit, since the delay is written back as a negative number.
DELAY_MAX_MS: Final = (1 << 63) - 1
SENT_PER_STEP: Final = 256  # 5 to 10 ms, as each is read, gets other properties, and is routed
# A message may go to thousands of queues, so a step also ends after this time. The first of a step
# are sent one by one, and no more than the second number between two looks at the clock.
STEP_S: Final = 0.008
SENT_PER_LOOK: Final = 16
SENT_BYTES_PER_STEP: Final = RECENT_BYTES  # what is read from the disk at once, if it is there
PAUSE_MS: Final = 50  # while the store does not keep up, or a recovery goes on

_DIGITS_MAX: Final = 20  # more than any number up to the limit has


def delay_ms_of(value: object) -> int:
    """Milliseconds that a message with this x-delay is to wait; 0 or less: it is not delayed.

    As the plugin reads it: a number of any type, of which a fraction is cut off, or a text with a
    whole number; anything else, and None, is no delay.
    """
    if value is None:
        return 0
    number = _number_in(value) if isinstance(value, str) else whole_number(value)
    return min(number, DELAY_MAX_MS)


def due_of(message: Message, since_ms: int) -> tuple[int, Schedule | None]:
    """Time at which a message that came at ``since_ms`` is sent on, in epoch milliseconds.

    And its schedule, unless it is sent only once.
    """
    delay_ms = max(0, delay_ms_of(message.header(DELAY_HEADER)))
    if has_schedule(message.property_octets):
        try:
            return schedule_of(message, delay_ms, since_ms)
        except PreconditionFailed:  # a dead letter, or an earlier version took it in
            pass
    return since_ms + delay_ms, None


def not_delayed(message: Message) -> Message:
    """A message that is sent once as it is sent on: its delay and its instant are negated."""
    delay_ms = delay_ms_of(message.header(DELAY_HEADER))
    sent = message.with_header(DELAY_HEADER, -delay_ms) if delay_ms > 0 else message.replace()
    if has_schedule(sent.property_octets):
        try:
            if check_schedule(sent.headers):
                return sent.with_header(AT_HEADER, -deliver_at_ms(sent.header(AT_HEADER)))
        except PreconditionFailed:  # as in due_of
            return without_schedule(sent)
    return sent


def _number_in(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return 0
    digits = digits.lstrip("0")
    number = int(digits or "0") if len(digits) <= _DIGITS_MAX else DELAY_MAX_MS
    return -number if text[0] == "-" else number


class Delay(Hold):
    """The delayed entries of one exchange.

    ``send`` publishes a message whose delay is over. It raises StoreError if the message cannot be
    read, and MalformedFrame if its headers cannot.
    """

    per_step: ClassVar[int] = SENT_PER_STEP
    bytes_per_step: ClassVar[int] = SENT_BYTES_PER_STEP

    __slots__ = ("_by_id", "_environment", "_schedules", "_send")

    def __init__(
        self, queue: QueuePort, environment: QueueEnvironment, send: Callable[[Message], None]
    ) -> None:
        super().__init__(queue, environment)
        self._environment = environment
        self._send: Callable[[Message], None] | None = send
        self._schedules: dict[QueueEntry, Schedule] = {}  # of those that are sent again
        self._by_id: dict[str, dict[QueueEntry, None]] = {}

    def takes(self, entry: QueueEntry, since_ms: int) -> bool:
        """True always: an entry that is due already, after a restart, goes by the timer as well.

        Raises MalformedFrame for a message whose headers are no table.
        """
        self._keep(entry, self._due_ms(entry, since_ms))
        return True

    def _due_ms(self, entry: QueueEntry, since_ms: int) -> int:
        due_ms, schedule = due_of(entry.message, since_ms)
        if schedule is not None:
            if not schedule.schedule_id:
                schedule.schedule_id = self._new_id(entry)
            self._schedules[entry] = schedule
            self._by_id.setdefault(schedule.schedule_id, {})[entry] = None
        return due_ms

    def _new_id(self, entry: QueueEntry) -> str:
        """The message-id, which several may have; without one, what no other has."""
        message = entry.message
        given = message.properties.message_id
        message.forget_properties()
        return given or f"{message.arrival_ms}-{entry.offset}"  # the same after a restart

    def schedule_of(self, entry: QueueEntry) -> Schedule | None:
        """The schedule of a held entry; None if it is sent only once."""
        return self._schedules.get(entry)

    def scheduled(self, schedule_ids: Iterable[str]) -> list[QueueEntry]:
        """The held entries of these schedules; ids of no schedule are passed over."""
        found = [entry for each in schedule_ids for entry in self._by_id.get(each, ())]
        return [entry for entry in found if entry.state == HELD]

    def take_all(self) -> list[QueueEntry]:
        self._schedules.clear()
        self._by_id.clear()
        return super().take_all()

    def _forget_left(self) -> None:
        super()._forget_left()
        self._schedules = {e: each for e, each in self._schedules.items() if e.state == HELD}
        self._by_id.clear()
        for entry, schedule in self._schedules.items():
            self._by_id.setdefault(schedule.schedule_id, {})[entry] = None

    def _on_deadline(self) -> None:
        environment = self._environment
        store = environment.store
        is_behind = store.is_behind and not store.failure  # publishers wait as well
        # what repeats would fill memory and disk while no publisher may
        is_short = bool(self._schedules) and environment.pressure.blocks_publishers()
        if is_behind or is_short or environment.dead_letter_scheduler.is_held:
            self._deadline.set(self._clock.now_ms + PAUSE_MS)
        else:
            super()._on_deadline()

    def _on_ready(self, queue: QueuePort, entries: list[QueueEntry]) -> int:
        running_s = self._clock.running_s
        end_s = running_s() + STEP_S
        unreadable: list[str] = []
        done, look = 0, 1
        while done < len(entries):
            self._send_on(queue, entries[done : done + look], unreadable)
            done = min(len(entries), done + look)
            look = min(SENT_PER_LOOK, 2 * look)
            if running_s() >= end_s:
                break
        if unreadable:
            self._environment.report(
                events.MESSAGES_UNREADABLE,
                queue=queue.name,
                vhost=self._environment.vhost_name,
                count=len(unreadable),
                reason=unreadable[0],
            )
        return done

    def _send_on(self, queue: QueuePort, entries: list[QueueEntry], unreadable: list[str]) -> None:
        """Send these, and note why those of them cannot be read that stay with the store."""
        ledger = queue.ledger
        send = self._send
        assert send is not None, queue  # a stopped hold has no timer
        now_ms = self._clock.now_ms
        taken = [(entry, self._schedules.pop(entry, None)) for entry in queue.take_due(entries)]
        for entry, schedule in taken:
            message = entry.message
            is_last = schedule is None or not schedule.advance(now_ms)
            try:
                send(message if schedule is None else schedule.copy_of(message))
            except (MalformedFrame, StoreError) as error:  # the store keeps what it has of it
                unreadable.append(error.explanation)
                continue
            if schedule is not None:
                self._forget_id(entry, schedule)
                if not is_last:
                    queue.put(schedule.waiting(message))
            if ledger is not None:
                ledger.settle(entry)

    def _forget_id(self, entry: QueueEntry, schedule: Schedule) -> None:
        of_id = self._by_id.get(schedule.schedule_id)
        if of_id is not None:
            of_id.pop(entry, None)
            if not of_id:
                del self._by_id[schedule.schedule_id]

    def stop(self) -> None:
        super().stop()
        self._send = None
        self._schedules.clear()
        self._by_id.clear()
