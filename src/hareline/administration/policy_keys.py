"""Keys of policies: their values, and what they make of the arguments of a queue.

The row of an argument (``queues.declare.table``) says which key sets it, and whose value counts.
RabbitMQ's keys without a meaning for one node are checked where RabbitMQ checks them, and do
nothing.

Invariant: what comes of valid arguments and a definition that passes ``check_definition`` is valid,
and no argument of a queue loosens what an operator policy sets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from hareline.administration.checks import invalid, is_unicode, term
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.queues.declare import readers as read
from hareline.queues.declare.arguments import overlaid
from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    DEFAULT_OVERFLOW,
    OVERFLOWS,
    ROWS,
    Argument,
    PolicyKey,
)

_STREAM: Final = "stream"  # its limits are its retention, whatever its publishers do
_BOUNDED_BESIDE: Final = tuple(row for row in ROWS if row.bounded_by)
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
_RABBITMQ_ARGUMENTS: Final[Mapping[str, PolicyKey]] = {
    row.key: replace(row.policy, argument=row if row.live else None)
    for row in ROWS
    if row.policy is not None
}
_OURS: Final[Mapping[str, PolicyKey]] = {
    row.key: PolicyKey(row.key, row.reader, argument=row)
    for row in ARGUMENTS
    if row.live and row.policy is None
}
#: All keys of policies by name.
KEYS: Final[Mapping[str, PolicyKey]] = {**_RABBITMQ, **_OLD, **_RABBITMQ_ARGUMENTS, **_OURS}
#: Keys that RabbitMQ 4 has too; it refuses a policy with any other.
RABBITMQ_KEYS: Final = frozenset((*_RABBITMQ, *_RABBITMQ_ARGUMENTS))
#: Keys that are taken and do nothing, for reports of imports.
WITHOUT_EFFECT: Final = frozenset(
    name for name, key in KEYS.items() if key.argument is None and name != ALTERNATE_EXCHANGE
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
    return dict(definition)


def smaller(one: object, other: object) -> object:
    """The value of a limit that counts, of two; a negative one is no limit."""
    if not isinstance(one, int) or one < 0:
        return other
    return one if not isinstance(other, int) or other < 0 else min(one, other)


# ---------------------------------------------------------------- what they make of the arguments


def overlaid_by_policy(
    own: Mapping[str, object], definition: Mapping[str, Any], bounds: Collection[str] = ()
) -> Mapping[str, object]:
    """The arguments of a queue with what a policy adds to them, or bounds.

    ``bounds``: those keys of the definition that an operator policy sets.
    """
    result = dict(own)
    for name, value in definition.items():
        key = KEYS[name]
        argument = key.argument
        if argument is None:
            continue
        if not argument.given_in(own):
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
