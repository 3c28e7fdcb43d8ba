"""Keys of policies: their values, what they make of a queue's arguments, and who decided each.

The row of an argument (``queues.declare.table``) says which key sets it, and whose value counts;
no argument of a queue loosens what an operator policy sets. RabbitMQ's keys without a meaning for
one node are checked where RabbitMQ checks them, and do nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from hareline.administration.checks import invalid, is_unicode, term
from hareline.broker.auto_creation import QUEUES_KEY, TOPICS_KEY
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.live_arguments import LiveArguments
from hareline.broker.making import QUORUM_DELIVERY_LIMIT, QueueDefaults
from hareline.queues.declare import readers as read
from hareline.queues.declare.arguments import overlaid
from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    BY_NAME,
    DEFAULT_OVERFLOW,
    DEFAULT_QUEUE_TYPE,
    OVERFLOWS,
    ROWS,
    Argument,
    PolicyKey,
    QueueArguments,
)
from hareline.queues.policies.overflow import RESUME_PERCENT
from hareline.queues.queue import Queue
from hareline.storage.administration import PolicyRecord

#: The flag of a policy that lets further ones, of lower priority, set the keys that it does not.
MERGE: Final = "merge"
_STREAM: Final = "stream"  # its limits are its retention, whatever its publishers do
_BOUNDED_BESIDE: Final = tuple(row for row in ROWS if row.bounded_by)
_ORDERINGS: Final = tuple(row for row in ROWS if row.is_ordering)
_BOUND: Final = tuple(word for word, rule in OVERFLOWS.items() if rule.is_bound)


def _anything(value: object, _type: str) -> None:
    if not isinstance(value, str | int | float | list | dict):
        raise InvalidValue("")


#: RabbitMQ's keys that set no argument of queues.
_RABBITMQ: Final[Mapping[str, PolicyKey]] = {
    ALTERNATE_EXCHANGE: PolicyKey("alternate exchange name", read.text),
    "target-group-size": PolicyKey("qq target count value", read.at_least_one, "operator"),
    "federation-upstream": PolicyKey("federation upstream", read.text),
    "federation-upstream-set": PolicyKey("federation upstream set", read.text),
    "federation-upstream-pattern": PolicyKey("federation upstream pattern", read.text),
}
#: Keys in definitions of RabbitMQ 3.
_OLD: Final[Mapping[str, PolicyKey]] = {
    "max-segment-size": PolicyKey("segment size", read.natural),
    "ha-mode": PolicyKey("ha-mode", read.text),
    "ha-params": PolicyKey("ha-params", _anything),
    "ha-sync-mode": PolicyKey("ha-sync-mode", read.text),
    "ha-sync-batch-size": PolicyKey("ha-sync-batch-size", read.at_least_one),
    "ha-promote-on-shutdown": PolicyKey("ha-promote-on-shutdown", read.text),
    "ha-promote-on-failure": PolicyKey("ha-promote-on-failure", read.text),
}
_ARGUMENTS: Final[Mapping[str, PolicyKey]] = {
    row.key: replace(
        row.policy or PolicyKey(row.key, row.reader, is_ours=True),
        argument=row if row.live else None,
    )
    for row in ROWS
    if row.live or row.policy is not None
}
#: Keys of ours that set no argument of queues.
_OURS: Final[Mapping[str, PolicyKey]] = {
    MERGE: PolicyKey("flag for merging", read.flag, "operator", is_ours=True),
    QUEUES_KEY: PolicyKey("flag for making queues", read.flag, is_ours=True),
    TOPICS_KEY: PolicyKey("flag for virtual topics", read.flag, is_ours=True),
}
#: All keys of policies by name.
KEYS: Final[Mapping[str, PolicyKey]] = {**_RABBITMQ, **_OLD, **_ARGUMENTS, **_OURS}
#: Keys that RabbitMQ 4 has too; it refuses a policy with any other.
RABBITMQ_KEYS: Final = frozenset(
    name for name, key in KEYS.items() if name not in _OLD and not key.is_ours
)
#: Keys that are taken and do nothing, for reports of imports.
WITHOUT_EFFECT: Final = frozenset(
    name
    for name, key in KEYS.items()
    if key.argument is None and name != ALTERNATE_EXCHANGE and name not in _OURS
)


def check_definition(definition: object, *, is_operator: bool) -> dict[str, object]:
    """The definition of a policy. Raises AdministrationError with RabbitMQ's text."""
    if not isinstance(definition, Mapping):
        raise invalid(f"parse error while reading policy: {term(definition)}")
    if not definition:
        raise invalid("no policy provided")
    unknown = {
        name: value
        for name, value in definition.items()
        if name not in KEYS or (is_operator and not KEYS[name].is_operator)
    }
    if unknown:
        raise invalid(f"{term(unknown)} are not recognised policy settings")
    for name, value in definition.items():
        is_unencodable = isinstance(value, str) and not is_unicode(value)
        if is_unencodable or not KEYS[name].is_valid(value):
            raise invalid(f"{term(value)} is not a valid {KEYS[name].what}")
    orderings = [name for name in definition if KEYS[name].argument in _ORDERINGS]
    if len(orderings) > 1:
        raise invalid(f"'{orderings[0]}' and '{orderings[1]}': a queue has one ordering")
    return dict(definition)


def smaller(one: object, other: object) -> object:
    """The value of a limit that counts, of two; a negative one is no limit."""
    if not isinstance(one, int) or one < 0:
        return other
    return one if not isinstance(other, int) or other < 0 else min(one, other)


@dataclass(frozen=True, slots=True)
class Applied:
    """The policies that concern an object, of each kind the first one first.

    Those after it are there only by ``MERGE``. ``definition``: what all come to, before the
    object's own arguments.
    """

    policies: tuple[PolicyRecord, ...] = ()
    operator_policies: tuple[PolicyRecord, ...] = ()
    definition: Mapping[str, Any] = field(default_factory=dict)

    @property
    def policy(self) -> PolicyRecord | None:
        return next(iter(self.policies), None)

    @property
    def operator_policy(self) -> PolicyRecord | None:
        return next(iter(self.operator_policies), None)

    @property
    def bounds(self) -> Collection[str]:
        """Keys that operator policies set."""
        return merged(self.operator_policies).keys()


def merged(records: Sequence[PolicyRecord]) -> dict[str, Any]:
    """The definitions of policies, the first one of which counts for a key."""
    definition: dict[str, Any] = {}
    for record in reversed(records):
        definition.update(record.definition)
    definition.pop(MERGE, None)
    return definition


NONE_APPLIED: Final = Applied()


# ---------------------------------------------------------------- what they make of the arguments


def overlaid_by_policy(
    own: Mapping[str, object], definition: Mapping[str, Any], bounds: Collection[str] = ()
) -> Mapping[str, object]:
    """The arguments of a queue with what a policy adds to them, or bounds.

    ``bounds``: those keys of the definition that an operator policy sets.
    """
    result = dict(own)
    # of two orderings that of an operator policy counts
    for name, value in sorted(definition.items(), key=lambda item: item[0] not in bounds):
        key = KEYS[name]
        argument = key.argument
        if argument is None:
            continue
        if not argument.given_in(own):
            if not (argument.is_ordering and any(row.given_in(result) for row in _ORDERINGS)):
                result[argument.name] = value
        elif key.is_limit:
            mine = _value(argument, own)
            if smaller(mine, value) != mine:
                result = overlaid(result, {argument.name: value})
    for name in definition:  # what is of no use without another one
        argument = KEYS[name].argument
        if argument is None or argument.needs is None or argument.name in own:
            continue
        if not BY_FIELD[argument.needs[0]].given_in(result):
            result.pop(argument.name, None)
    # more would not be valid
    result = overlaid(result, _lowered(result, "flow_resume_capacity_bytes", "max_length_bytes"))
    bounded = {row.field for row in _BOUNDED_BESIDE if any(key in bounds for key in row.bounded_by)}
    if "min_message_ttl_ms" in bounded:
        result = overlaid(result, _lowered(result, "min_message_ttl_ms", "message_ttl_ms"))
    if "expires_if_empty" in bounded:
        result = overlaid(result, {BY_FIELD["expires_if_empty"].name: None})
    if "overflow" in bounded and own.get("x-queue-type") != _STREAM and _is_unbounded(result):
        overflow = definition.get("overflow", DEFAULT_OVERFLOW)
        result = overlaid(result, {BY_FIELD["overflow"].name: overflow})
    return result


def _is_unbounded(arguments: Mapping[str, object]) -> bool:
    """True if limits would limit nothing, by the overflow policy of these arguments."""
    overflow = BY_FIELD["overflow"]
    if overflow.given_in(arguments):
        return _value(overflow, arguments) not in _BOUND
    # without a policy, limits by Qpid's names alone bound nothing
    return not any(BY_FIELD[each].name in arguments for each in ("max_length", "max_length_bytes"))


def _lowered(arguments: Mapping[str, object], field: str, limit: str) -> Mapping[str, object]:
    """The change that brings an argument down to a limit, where both are set."""
    highest = _value(BY_FIELD[limit], arguments)
    value = _value(BY_FIELD[field], arguments)
    is_higher = isinstance(highest, int) and isinstance(value, int) and value > highest
    return {BY_FIELD[field].name: highest} if is_higher else {}


def _value(argument: Argument, arguments: Mapping[str, object]) -> object:
    """The value that these arguments set; None: nothing, no limit, or not valid."""
    given = argument.given_in(arguments)
    if not given:
        return None
    value = arguments[given[0].name]
    try:
        return given[0].reader(value, type_name(value))
    except InvalidValue:
        return None


# ---------------------------------------------------------------- origins of the arguments in force


Origin = Literal[
    "queue_argument", "operator_change", "policy", "operator_policy", "vhost_default", "default"
]


class Source(NamedTuple):
    """Something that sets an argument. ``policy``: its name, else None.

    ``value`` None: an operator has taken the argument away.
    """

    origin: Origin
    policy: str | None
    value: object


class Overridden(NamedTuple):
    """A source that does not count, and why: a sentence without its full stop."""

    source: Source
    because: str


class Decision(NamedTuple):
    """An argument in force: the source that counts, and the others."""

    name: str
    source: Source
    has_effect: bool
    overridden: tuple[Overridden, ...] = ()


def decisions(live: LiveArguments, queue: Queue, applied: Applied) -> Iterator[Decision]:
    """Every argument of a queue: those that something was said of, then defaults in force."""
    in_force = live.in_force(queue)
    effective = in_force.raw
    defaults = {
        name: Source(origin, None, value)
        for name, origin, value in _defaults_in_force(in_force, live.defaults)
    }
    for argument in ARGUMENTS:
        sources = list(_sources(argument, queue, live.changes_of(queue), applied))
        names = argument.given_in(effective)
        has_effect = argument.field is not None
        if names:
            name = names[0].name
            source, overridden = _decided(argument, name, effective[name], sources, applied)
            yield Decision(argument.name, source, has_effect, overridden)
        elif sources:
            bound = _bound_beside(argument, applied) if sources[0].value is not None else None
            overridden = _overridden(argument, sources, bound)
            source = defaults.pop(argument.name, bound or Source("default", None, None))
            yield Decision(argument.name, source, has_effect, overridden)
    for name, value in queue.arguments.items():
        if name not in BY_NAME:
            yield Decision(name, Source("queue_argument", None, value), False)
    for name, source in defaults.items():
        if not BY_NAME[name].given_in(effective):
            yield Decision(name, source, True)


def _sources(
    argument: Argument, queue: Queue, changes: Mapping[str, object | None], applied: Applied
) -> Iterator[Source]:
    """All that was said of an argument, the strongest first."""
    for name in argument.names:
        if name in changes:
            yield Source("operator_change", None, changes[name])
    for alias in argument.given_in(queue.arguments):
        yield Source("queue_argument", None, queue.arguments[alias.name])
    if not argument.live:
        return
    kinds: tuple[tuple[Origin, Sequence[PolicyRecord]], ...] = (
        ("operator_policy", applied.operator_policies),
        ("policy", applied.policies),
    )
    for origin, records in kinds:
        for record in records:
            if argument.key in record.definition:
                yield Source(origin, record.name, record.definition[argument.key])


def _decided(
    argument: Argument, name: str, value: object, sources: list[Source], applied: Applied
) -> tuple[Source, tuple[Overridden, ...]]:
    """The source of a value in force, and the others. ``name``: by which it is in force."""
    now = _read(argument, name, value)
    own = next((each for each in sources if not _is_policy(each)), None)
    winner = next(
        (
            each
            for each in sources
            if each.value is not None
            and _means(argument, each, now)
            and (each is own or _is_policy(each))
        ),
        None,
    )
    if winner is None:
        winner = _bound_beside(argument, applied)
    overridden = _overridden(argument, [each for each in sources if each is not winner], winner)
    if winner is None:  # what an earlier policy said, and the queue cannot leave now
        winner = Source("policy", None, value)
    return winner._replace(value=value), overridden


def _is_policy(source: Source) -> bool:
    return source.origin in ("policy", "operator_policy")


def _bound_beside(argument: Argument, applied: Applied) -> Source | None:
    """The policy whose limit bounds an argument which it does not name; None if none does."""
    for record in applied.operator_policies:
        if any(key in record.definition for key in argument.bounded_by):
            return Source("operator_policy", record.name, None)
    return None


def _overridden(
    argument: Argument, sources: list[Source], winner: Source | None
) -> tuple[Overridden, ...]:
    return tuple(Overridden(each, _why_not(argument, each, winner)) for each in sources)


def _why_not(argument: Argument, source: Source, winner: Source | None) -> str:
    if source.value is None:
        return "it takes the argument away"
    if winner is not None and winner.value is None:
        return "no argument gets around the limit that this policy sets"
    if winner is None:
        if argument.needs is not None and _is_policy(source):
            return f"it needs {BY_FIELD[argument.needs[0]].name}, which is not set"
        return "an operator took the argument away, or the queue cannot follow it now"
    if winner.origin == "operator_change" and source.origin == "queue_argument":
        return "an operator has changed it"
    if argument.live and KEYS[argument.key].is_limit:
        if _means(argument, source, _read(argument, argument.name, winner.value)):
            return "it says the same"
        if smaller(source.value, winner.value) == winner.value:
            return "of two limits the smaller one counts"
    if not _is_policy(winner):
        return "what the queue itself says beats a policy"
    if winner.origin == "operator_policy" and source.origin == "policy":
        return "an operator policy beats a policy"
    if winner.origin == source.origin:
        return "a policy of a higher priority beats it"
    return "the queue cannot follow it now"


def _means(argument: Argument, source: Source, value: object) -> bool:
    """True if a source stands for this value, whatever name it came under."""
    return any(_read(argument, name, source.value) == value for name in argument.names)


def _read(argument: Argument, name: str, value: object) -> object:
    """A value as the reader of this name understands it; itself where it does not."""
    readers = {alias.name: alias.reader for alias in argument.aliases}
    try:
        return readers.get(name, argument.reader)(value, type_name(value))
    except InvalidValue:
        return value


def _defaults_in_force(
    in_force: QueueArguments, defaults: QueueDefaults
) -> Iterator[tuple[str, Origin, object]]:
    """The values that count where nothing was said, of arguments that do something here."""
    queue_type = in_force.queue_type or DEFAULT_QUEUE_TYPE
    yield "x-queue-type", "default", DEFAULT_QUEUE_TYPE
    is_stream = queue_type == "stream"
    if not is_stream and (in_force.max_length is not None or in_force.max_length_bytes is not None):
        yield "x-overflow", "default", in_force.overflow or DEFAULT_OVERFLOW
        if in_force.overflow == "flow-control":
            yield "x-flow-resume-limit", "default", RESUME_PERCENT
    has_alternate = in_force.alternate_binding is not None or bool(in_force.dlq_auto)
    if defaults.dead_letter_exchange is not None and not (has_alternate or is_stream):
        yield "x-dead-letter-exchange", "vhost_default", defaults.dead_letter_exchange
    if queue_type == "quorum" and not in_force.max_delivery_attempts:
        yield "x-delivery-limit", "default", QUORUM_DELIVERY_LIMIT
    if in_force.sort_key is not None:
        yield "x-sort-order", "default", "asc"
        yield "x-sort-type", "default", "string"
    if in_force.message_group_type is not None:
        yield "x-message-group-type", "default", in_force.message_group_type
