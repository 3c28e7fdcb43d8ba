"""Where the messages go that a queue could not keep or deliver, and what they look like then.

Called by ``queue`` for entries that have left it, and by ``overflow`` for messages that were not
let in; they go by ``dead_letter_scheduler`` and come back to ``send``. Where to is settled when the
object is made, for each reason of its own:

=======================  =====================================  ==================================
target                   used for                               routed with
=======================  =====================================  ==================================
dead-letter exchange     rejected, expired, maxlen,             the dead-letter routing key, or
(RabbitMQ)               delivery_limit, or ``reasons``         all keys it came with
alternate binding        rejected, delivery_limit, deleted,     all keys it came with; a queue by
(Qpid)                   and expired where the policy says so   its name
default dead-letter      rejected, expired, maxlen,             ``<queue>.<reason>``
exchange (virtual host)  delivery_limit, or ``reasons``
=======================  =====================================  ==================================

A dead letter that reaches no queue, is refused by the queue, would go round in a cycle that no
client has a part in, or has gone so far without one that a cycle could not be told any more, is
lost; that is no error (RabbitMQ, but for the last).

Invariant: a message's history is never forgotten on the way: what is published here is a
``message.dead_letter``, and stays one.                                                      [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hareline import events
from hareline.broker.queues.dead_letters.history import (
    DeadMessage,
    History,
    record_death,
    remains_of,
)
from hareline.broker.queues.dead_letters.scheduler import DeadLetterSender
from hareline.errors import MalformedFrame, PreconditionFailed, StoreError
from hareline.message import Address, BlindAddress, Table, dead_letter, encode_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hareline.broker.queues.declare.arguments import QueueArguments
    from hareline.broker.queues.entry import QueueEntry
    from hareline.broker.queues.environment import QueueEnvironment
    from hareline.broker.queues.kinds import DeathReason
    from hareline.broker.queues.ports import QueuePort
    from hareline.message import Message
    from hareline.storage.interface import QueueLedger

USUAL_REASONS: Final = frozenset(("rejected", "expired", "maxlen", "delivery_limit"))
ALTERNATE_REASONS: Final = frozenset(("rejected", "delivery_limit"))
DLQ_SUFFIX: Final = "_DLQ"  # Broker-J: qpid.broker_dead_letter_queue_suffix
DELIVERY_COUNT_HEADER: Final = "x-delivery-count"
NAME_MAX_OCTETS: Final = 255

# Of histories in remembered templates, see ``DeathTemplate``: some 200 short ones, no long one.
FORMS_MAX_BYTES: Final = 65_536
FORM_MAX_BYTES: Final = 4_096
ADDRESSES_MAX: Final = 1024
PERSISTENT: Final = 2

TEXTS: Final = {
    "rejected": "a consumer rejected it",
    "expired": "its time to live has passed",
    "maxlen": "the queue was full",
    "delivery_limit": "it was delivered too often",
    "replaced": "a newer value took its place",
    "deleted": "the queue was deleted",
}


class Target(NamedTuple):
    """``routing_key`` None: the message keeps its own, and is routed by CC and BCC as well."""

    exchange: str
    routing_key: str | None
    is_default: bool = False


class DeathTemplate(NamedTuple):
    """What becomes of all messages that were published alike and died alike, in this second.

    ``history``: what the headers tell of it; ``octets`` are these headers.
    """

    octets: bytes
    address: Address
    routing_keys: list[str]
    history: History


class DeadLetters(DeadLetterSender):
    """The dead letters of one queue.

    ``exchange`` and ``routing_key``: RabbitMQ's x-dead-letter-exchange and -routing-key.
    ``alternate``: the destination of Qpid's alternate binding, an exchange or a queue.
    ``default_exchange``: the virtual host's, for a queue that has neither. ``reasons``: which
    deaths to publish in place of the usual ones (an alternate binding gets "deleted" besides).
    ``expiry_policy`` "delete": what expired is never published; "route-to-alternate": it goes by
    the alternate binding. ``takes_transient`` False: only persistent messages (delivery-mode 2) are
    published.

    ``published_count``, ``unroutable_count`` and ``cycle_count`` count messages: published to at
    least one queue, published to none, and copies kept from going round, or further.

    Raises PreconditionFailed for a name or key of more than 255 octets.
    """

    __slots__ = (
        "_addresses",
        "_environment",
        "_forms",
        "_forms_bytes",
        "_forms_second",
        "_queue_name",
        "_takes_transient",
        "_targets",
        "cycle_count",
        "published_count",
        "unroutable_count",
    )

    def __init__(
        self,
        queue: QueuePort,
        environment: QueueEnvironment,
        *,
        exchange: str | None = None,
        routing_key: str | None = None,
        alternate: str | None = None,
        default_exchange: str | None = None,
        reasons: Collection[str] | None = None,
        expiry_policy: str | None = None,
        takes_transient: bool = True,
    ) -> None:
        self._queue_name = queue.name  # and not the queue, which refers to this object
        self._environment = environment
        self._takes_transient = takes_transient
        for name, what in (
            (exchange, "dead-letter exchange"),
            (routing_key, "dead-letter routing key"),
            (alternate, "alternate binding"),
            (default_exchange, "default dead-letter exchange"),
        ):
            if name is not None and len(_octets(name)) > NAME_MAX_OCTETS:
                raise PreconditionFailed(
                    f"{what} of queue '{queue.name}' in vhost '{environment.vhost_name}' is longer "
                    f"than {NAME_MAX_OCTETS} octets"
                )
        self._targets = _targets(
            queue.name, exchange, routing_key, alternate, default_exchange, reasons, expiry_policy
        )
        self._forms: dict[tuple[object, ...], DeathTemplate] = {}
        self._forms_bytes = 0
        self._forms_second = 0
        self._addresses: dict[tuple[str, str], Address] = {}
        self.published_count = 0
        self.unroutable_count = 0
        self.cycle_count = 0

    @property
    def is_needed(self) -> bool:
        """False if nothing is ever published, so the queue can do without."""
        return bool(self._targets)

    def wants(self, reason: DeathReason) -> bool:
        """Whether messages that die for this reason are published."""
        return reason in self._targets

    def publish(
        self, entries: list[QueueEntry], reason: DeathReason, ledger: QueueLedger | None = None
    ) -> None:
        """Publish the messages of entries that have left the queue, unless nobody wants these.

        ``ledger`` is told that an entry is settled, as soon as its letter is published; that may
        have to wait for others (``dead_letter_scheduler``).
        """
        if not entries:
            return
        if reason not in self._targets:
            if ledger is not None:
                for entry in entries:
                    ledger.settle(entry)
            return
        if entries[0].queue.shows_delivery_count:
            messages = [_without_delivery_count(entry) for entry in entries]
        else:
            messages = [entry.message for entry in entries]
        settlements = None
        if ledger is not None:
            for entry in entries:
                ledger.hold_for_dead_letter(entry)
            settlements = map(ledger.release_hold, entries)
        self._environment.dead_letter_scheduler.take(self, messages, reason, settlements)

    def publish_all(self, entries: Iterator[QueueEntry], reason: DeathReason) -> None:
        """Publish the messages of so many entries that each is made only when it is its turn.

        For a reason that ``wants`` has agreed to.
        """
        messages = map(_as_it_came, entries)
        self._environment.dead_letter_scheduler.take(self, messages, reason)

    def publish_message(self, message: Message, reason: DeathReason) -> None:
        """Publish a message that never became an entry, unless nobody wants these."""
        if reason in self._targets:
            self._environment.dead_letter_scheduler.take(self, [message], reason)

    def send(self, message: Message, reason: DeathReason) -> None:
        """The call of ``dead_letter_scheduler``, when it is this message's turn."""
        environment = self._environment
        for target in self._targets[reason]:
            if target.is_default and message.is_from_default:
                self._drop_for_cycle()
                return
            try:
                remains = remains_of(
                    message,
                    keeps_copies=target.routing_key is None,
                    is_for_default=target.is_default,
                )
                if not self._takes_transient and remains.parts.delivery_mode != PERSISTENT:
                    return
                form = self._form(message.address, remains, reason, target)
                if form is None:
                    self._drop_for_cycle()
                    return
                letter = dead_letter(
                    message,
                    remains.parts.with_fields(remains.fields + form.octets),
                    form.address,
                    environment.clock.now_ms,
                    len(form.octets),
                    is_from_default=target.is_default or message.is_from_default,
                )
                queues = environment.route(target.exchange, form.routing_keys, letter)
            except (MalformedFrame, StoreError):
                # so many headers that with these nobody can read them, or gone from the disk
                break
            if queues:
                self._deliver(letter, queues, form.history)
                return
        self.unroutable_count += 1

    def _drop_for_cycle(self) -> None:
        """Counted, and reported at the first time, as RabbitMQ does."""
        if not self.cycle_count:
            self._environment.report(
                events.DEAD_LETTER_CYCLE,
                queue=self._queue_name,
                vhost=self._environment.vhost_name,
            )
        self.cycle_count += 1

    def _deliver(self, letter: Message, queues: tuple[QueuePort, ...], history: History) -> None:
        is_published = False
        for queue in queues:
            if history.bars(queue.name):
                self._drop_for_cycle()
            elif not queue.is_deleted:  # the one that is being deleted is still bound
                is_published = True
                queue.put(letter)
        self.published_count += is_published

    # ------------------------------------------------------------- their form

    def _form(
        self, address: Address, remains: DeadMessage, reason: DeathReason, target: Target
    ) -> DeathTemplate | None:
        """None for a message that has died too often without a client (``record_death``)."""
        second = self._environment.clock.now_ms // 1000
        if second != self._forms_second:
            self._forget_forms()
            self._forms_second = second
        key = (
            remains.history,
            address,
            remains.copies,
            remains.parts.expiration,
            reason,
            target,
        )
        form = self._forms.get(key)
        if form is None:
            form = self._new_form(address, remains, reason, target)
            if form is not None:
                self._remember(key, form, len(remains.history) + len(form.octets))
        return form

    def _remember(self, key: tuple[object, ...], form: DeathTemplate, size: int) -> None:
        if size > FORM_MAX_BYTES:
            return
        if self._forms_bytes + size > FORMS_MAX_BYTES:
            self._forget_forms()
        self._forms[key] = form
        self._forms_bytes += size

    def _forget_forms(self) -> None:
        self._forms.clear()
        self._forms_bytes = 0

    def _new_form(
        self, address: Address, remains: DeadMessage, reason: DeathReason, target: Target
    ) -> DeathTemplate | None:
        shown_keys = [address.routing_key, *remains.copies]
        history = record_death(
            remains.history,
            queue=self._queue_name,
            reason=reason,
            now_ms=self._environment.clock.now_ms,
            exchange=address.exchange,
            routing_keys=shown_keys,
            expiration=remains.parts.expiration,
        )
        if history is None:
            return None
        octets = history.octets
        if target.is_default:
            headers = Table()
            headers["x-dead-reason"] = reason
            headers["x-dead-text"] = TEXTS[reason]
            headers["x-dead-queue"] = self._queue_name
            headers["x-dead-exchange"] = address.exchange
            headers["x-dead-routing-key"] = address.routing_key
            octets += encode_fields(headers)
        routing_keys = [target.routing_key] if target.routing_key is not None else shown_keys
        blind_keys = address.blind_keys if target.routing_key is None else ()
        new_address = self._address(target.exchange, routing_keys[0])
        if blind_keys:
            new_address = BlindAddress(new_address, blind_keys)
        return DeathTemplate(octets, new_address, [*routing_keys, *blind_keys], history)

    def _address(self, exchange: str, routing_key: str) -> Address:
        """The same object each time, since consumers remember what they write by it."""
        key = (exchange, routing_key)
        address = self._addresses.get(key)
        if address is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            address = self._addresses[key] = Address.of(exchange, routing_key)
        return address

    def __repr__(self) -> str:
        return f"<DeadLetters of {self._queue_name!r}: {', '.join(sorted(self._targets))}>"


def dead_letters_of(
    queue: QueuePort,
    environment: QueueEnvironment,
    arguments: QueueArguments,
    *,
    reasons: Collection[str] | None = None,
    takes_transient: bool = True,
    default_exchange: str | None = None,
) -> DeadLetters | None:
    """What a queue with these arguments does with its dead; None if they are just gone.

    The rest is not in the arguments: see ``DeadLetters``. Raises PreconditionFailed as it does.
    """
    letters = DeadLetters(
        queue,
        environment,
        exchange=arguments.dead_letter_exchange,
        routing_key=arguments.dead_letter_routing_key,
        alternate=alternate_of(arguments, queue.name),
        default_exchange=default_exchange,
        reasons=reasons,
        expiry_policy=arguments.expiry_policy,
        takes_transient=takes_transient,
    )
    return letters if letters.is_needed else None


def alternate_of(arguments: QueueArguments, queue_name: str) -> str | None:
    """The destination of the alternate binding, which ``x-dlq-auto`` sets to ``<queue>_DLQ``."""
    if arguments.alternate_binding is not None:
        return arguments.alternate_binding
    return queue_name + DLQ_SUFFIX if arguments.dlq_auto else None


def _targets(
    queue_name: str,
    exchange: str | None,
    routing_key: str | None,
    alternate: str | None,
    default_exchange: str | None,
    reasons: Collection[str] | None,
    expiry_policy: str | None,
) -> dict[str, tuple[Target, ...]]:
    """Where messages go by the reason of their death; of several targets the first that has any
    queue for one."""
    targets: dict[str, tuple[Target, ...]] = {}
    # Broker-J: an exchange is looked for before a queue of that name
    by_alternate = () if alternate is None else (Target(alternate, None), Target("", alternate))
    if exchange is not None:
        for reason in USUAL_REASONS if reasons is None else reasons:
            targets[reason] = (Target(exchange, routing_key),)
    elif alternate is not None:
        for reason in ALTERNATE_REASONS if reasons is None else reasons:
            targets[reason] = by_alternate
    elif default_exchange is not None:
        for reason in USUAL_REASONS if reasons is None else reasons:
            key = _default_key(queue_name, reason)
            targets[reason] = (Target(default_exchange, key, is_default=True),)
    if alternate is not None:
        targets["deleted"] = by_alternate
    else:
        targets.pop("deleted", None)
    if expiry_policy == "delete":
        targets.pop("expired", None)
    elif expiry_policy == "route-to-alternate" and alternate is not None:
        targets["expired"] = by_alternate
    return targets


def _default_key(queue_name: str, reason: str) -> str:
    """``<queue>.<reason>``; the end of a name that leaves no room for the reason is cut off."""
    octets = _octets(queue_name)
    room = NAME_MAX_OCTETS - len(reason) - 1
    if len(octets) > room:
        queue_name = octets[:room].decode("utf-8", "ignore")
    return f"{queue_name}.{reason}"


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _as_it_came(entry: QueueEntry) -> Message:
    return _without_delivery_count(entry) if entry.queue.shows_delivery_count else entry.message


def _without_delivery_count(entry: QueueEntry) -> Message:
    """The message as it was when the queue got it: what returned was given the header there."""
    if entry.returns == 0:
        return entry.message
    return entry.message.without_header(DELIVERY_COUNT_HEADER)
