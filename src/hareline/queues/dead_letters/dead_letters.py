"""Publishing the messages that a queue could not keep or deliver.

Called by ``queue`` for entries that have left it, and for messages that a full queue refused. They
wait in the virtual host's ``DeadLetterScheduler``, which calls ``send`` for each in turn.
``targets`` says where they go, ``template`` and ``history`` what they look like then.

A dead letter is lost without an error (as in RabbitMQ, but for the last case) if it reaches no
queue, is refused by the queue, would go round in a cycle without a client in it, or has gone so far
without one that a cycle could not be told any more.

Invariant: a message's history is never forgotten on the way: what is published here is a
``message.dead_letter``, and stays one.                                                      [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.errors import MalformedFrame, StoreError
from hareline.message import dead_letter
from hareline.queues.core.dead_letter_scheduler import DeadLetterSender
from hareline.queues.core.enqueueing import Enqueueing, archive_message
from hareline.queues.core.entry import DELIVERY_COUNT
from hareline.queues.core.kinds import TAKEN
from hareline.queues.dead_letters.history import History, dead_message_of
from hareline.queues.dead_letters.template import DeathTemplates
from hareline.queues.policies.schedule import has_schedule, without_forged_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hareline.message import Message
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.core.kinds import DeathReason
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.dead_letters.targets import Targets
    from hareline.storage.interface import QueueLedger

PERSISTENT: Final = 2


class DeadLetters(DeadLetterSender):
    """The dead letters of one queue.

    ``takes_transient`` False: only persistent messages (delivery-mode 2) are published.

    ``published_count``, ``unroutable_count`` and ``cycle_count`` count messages: published to at
    least one queue, published to none, and copies kept from going round, or further.
    """

    __slots__ = (
        "_environment",
        "_queue_name",
        "_takes_transient",
        "_targets",
        "cycle_count",
        "published_count",
        "templates",
        "unroutable_count",
    )

    def __init__(
        self,
        queue_name: str,
        environment: QueueEnvironment,
        targets: Targets,
        *,
        takes_transient: bool = True,
    ) -> None:
        self._queue_name = queue_name
        self._environment = environment
        self._targets = targets
        self._takes_transient = takes_transient
        self.templates = DeathTemplates(queue_name, environment.clock)
        self.published_count = 0
        self.unroutable_count = 0
        self.cycle_count = 0

    def take_counts_of(self, former: DeadLetters) -> None:
        """Go on counting where the former dead letters of this queue stopped."""
        self.published_count = former.published_count
        self.unroutable_count = former.unroutable_count
        self.cycle_count = former.cycle_count

    def wants(self, reason: DeathReason) -> bool:
        return reason in self._targets

    def publish(
        self, entries: list[QueueEntry], reason: DeathReason, ledger: QueueLedger | None = None
    ) -> None:
        """Publish the messages of entries that have left the queue, if it has a target for these.

        ``ledger`` settles an entry when its letter is published, in the same callback of the loop;
        other letters may come first (``DeadLetterScheduler``).
        """
        if not entries:
            return
        if reason not in self._targets:
            if ledger is not None:
                for entry in entries:
                    ledger.settle(entry)
            return
        messages = self._messages_of(entries)
        settlements = None
        if ledger is not None:
            for entry in entries:
                ledger.hold_for_dead_letter(entry)
            settlements = map(ledger.release_hold, entries)
        self._environment.dead_letter_scheduler.take(self, messages, reason, settlements)

    def publish_all(self, entries: Iterator[QueueEntry], reason: DeathReason) -> None:
        """Publish the messages of many entries; each entry is taken when it is its turn.

        For a reason for which ``wants`` is True.
        """
        messages = map(self._message_of, entries)
        self._environment.dead_letter_scheduler.take(self, messages, reason)

    def publish_message(self, message: Message, reason: DeathReason) -> None:
        """Publish a message that never became an entry, if there is a target for these."""
        if reason in self._targets:
            self._environment.dead_letter_scheduler.take(self, [message], reason)

    def _messages_of(self, entries: list[QueueEntry]) -> list[Message]:
        """The messages of entries of one queue as the queue got them, to be sent in this order."""
        if entries[0].queue.shows_delivery_count:
            return [_without_delivery_count(entry) for entry in entries]
        return [entry.message for entry in entries]

    def _message_of(self, entry: QueueEntry) -> Message:
        """As ``_messages_of``, for the next one to be sent."""
        return _without_delivery_count(entry) if entry.queue.shows_delivery_count else entry.message

    def send(self, message: Message, reason: DeathReason) -> None:
        """Publish a dead message now; called by ``DeadLetterScheduler``."""
        environment = self._environment
        if has_schedule(message.property_octets):
            message = without_forged_schedule(message)
        is_from_default = message.is_from_default
        is_published = False
        for target in self._targets[reason]:
            if target.is_default and is_from_default:
                if target.is_copy:
                    continue
                self._drop_for_cycle()
                return
            try:
                dead = dead_message_of(
                    message,
                    keeps_copies=target.routing_key is None,
                    is_for_default=target.is_default,
                )
                if not self._takes_transient and dead.parts.delivery_mode != PERSISTENT:
                    return
                template = self.templates.template(
                    message.address, dead, reason, target, message.arrival_ms // 1000
                )
                if template is None:
                    self._drop_for_cycle()
                    return
                letter = dead_letter(
                    message,
                    dead.parts.with_fields(dead.fields + template.octets),
                    template.address,
                    environment.clock.now_ms,
                    len(template.octets),
                    is_from_default=target.is_default or is_from_default,
                )
                queues, archives = environment.route(target.exchange, template.routing_keys, letter)
            except (MalformedFrame, StoreError):
                # with these there are too many headers to decode, or the disk has lost the content
                break
            if queues:
                is_published |= self._deliver(letter, queues, archives, template.history)
                if target.is_copy:
                    is_from_default = True
                    continue
                self.published_count += is_published
                return
            archive_message(letter, (), archives)  # not a place for it: the next target is asked
        if is_published:
            self.published_count += 1
        else:
            self.unroutable_count += 1

    def _drop_for_cycle(self) -> None:
        """Count a letter that must not go on; the first one is reported, as RabbitMQ does."""
        if not self.cycle_count:
            self._environment.report(
                events.DEAD_LETTER_CYCLE,
                queue=self._queue_name,
                vhost=self._environment.vhost_name,
            )
        self.cycle_count += 1

    def _deliver(
        self,
        letter: Message,
        queues: tuple[QueuePort, ...],
        archives: tuple[Enqueueing, ...],
        history: History,
    ) -> bool:
        """Put a letter into its queues; True if it was published to at least one."""
        is_published = False
        takers: list[QueuePort] = []
        for queue in queues:
            if history.bars(queue.name):
                self._drop_for_cycle()
            elif not queue.is_deleted:  # the one that is being deleted is still bound
                is_published = True
                if queue.put(letter) == TAKEN:
                    takers.append(queue)
        archive_message(letter, takers, archives)
        return is_published

    def __repr__(self) -> str:
        return f"<DeadLetters of {self._queue_name!r}: {', '.join(sorted(self._targets))}>"


def _without_delivery_count(entry: QueueEntry) -> Message:
    """The message as the queue got it: redelivered ones were given the header there."""
    if entry.returns == 0:
        return entry.message
    return entry.message.without_header(DELIVERY_COUNT)
