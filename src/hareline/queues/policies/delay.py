"""The entries of an x-delayed-message exchange: all are held, and at their time they go on.

The queue of such an exchange (``broker.delayed_queues``) has one of these as its ``hold``. Nothing
in that queue is ever ready: at its time an entry leaves, and its message goes to the exchange
again, a share of the work at a time. Entries that are due together, as after a restart, go in the
order of their times, and not before a recovery has ended.

Invariant: the store hears that an entry is gone in the callback of the loop in which it gets what
was made of its message, so a crash neither loses nor doubles it.                            [hot]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from hareline import events
from hareline.errors import MalformedFrame, StoreError
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.orders.read_back import RECENT_BYTES
from hareline.queues.policies.hold import Hold, whole_number

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

    __slots__ = ("_environment", "_send")

    def __init__(
        self, queue: QueuePort, environment: QueueEnvironment, send: Callable[[Message], None]
    ) -> None:
        super().__init__(queue, environment)
        self._environment = environment
        self._send: Callable[[Message], None] | None = send

    def takes(self, entry: QueueEntry, since_ms: int) -> bool:
        """True always: an entry that is due already, after a restart, goes by the timer as well.

        Raises MalformedFrame for a message whose headers are no table.
        """
        self._keep(entry, since_ms + max(0, delay_ms_of(entry.message.header(DELAY_HEADER))))
        return True

    def _on_deadline(self) -> None:
        environment = self._environment
        store = environment.store
        is_behind = store.is_behind and not store.failure  # publishers wait as well
        if is_behind or environment.dead_letter_scheduler.is_held:
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
        for entry in queue.take_due(entries):
            try:
                send(entry.message)
            except (MalformedFrame, StoreError) as error:  # the store keeps what it has of it
                unreadable.append(error.explanation)
                continue
            if ledger is not None:
                ledger.settle(entry)

    def stop(self) -> None:
        super().stop()
        self._send = None
