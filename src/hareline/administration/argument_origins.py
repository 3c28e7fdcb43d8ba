"""Origins of the arguments in force of a queue, for operators who ask why.

What is in force is what ``broker.live_arguments`` has put in force; here the declaration, the
changes of operators, the policy and the operator policy are laid beside it, by the rules of
``policy_keys``.

Invariant: the values are those in force, also of a queue that could not follow its policy; what
said the value that is in force is its origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from hareline.administration.policy_keys import KEYS, smaller
from hareline.administration.policy_matching import Applied
from hareline.broker.live_arguments import LiveArguments
from hareline.broker.making import QUORUM_DELIVERY_LIMIT, QueueDefaults
from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    BY_NAME,
    DEFAULT_OVERFLOW,
    DEFAULT_QUEUE_TYPE,
    Argument,
    QueueArguments,
)
from hareline.queues.policies.overflow import RESUME_PERCENT
from hareline.queues.queue import Queue
from hareline.storage.administration import PolicyRecord

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
    policies: tuple[tuple[Origin, PolicyRecord | None], ...] = (
        ("operator_policy", applied.operator_policy),
        ("policy", applied.policy),
    )
    for origin, record in policies:
        if argument.live and record is not None and argument.key in record.definition:
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
    record = applied.operator_policy
    if record is not None and any(key in record.definition for key in argument.bounded_by):
        return Source("operator_policy", record.name, None)
    return None


def _overridden(
    argument: Argument, sources: list[Source], winner: Source | None
) -> tuple[Overridden, ...]:
    return tuple(Overridden(each, _why_not(argument, each, winner)) for each in sources)


def _why_not(argument: Argument, source: Source, winner: Source | None) -> str:
    """The reason why a source does not count."""
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
