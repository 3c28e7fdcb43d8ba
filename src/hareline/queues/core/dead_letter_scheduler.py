"""In which order the dead letters of a virtual host are published, and how many at once.

Called by ``dead_letters``. A dead letter may push another message out of a full queue, and that one
a third. So they are not published from within one another but one after the other: the first caller
publishes them all, and a long chain of full queues is a loop here and no recursion. What takes
longer than ``SHARE_S`` waits until the event loop has looked at its sockets, so that a deleted
queue with a million messages, or one with long histories, does not delay everything else. The share
grows with what waits and counts as work of the turn, so publishers that push messages out of full
queues are slowed to the rate at which dead letters are published.

Invariant: dead letters are published in the order in which their messages died.             [hot]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from hareline.clock import Clock, Timers
from hareline.turn import WORK_PER_S, Turn

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.kinds import DeathReason

SHARE_S: Final = 0.005  # some hundred usual ones
SHARES_MAX: Final = 10
BATCHES_PER_SHARE: Final = 512


class DeadLetterSender(ABC):
    """The dead letters of one queue, as the scheduler and the overflow policy call them."""

    __slots__ = ()

    @abstractmethod
    def wants(self, reason: DeathReason) -> bool:
        """True if messages that die for this reason are published."""

    @abstractmethod
    def publish_message(self, message: Message, reason: DeathReason) -> None:
        """Publish a message that never became an entry, unless no target wants these."""

    @abstractmethod
    def send(self, message: Message, reason: DeathReason) -> None:
        """Publish this dead message now."""


class DeadLetterScheduler:
    """The dead messages of one virtual host that are not published yet.

    ``_is_occupied``: a call of ``go_on`` is running, or a timer is set for the next one, or
    publishing is held. ``is_held``: by a recovery, while queues have not got back yet what was in
    them. ``turn`` is told what the publishing costs. ``sent_counts``: messages by their reasons.
    """

    __slots__ = (
        "_clock",
        "_is_occupied",
        "_timers",
        "_waiting",
        "is_held",
        "sent_counts",
        "turn",
    )

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._waiting: deque[
            tuple[DeadLetterSender, Iterator[Message], DeathReason, Iterator[None] | None]
        ] = deque()
        self._is_occupied = False
        self.is_held = False
        self.turn: Turn | None = None
        self.sent_counts: dict[DeathReason, int] = {}

    def take(
        self,
        sender: DeadLetterSender,
        messages: Iterable[Message],
        reason: DeathReason,
        settlements: Iterator[None] | None = None,
    ) -> None:
        """Have ``sender`` publish these, before this returns unless other letters wait.

        ``settlements`` is advanced once for each message, in the same callback of the loop in which
        it is published.
        """
        self._waiting.append((sender, iter(messages), reason, settlements))
        if not self._is_occupied:
            self._is_occupied = True
            self.go_on()

    def hold(self) -> None:
        """Publish nothing until ``release``."""
        self._is_occupied = True
        self.is_held = True

    def release(self) -> None:
        """Publish what has come in the meantime, and go on as usual."""
        self.is_held = False
        self.go_on()

    def go_on(self) -> None:
        """Publish a share; called by a timer for the rest, or by a broker that stops timers."""
        waiting = self._waiting
        running_s = self._clock.running_s
        start_s = running_s()
        due_s = start_s + SHARE_S * min(SHARES_MAX, 1 + len(waiting) // BATCHES_PER_SHARE)
        is_due = False
        try:
            while waiting and not is_due:
                sender, messages, reason, settlements = waiting[0]
                for message in messages:
                    if settlements is not None:
                        next(settlements)
                    sender.send(message, reason)
                    self.sent_counts[reason] = self.sent_counts.get(reason, 0) + 1
                    is_due = running_s() >= due_s
                    if is_due:
                        break
                else:
                    waiting.popleft()
            if self.turn is not None:
                self.turn.work += int((running_s() - start_s) * WORK_PER_S)
        finally:  # also after an error, which costs the message that it was about and no other
            if waiting:
                self._timers.call_later(0.0, self.go_on)
            else:
                self._is_occupied = False

    def __len__(self) -> int:
        """Return the number of batches that wait."""
        return len(self._waiting)
