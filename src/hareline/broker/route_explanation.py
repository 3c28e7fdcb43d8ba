"""Explanation of a route: the queues, and the bindings, filters and alternates that decide.

Called by ``management.api.exchanges``; nothing is published. The walk is that of
``broker.routing``: the same exchanges in the same way, but of each exchange every binding is tried
by itself, on an exchange of the same type that has no other. Where a match depends on all bindings
together (``x-consistent-hash``), the exchange itself is asked; where it depends on chance
(``x-random``, ``x-local-random``), each binding is possible.

Invariant: the queues that are certain are those that ``Routing.route`` gives for the same message,
as long as nothing is declared or bound meanwhile; with chance in it, those that it may give are
certain or possible.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from hareline.broker.delayed_exchange import DelayedExchange, inner_type_of, is_delayed
from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.bindings import Binding
from hareline.broker.exchanges.consistent_hash import ConsistentHashExchange
from hareline.broker.exchanges.default import DefaultExchange
from hareline.broker.exchanges.exchange import Destination, Exchange
from hareline.broker.exchanges.headers import comparable
from hareline.broker.exchanges.jms_topic import JmsTopicExchange
from hareline.broker.exchanges.random_choice import RandomExchange
from hareline.broker.filtered_exchange import NO_LOCAL, FilteredDestination, filtered
from hareline.broker.local_random_exchange import LocalRandomExchange
from hareline.broker.vhost import VirtualHost
from hareline.message import Message
from hareline.queues.policies.delay import due_of, not_delayed
from hareline.queues.queue import Queue

Outcome = Literal["taken", "possible", "not_chosen", "filtered", "no_match", "replaced"]

#: Routing keys that are tried on bindings between two pauses; one costs 2 to 50 us.
SHARE: Final = 64
#: Bindings that are listed for one exchange; more are only counted.
LISTED_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """Effect of one binding on the message, and its reason."""

    binding: Binding
    outcome: Outcome
    reason: str


@dataclass(slots=True)
class Step:
    """One exchange on the way.

    ``reached_from``: the exchange before it, or None for the first. ``by_alternate``: as its
    alternate. ``is_certain``: False if only chance leads here. ``counts`` has all bindings by their
    outcome, ``verdicts`` up to ``LISTED_MAX`` of them, those that take the message first.
    ``alternate``: where the message goes on because no binding took it, or may not take it.
    """

    exchange: str
    type_name: str
    reached_from: str | None
    by_alternate: bool
    is_certain: bool
    routing_keys: tuple[str, ...]
    verdicts: list[Verdict] = field(default_factory=list)
    counts: dict[Outcome, int] = field(default_factory=dict)
    alternate: str | None = None
    alternate_reason: str = ""
    archive: str | None = None

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.outcome] = self.counts.get(verdict.outcome, 0) + 1
        if len(self.verdicts) < LISTED_MAX:
            self.verdicts.append(verdict)
        elif verdict.outcome in ("taken", "possible"):
            for place, listed in enumerate(self.verdicts):
                if listed.outcome not in ("taken", "possible"):
                    self.verdicts[place] = verdict
                    break


@dataclass(slots=True)
class RouteExplanation:
    """``queues`` get the message, ``possible`` ones may; ``archives`` are streams that record it.

    ``delay_ms``: how long a delayed exchange keeps it before it goes this way; 0 for not at all.
    """

    queues: list[str] = field(default_factory=list)
    possible: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Visit:
    exchange: Exchange
    reached_from: str | None
    by_alternate: bool
    is_certain: bool


def explain(
    vhost: VirtualHost, exchange: Exchange, routing_keys: Sequence[str], message: Message
) -> Generator[None, None, RouteExplanation]:
    """The explanation, when the generator ends; it yields where others may have their turn.

    ``routing_keys``: that of the publish, then those of its CC and BCC headers. ``message`` has no
    BCC header, as the broker takes it off before it routes.
    """
    walk = _Walk(vhost, list(routing_keys), message)
    yield from walk.run(exchange)
    return walk.result()


class _Walk:
    """``_certain`` and ``_chance`` are what is still to be visited; the certain come first, so

    that an exchange which both lead to is visited once, as a certain one."""

    def __init__(self, vhost: VirtualHost, routing_keys: list[str], message: Message) -> None:
        self._vhost = vhost
        self._keys = routing_keys
        self._message = message
        self._certain: list[_Visit] = []
        self._chance: list[_Visit] = []
        self._visited: set[str] = set()
        self._queues: dict[str, bool] = {}  # name -> certain
        self._explanation = RouteExplanation()
        self._tried = 0

    def run(self, first: Exchange) -> Generator[None, None, None]:
        if isinstance(first, DelayedExchange) and is_delayed(self._message):
            arrival_ms = self._message.arrival_ms
            due_ms, schedule = due_of(self._message, arrival_ms)
            self._explanation.delay_ms = max(1, due_ms - arrival_ms)
            self._message = not_delayed(
                self._message if schedule is None else schedule.copy_of(self._message)
            )
        self._go(_Visit(first, None, False, True))
        while self._certain or self._chance:
            visit = (self._certain or self._chance).pop(0)
            if visit.exchange.name not in self._visited:
                self._visited.add(visit.exchange.name)
                yield from self._visit(visit)

    def result(self) -> RouteExplanation:
        explanation = self._explanation
        explanation.queues = [name for name, certain in self._queues.items() if certain]
        explanation.possible = [name for name, certain in self._queues.items() if not certain]
        return explanation

    def _go(self, visit: _Visit) -> None:
        (self._certain if visit.is_certain else self._chance).append(visit)

    def _reach(self, destination: Destination, via: _Visit, *, is_certain: bool) -> None:
        if isinstance(destination, Queue):
            self._queues[destination.name] = self._queues.get(destination.name, False) or is_certain
        elif isinstance(destination, Exchange):
            self._go(_Visit(destination, via.exchange.name, False, is_certain))

    def _visit(self, visit: _Visit) -> Generator[None, None, None]:
        exchange = visit.exchange
        keys = self._keys if exchange.matches_every_key else self._keys[:1]
        step = Step(
            exchange.name,
            exchange.type_name,
            visit.reached_from,
            visit.by_alternate,
            visit.is_certain,
            tuple(keys),
        )
        self._explanation.steps.append(step)
        archive = getattr(exchange.archive, "name", None)
        if archive is not None:
            step.archive = archive
            if archive not in self._explanation.archives:
                self._explanation.archives.append(archive)
        if isinstance(exchange, DefaultExchange):
            yield from self._match_default(visit, step, keys)
        else:
            yield from self._match(visit, step, keys)
        self._use_alternate(visit, step)

    def _match_default(
        self, visit: _Visit, step: Step, keys: Sequence[str]
    ) -> Generator[None, None, None]:
        for key in keys:
            yield from self._count_try()
            binding = Binding.of("", "queue", key, key, {})
            bound = list(visit.exchange.match(key, self._message))
            for destination in bound:
                self._reach(destination, visit, is_certain=visit.is_certain)
                step.add(Verdict(binding, "taken", f"the queue is named '{key}', as the key"))
            if not bound:
                step.add(Verdict(binding, "no_match", f"there is no queue named '{key}'"))

    def _match(self, visit: _Visit, step: Step, keys: Sequence[str]) -> Generator[None, None, None]:
        exchange = visit.exchange
        bindings = self._vhost.bindings.from_source(exchange.name)
        judge = _judge_of(exchange, bindings, keys, self._message)
        for binding in bindings:
            destination = self._destination(binding)
            if destination is None:
                continue  # deleted since the list was made
            bound = filtered(destination, binding.arguments)
            outcome, reason = yield from judge.judge(binding, bound, self._count_try)
            if outcome in ("taken", "possible") and isinstance(bound, FilteredDestination):
                if bound.takes(self._message):
                    reason = f"{reason}, and {_filter_text(bound)}"
                else:
                    outcome, reason = "filtered", f"{reason}, but not {_filter_text(bound)}"
            step.add(Verdict(binding, outcome, reason))
            if outcome in ("taken", "possible"):
                is_certain = visit.is_certain and outcome == "taken"
                self._reach(destination, visit, is_certain=is_certain)

    def _count_try(self) -> Generator[None, None, None]:
        """Yield if the share is used up; before each routing key that is tried on a binding."""
        self._tried += 1
        if self._tried % SHARE == 0:
            yield

    def _destination(self, binding: Binding) -> Queue | Exchange | None:
        if binding.kind == "queue":
            return self._vhost.queues.get(binding.destination)
        return self._vhost.exchanges.get(binding.destination)

    def _use_alternate(self, visit: _Visit, step: Step) -> None:
        exchange = visit.exchange
        counts = step.counts
        if exchange.alternate_exchange is None or "taken" in counts:
            return
        is_certain = visit.is_certain and "possible" not in counts
        if "possible" in counts and "filtered" not in counts:
            return  # whatever is chosen takes it
        step.alternate = exchange.alternate_exchange
        alternate = self._vhost.exchanges.get(exchange.alternate_exchange)
        if alternate is not None:
            step.alternate_reason = "no binding takes the message, so the alternate gets it"
            self._go(_Visit(alternate, exchange.name, True, is_certain))
            return
        queue = self._vhost.routing.queue_by_name(exchange.alternate_queue or "")
        if queue is None:
            step.alternate_reason = "no binding takes the message, and the alternate does not exist"
        else:
            step.alternate_reason = "no binding takes the message, so its queue gets it"
            self._reach(queue, visit, is_certain=is_certain)


# ------------------------------------------------------------------------- what a binding decides

#: Called before each try; yields where others may have their turn.
CountTry = Callable[[], Generator[None, None, None]]
Judgement = Generator[None, None, tuple[Outcome, str]]


class _SingleBindings:
    """Tries each binding on an exchange of the same type that has no other."""

    def __init__(
        self, exchange: Exchange, bindings: Sequence[Binding], keys: Sequence[str], message: Message
    ) -> None:
        type_name = _type_of(exchange)
        self._type_name = type_name
        self._probe = create_exchange(type_name, exchange.name, arguments=exchange.arguments)
        self._keys = keys
        self._message = message
        self._replaced = _replaced(bindings) if type_name == JmsTopicExchange.type_name else set()

    def judge(self, binding: Binding, bound: Destination, count_try: CountTry) -> Judgement:
        if binding in self._replaced and not isinstance(bound, FilteredDestination):
            yield from count_try()
            return "replaced", "a later binding with this key has another condition, which counts"
        probe = self._probe
        probe.bind(bound, binding.routing_key, binding.arguments)
        matching: str | None = None
        for key in self._keys:
            yield from count_try()
            if list(probe.match(key, self._message)):
                matching = key
                break
        probe.unbind(bound, binding.routing_key, binding.arguments)
        if matching is not None:
            return "taken", _why_matched(self._type_name, binding, matching)
        return "no_match", _why_not(self._type_name, binding, self._keys, self._message)


class _ByHash:
    """Asks the exchange itself, since each binding has the share that the others leave it."""

    def __init__(
        self,
        exchange: Exchange,
        _bindings: Sequence[Binding],
        keys: Sequence[str],
        message: Message,
    ) -> None:
        chosen = [each for key in keys[:1] for each in exchange.match(key, message)]
        self._chosen = {(_kind_of(each), each.name, _is_filtered(each)) for each in chosen}

    def judge(self, binding: Binding, bound: Destination, count_try: CountTry) -> Judgement:
        yield from count_try()
        if (binding.kind, binding.destination, _is_filtered(bound)) in self._chosen:
            return "taken", "the hash of the message falls into its share"
        return "not_chosen", "the hash of the message falls into another's share"


class _ByChance:
    def __init__(
        self,
        _exchange: Exchange,
        bindings: Sequence[Binding],
        _keys: Sequence[str],
        _message: Message,
    ) -> None:
        self._count = len(bindings)

    def judge(self, _binding: Binding, _bound: Destination, count_try: CountTry) -> Judgement:
        yield from count_try()
        if self._count == 1:
            return "taken", "it is the only binding"
        return "possible", f"chosen at random, one time in {self._count}"


def _judge_of(
    exchange: Exchange, bindings: Sequence[Binding], keys: Sequence[str], message: Message
) -> _SingleBindings | _ByHash | _ByChance:
    type_name = _type_of(exchange)
    if type_name == ConsistentHashExchange.type_name:
        return _ByHash(exchange, bindings, keys, message)
    if type_name in (RandomExchange.type_name, LocalRandomExchange.type_name):
        return _ByChance(exchange, bindings, keys, message)
    return _SingleBindings(exchange, bindings, keys, message)


def _type_of(exchange: Exchange) -> str:
    """The type that an exchange routes by."""
    if isinstance(exchange, DelayedExchange):
        return inner_type_of(exchange.arguments)
    return exchange.type_name


def _kind_of(destination: Destination) -> str:
    if isinstance(destination, FilteredDestination):
        destination = destination.destination
    return "exchange" if isinstance(destination, Exchange) else "queue"


def _is_filtered(destination: Destination) -> bool:
    return isinstance(destination, FilteredDestination)


def _replaced(bindings: Sequence[Binding]) -> set[Binding]:
    """Those whose destination has a later binding with the same key."""
    last: dict[tuple[str, str, str], Binding] = {}
    replaced: set[Binding] = set()
    for binding in bindings:
        place = (binding.kind, binding.destination, binding.routing_key)
        if place in last:
            replaced.add(last[place])
        last[place] = binding
    return replaced


# -------------------------------------------------------------------------------- reasons, as text


def _filter_text(bound: FilteredDestination) -> str:
    parts = []
    if bound.selector is not None:
        parts.append(f"its selector {bound.selector.text}")
    if bound.is_no_local:
        parts.append(f"{NO_LOCAL} (refuses only what its own connection publishes)")
    return " and ".join(parts)


def _why_matched(type_name: str, binding: Binding, key: str) -> str:
    if type_name == "direct":
        return f"its key '{binding.routing_key}' equals the routing key"
    if type_name == "topic":
        return f"its pattern '{binding.routing_key}' matches '{key}'"
    if type_name == "fanout":
        return "a fanout exchange sends to every binding"
    if type_name == "headers":
        mode = binding.arguments.get("x-match", "all")
        return f"its headers match (x-match {mode})"
    return "its condition is true"


def _why_not(type_name: str, binding: Binding, keys: Sequence[str], message: Message) -> str:
    shown = " or ".join(f"'{key}'" for key in keys[:3])
    if type_name == "direct":
        return f"its key '{binding.routing_key}' is not {shown}"
    if type_name == "topic":
        return f"its pattern '{binding.routing_key}' does not match {shown}"
    if type_name == "headers":
        return _why_headers_differ(binding.arguments, message.headers)
    return "its condition is not true"


def _why_headers_differ(arguments: Mapping[str, object], headers: Mapping[str, object]) -> str:
    mode = str(arguments.get("x-match", "all"))
    missing = []
    for name, wanted in arguments.items():
        if name == "x-match" or (name.startswith("x-") and not mode.endswith("-with-x")):
            continue
        if name not in headers:
            missing.append(f"'{name}' is not there")
        elif wanted is not None and comparable(headers[name]) != comparable(wanted):
            missing.append(f"'{name}' has another value or type")
    if not missing:
        return f"it has no condition (x-match {mode})"
    return f"x-match {mode}: header " + ", ".join(missing[:5])
