"""What policies make of the arguments of a queue.

Called by ``administration.policies`` for each queue that a policy concerns. An argument of the
queue itself beats the policy, but of two limits the smaller one counts.

Invariant: no argument of a queue loosens what an operator policy sets, and what comes out is valid
where both, arguments and definition, are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from hareline.administration.policy_keys import KEYS, smaller
from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import BY_FIELD, Argument

#: By field, the keys of operator policies that bound an argument which no key sets.
BOUNDED_BESIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "overflow": ("max-length", "max-length-bytes"),
    "min_message_ttl_ms": ("message-ttl",),
    "expires_if_empty": ("expires",),
}
_DROP_HEAD: Final = "drop-head"
#: Overflow policies under which a limit limits the queue; ``none`` and ``flow-to-disk`` are others.
_BOUNDED: Final = (_DROP_HEAD, "reject-publish", "reject-publish-dlx", "discard", "flow-control")
_STREAM: Final = "stream"  # its limits are its retention, whatever its publishers do


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
        given = argument.names_in(own)
        if not given:
            result[argument.name] = value
        elif key.is_limit:
            mine = _value(argument, own)
            if smaller(mine, value) != mine:
                _set(result, argument, value)
    for name in definition:  # what is of no use without another one
        argument = KEYS[name].argument
        if argument is None or argument.needs is None or argument.name in own:
            continue
        if not BY_FIELD[argument.needs[0]].names_in(result):
            result.pop(argument.name, None)
    _lower(result, "flow_resume_capacity_bytes", "max_length_bytes")  # more would not be valid
    bounded = [
        field for field, keys in BOUNDED_BESIDE.items() if any(key in bounds for key in keys)
    ]
    if "min_message_ttl_ms" in bounded:
        _lower(result, "min_message_ttl_ms", "message_ttl_ms")
    if "expires_if_empty" in bounded:
        _take_away(result, BY_FIELD["expires_if_empty"])
    if "overflow" in bounded and own.get("x-queue-type") != _STREAM:
        _bound_length(result, definition.get("overflow", _DROP_HEAD))
    return result


def _bound_length(arguments: dict[str, object], otherwise: object) -> None:
    """Have the queue go by another overflow policy where its own would limit nothing."""
    overflow = BY_FIELD["overflow"]
    if overflow.names_in(arguments):
        is_unbounded = _value(overflow, arguments) not in _BOUNDED
    else:  # without a policy, limits by Qpid's names alone bound nothing
        limits = (BY_FIELD["max_length"].name, BY_FIELD["max_length_bytes"].name)
        is_unbounded = not any(name in arguments for name in limits)
    if is_unbounded:
        _set(arguments, overflow, otherwise)


def _lower(arguments: dict[str, object], field: str, limit: str) -> None:
    """Bring an argument down to a limit, where both are set."""
    highest = _value(BY_FIELD[limit], arguments)
    value = _value(BY_FIELD[field], arguments)
    if isinstance(highest, int) and isinstance(value, int) and value > highest:
        _set(arguments, BY_FIELD[field], highest)


def _value(argument: Argument, arguments: Mapping[str, object]) -> object:
    """What these arguments set, under whatever name; None: nothing, no limit, or not valid."""
    given = argument.names_in(arguments)
    if not given:
        return None
    value = arguments[given[0].name]
    try:
        return given[0].reader(value, type_name(value))
    except InvalidValue:
        return None


def _set(arguments: dict[str, object], argument: Argument, value: object) -> None:
    _take_away(arguments, argument)
    arguments[argument.name] = value


def _take_away(arguments: dict[str, object], argument: Argument) -> None:
    for name in (argument.name, *(alias.name for alias in argument.aliases)):
        arguments.pop(name, None)
