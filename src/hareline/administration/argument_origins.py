"""Which of a queue's arguments is in force, and who decided it: for operators who ask why.

Called by ``management.api.effective_arguments`` for one queue at a time. What is in force is what
``broker.live_arguments`` has put in force; here the declaration, the changes of operators, the
policy and the operator policy are laid beside it, by the rules of ``policy_keys``.

Invariant: the values are those in force, also of a queue that could not follow its policy; what
said the value that is in force is its origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from hareline.administration.policy_keys import KEYS, smaller
from hareline.administration.policy_matching import Applied
from hareline.broker.live_arguments import LiveArguments
from hareline.broker.making import QUORUM_DELIVERY_LIMIT, QueueDefaults
from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    BY_NAME,
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


class Word(NamedTuple):
    """What one source says of an argument. ``source``: the name of the policy, else None.

    ``value`` None: an operator has taken the argument away.
    """

    origin: Origin
    source: str | None
    value: object


class Overridden(NamedTuple):
    """A word that does not count, and why: a sentence without its full stop."""

    word: Word
    because: str


class Decision(NamedTuple):
    """An argument in force: what it is, who said so, and who else said something."""

    name: str
    value: object
    origin: Origin
    source: str | None
    has_effect: bool
    overridden: tuple[Overridden, ...] = ()


_KEYS_OF: Final[Mapping[str, str]] = {
    key.argument.name: name for name, key in KEYS.items() if key.argument is not None
}


def decisions(live: LiveArguments, queue: Queue, applied: Applied) -> Iterator[Decision]:
    """Every argument of a queue: those that something was said of, then defaults in force."""
    in_force = live.in_force(queue)
    effective = in_force.raw
    defaults = dict(_defaults_in_force(in_force, live.defaults))
    for argument in ARGUMENTS:
        words = list(_words(argument, queue, live.changes_of(queue), applied))
        names = argument.given_in(effective)
        if names:
            value = effective[names[0].name]
            yield _decided(argument, names[0].name, value, words, applied)
        elif words:
            bound = _bound_beside(argument, applied) if words[0].value is not None else None
            overridden = tuple(Overridden(each, _why_not(argument, each, bound)) for each in words)
            word = defaults.pop(argument.name, bound or Word("default", None, None))
            yield _decision(argument.name, word, argument, overridden)
    for name, value in queue.arguments.items():
        if name not in BY_NAME:
            yield Decision(name, value, "queue_argument", None, False)
    for name, word in defaults.items():
        argument = BY_NAME[name]
        if not argument.given_in(effective):
            yield _decision(name, word, argument, ())


def _decision(
    name: str, word: Word, argument: Argument, overridden: tuple[Overridden, ...]
) -> Decision:
    has_effect = argument.field is not None
    return Decision(name, word.value, word.origin, word.source, has_effect, overridden)


def _words(
    argument: Argument, queue: Queue, changes: Mapping[str, object | None], applied: Applied
) -> Iterator[Word]:
    """What was said of an argument, the strongest word first."""
    all_names = (argument.name, *(alias.name for alias in argument.aliases))
    for name in all_names:
        if name in changes:
            yield Word("operator_change", None, changes[name])
    for alias in argument.given_in(queue.arguments):
        yield Word("queue_argument", None, queue.arguments[alias.name])
    key = _KEYS_OF.get(argument.name)
    policies: tuple[tuple[Origin, PolicyRecord | None], ...] = (
        ("operator_policy", applied.operator_policy),
        ("policy", applied.policy),
    )
    for origin, record in policies:
        if record is not None and key is not None and key in record.definition:
            yield Word(origin, record.name, record.definition[key])


def _decided(
    argument: Argument,
    name: str,
    value: object,
    words: list[Word],
    applied: Applied,
) -> Decision:
    """``name``: by which name of the argument the value is in force."""
    now = _read(argument, name, value)
    own = next((word for word in words if word.origin not in ("policy", "operator_policy")), None)
    winner = next(
        (
            word
            for word in words
            if word.value is not None
            and _means(argument, word, now)
            and (word is own or word.origin in ("policy", "operator_policy"))
        ),
        None,
    )
    if winner is None:
        winner = _bound_beside(argument, applied)
    overridden = tuple(
        Overridden(word, _why_not(argument, word, winner)) for word in words if word is not winner
    )
    if winner is None:  # what an earlier policy said, and the queue cannot leave now
        winner = Word("policy", None, value)
    return _decision(argument.name, winner._replace(value=value), argument, overridden)


def _bound_beside(argument: Argument, applied: Applied) -> Word | None:
    """The policy whose limit bounds an argument which it does not name; None if none does."""
    record = applied.operator_policy
    if record is not None and any(key in record.definition for key in argument.bounded_by):
        return Word("operator_policy", record.name, None)
    return None


def _why_not(argument: Argument, word: Word, winner: Word | None) -> str:
    """Why a word does not count."""
    if word.value is None:
        return "it takes the argument away"
    if winner is not None and winner.value is None:
        return "no argument gets around the limit that this policy sets"
    if winner is None:
        if argument.needs is not None and word.origin in ("policy", "operator_policy"):
            return f"it needs {BY_FIELD[argument.needs[0]].name}, which is not set"
        return "an operator took the argument away, or the queue cannot follow it now"
    key = _KEYS_OF.get(argument.name)
    if winner.origin == "operator_change" and word.origin == "queue_argument":
        return "an operator has changed it"
    if key is not None and KEYS[key].is_limit:
        if _same(argument, word, winner):
            return "it says the same"
        is_smaller = smaller(word.value, winner.value) == winner.value
        if is_smaller:
            return "of two limits the smaller one counts"
    if winner.origin in ("queue_argument", "operator_change"):
        return "what the queue itself says beats a policy"
    if winner.origin == "operator_policy" and word.origin == "policy":
        return "an operator policy beats a policy"
    return "the queue cannot follow it now"


def _same(argument: Argument, one: Word, other: Word) -> bool:
    return _means(argument, one, _read(argument, argument.name, other.value))


def _means(argument: Argument, word: Word, value: object) -> bool:
    """True if a word stands for this value, whatever name it came under."""
    names = (argument.name, *(alias.name for alias in argument.aliases))
    return any(_read(argument, name, word.value) == value for name in names)


def _read(argument: Argument, name: str, value: object) -> object:
    """A value as the reader of this name understands it; itself where it does not."""
    readers = {argument.name: argument.reader}
    readers |= {alias.name: alias.reader for alias in argument.aliases}
    try:
        return readers[name](value, type_name(value))
    except InvalidValue:
        return value


def _defaults_in_force(
    in_force: QueueArguments, defaults: QueueDefaults
) -> Iterator[tuple[str, Word]]:
    """What counts where nothing was said, of the arguments that do something for this queue."""
    queue_type = in_force.queue_type or DEFAULT_QUEUE_TYPE
    yield "x-queue-type", Word("default", None, DEFAULT_QUEUE_TYPE)
    is_stream = queue_type == "stream"
    if not is_stream and (in_force.max_length is not None or in_force.max_length_bytes is not None):
        yield "x-overflow", Word("default", None, in_force.overflow or "drop-head")
        if in_force.overflow == "flow-control":
            yield "x-flow-resume-limit", Word("default", None, RESUME_PERCENT)
    has_alternate = in_force.alternate_binding is not None or bool(in_force.dlq_auto)
    if defaults.dead_letter_exchange is not None and not (has_alternate or is_stream):
        yield "x-dead-letter-exchange", Word("vhost_default", None, defaults.dead_letter_exchange)
    if queue_type == "quorum" and not in_force.max_delivery_attempts:
        yield "x-delivery-limit", Word("default", None, QUORUM_DELIVERY_LIMIT)
    if in_force.sort_key is not None:
        yield "x-sort-order", Word("default", None, "asc")
        yield "x-sort-type", Word("default", None, "string")
    if in_force.message_group_type is not None:
        yield "x-message-group-type", Word("default", None, in_force.message_group_type)
