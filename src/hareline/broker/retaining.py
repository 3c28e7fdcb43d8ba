"""Messages that an exchange retains (``x-retain``), and how a queue gets them with a new binding.

The exchange has a queue of its own, as a delayed one has: ``broker.declarations`` makes it, by
``broker.making``, of the arguments that ``retention_of`` returns. ``broker.routing`` puts it beside
the archives of a route. ``broker.vhost`` gives ``HandOvers`` each new binding of a queue; what the
binding matches is copied first, a little at once and the rest in shares of the next turns.

Invariant: a binding is made in the callback of the loop that finds nothing more to copy: what was
published before was retained, what comes later is live. Until then it is in no table, and who asked
for it waits (``VirtualHost.when_settled``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from hareline import events
from hareline.broker.delayed_queues import routing_keys_of
from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.bindings import Binding
from hareline.broker.exchanges.exchange import Arguments, Exchange
from hareline.broker.filtered_exchange import FilteredDestination, filtered
from hareline.broker.routing import Routing
from hareline.broker.unbinding import MATCHED_ALONE
from hareline.errors import AmqpError, PreconditionFailed, StoreError
from hareline.events import Report
from hareline.later import Later
from hareline.message import Message
from hareline.queues.core.enqueueing import archive_message
from hareline.queues.core.entry import READY, QueueEntry
from hareline.queues.core.kinds import TAKEN
from hareline.queues.queue import Queue
from hareline.turn import Turn

RETAIN: Final = "x-retain"
LAST: Final = "last"
PREFIX: Final = "amq.retained."  # reserved, so no client has a queue of such a name
KEYS_MAX: Final = 10_000  # whose last message is retained
AT_ONCE: Final = 256  # messages that are looked at by the bind itself, some 2 ms
AT_ONCE_BYTES: Final = 1_048_576
PER_ITEM: Final = 16

_DIED_IN: Final = "x-last-death-queue"
_RULE: Final = re.compile(rf"{LAST}|(count|bytes|age):([1-9][0-9]{{0,10}})")
_LIMITS: Final = {"count": "x-max-length", "bytes": "x-max-length-bytes", "age": "x-message-ttl"}

OnSettled = Callable[[StoreError | None], None]


def retained_queue_name(exchange_name: str) -> str:
    """The name of the exchange's own queue; it may be longer than 255 octets."""
    return PREFIX + exchange_name


def retention_of(type_name: str, arguments: Arguments) -> dict[str, object] | None:
    """Arguments of a queue that keeps what such an exchange retains; None: it retains nothing."""
    value = arguments.get(RETAIN)
    rule = _RULE.fullmatch(value) if isinstance(value, str) else None
    if rule is None or type_name not in MATCHED_ALONE:
        return None
    limit, number = rule.groups()
    return {"x-max-length": KEYS_MAX} if limit is None else {_LIMITS[limit]: int(number)}


def check_retention(type_name: str, arguments: Arguments, name: str, vhost_name: str) -> None:
    """Raise PreconditionFailed for an ``x-retain`` that such an exchange cannot have."""
    if RETAIN not in arguments or retention_of(type_name, arguments) is not None:
        return
    problem = "expected last, count:N, bytes:N or age:MS, a number of up to 11 digits"
    if type_name not in MATCHED_ALONE:
        problem = f"an exchange of type '{type_name}' retains nothing"
    raise PreconditionFailed(
        f"invalid arg '{RETAIN}' for exchange '{name}' in vhost '{vhost_name}': {problem}"
    )


class HandOver:
    """Copies what one new binding matches from the exchange's own queue to the bound one.

    ``bind`` makes the binding, and ``waiting`` are called then; both by ``HandOvers``. Raises
    PreconditionFailed for arguments that the exchange refuses.
    """

    __slots__ = (
        "_entries",
        "_live_from",
        "_next_offset",
        "_probe",
        "_routing",
        "_source",
        "bind",
        "binding",
        "destination",
        "exchange",
        "waiting",
    )

    def __init__(
        self,
        exchange: Exchange,
        source: Queue,
        destination: Queue,
        binding: Binding,
        bind: Callable[[], None],
        routing: Routing,
    ) -> None:
        self.exchange = exchange
        self.destination = destination
        self.binding = binding
        self.bind = bind
        self.waiting: list[OnSettled] = []
        self._source = source
        self._routing = routing
        self._probe = create_exchange(
            exchange.type_name, exchange.name, arguments=exchange.arguments
        )
        self._probe.bind(
            filtered(destination, binding.arguments), binding.routing_key, binding.arguments
        )
        self._live_from = source.next_offset
        self._next_offset = 0
        self._entries = self._walk()

    def copy(self, count: int) -> bool:
        """Look at so many messages; True at the end, also if an end of the binding is gone."""
        octets = 0
        for entry in self._entries if self.is_wanted else ():
            octets += entry.message.size
            self._copy(entry)
            count -= 1
            if count <= 0 or octets >= AT_ONCE_BYTES:
                return False
        return True

    @property
    def is_wanted(self) -> bool:
        """True while there is an exchange and a queue to bind."""
        return not self.destination.is_deleted and self._routing.has(self.exchange)

    @property
    def is_behind(self) -> bool:
        """True while messages are left that came behind the bind."""
        return self._next_offset > self._live_from

    def _walk(self) -> Iterator[QueueEntry]:
        """All that is retained, in order, and what comes meanwhile; ends when there is no more."""
        order, start = self._source.order, -1
        while start < self._next_offset:
            start = self._next_offset
            for share in order.walk(start - 1):
                for entry in share:
                    self._next_offset = entry.offset + 1
                    if entry.state == READY:
                        yield entry

    def _copy(self, entry: QueueEntry) -> None:
        """Put a copy into the queue if the binding matches; what cannot be read is left out."""
        try:
            twin = entry.message.replace()
            is_matched = self._matches(twin, is_live=entry.offset >= self._live_from)
        except AmqpError:
            return
        if is_matched:
            twin.forget_properties()
            environment = self.destination.environment
            assert environment is not None, "a queue of a virtual host has an environment"
            twin.arrival_ms = environment.clock.now_ms
            if self.destination.put(twin) == TAKEN:
                archive_message(twin, (self.destination,))

    def _matches(self, message: Message, *, is_live: bool) -> bool:
        """False also if it ``is_live`` and was in the queue before, or is by another binding."""
        keys = routing_keys_of(message)
        destination = self.destination
        if is_live and (
            message.header(_DIED_IN) == destination.name  # else it might go round for ever
            or destination in self._routing.route(self.exchange, keys, message)[0]
        ):
            return False
        probe = self._probe
        return any(
            not isinstance(bound, FilteredDestination) or bound.takes(message)
            for key in (keys if probe.matches_every_key else keys[:1])
            for bound in probe.match(key, message)
        )


class HandOvers:
    """The bindings of one virtual host that wait until what is retained for them is copied.

    ``check_new`` raises what forbids a binding more. Publishers are slowed only while messages are
    copied that came behind the bind, since there might always be more of them.
    """

    __slots__ = (
        "_behind",
        "_check_new",
        "_later",
        "_pending",
        "_report",
        "_routing",
        "_vhost_name",
    )

    def __init__(
        self,
        vhost_name: str,
        turn: Turn,
        routing: Routing,
        check_new: Callable[[Binding], None],
        report: Report,
    ) -> None:
        self._vhost_name = vhost_name
        self._later: Later[HandOver] = Later(turn, self._go_on, slows_publishers=False)
        self._behind: Later[HandOver] = Later(turn, self._go_on, slows_publishers=True)
        self._routing = routing
        self._check_new = check_new
        self._report = report
        self._pending: dict[Binding, HandOver] = {}

    def bind(
        self,
        exchange: Exchange,
        source: Queue,
        destination: Queue,
        binding: Binding,
        bind: Callable[[], None],
    ) -> None:
        """Copy what ``source``, the exchange's own queue, has for a binding, and then ``bind``.

        Raises what forbids the binding.
        """
        if binding in self._pending:
            return
        self._check_new(binding)
        hand_over = HandOver(exchange, source, destination, binding, bind, self._routing)
        if hand_over.copy(AT_ONCE):
            bind()
        else:
            self._pending[binding] = hand_over
            self._later.add(hand_over)

    def when_over(self, names: tuple[str, ...], callback: OnSettled) -> bool:
        """Call back when a binding of one of these queues, or any, is made or cannot be.

        False if none is waited for.
        """
        for hand_over in self._pending.values():
            if not names or hand_over.binding.destination in names:
                hand_over.waiting.append(callback)
                return True
        return False

    def __len__(self) -> int:
        """Number of bindings that wait."""
        return len(self._pending)

    def _go_on(self, hand_over: HandOver) -> None:
        if hand_over.copy(PER_ITEM):
            self._end(hand_over)
        else:
            (self._behind if hand_over.is_behind else self._later).add(hand_over)

    def _end(self, hand_over: HandOver) -> None:
        binding = hand_over.binding
        del self._pending[binding]
        error: StoreError | None = None
        if hand_over.is_wanted:
            try:
                hand_over.bind()
            except AmqpError as reason:  # a limit is reached by now, or the disk full
                error = StoreError(reason.explanation)
                self._report(
                    events.DEFINITION_IMPOSSIBLE,
                    what=f"binding of queue '{binding.destination}' to exchange '{binding.source}'",
                    problem=reason.explanation,
                    vhost=self._vhost_name,
                )
        for callback in hand_over.waiting:
            callback(error)
