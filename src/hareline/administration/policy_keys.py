"""Keys of policies: their values, and what they do.

Read by ``administration.policies``. A key that sets an argument of queues has the argument's name
without ``x-``, and every argument that can change while a queue lives has one; RabbitMQ's keys
without a meaning for one node are taken, checked where RabbitMQ checks them, and do nothing.

Invariant: a definition that passes ``check_definition`` can be applied to any queue of a type that
knows the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hareline.administration.checks import invalid, is_unicode
from hareline.administration.terms import term
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE
from hareline.broker.live_settings import LIVE_FIELDS
from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_NAME,
    RABBITMQ_OVERFLOWS,
    Argument,
)

_NUMBER_MAX: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """``argument``: what it sets for a queue, None if nothing. ``is_valid``: looks at a value.

    ``is_limit``: of two values the smaller one counts. ``what``: what the value is, for an error.
    """

    name: str
    is_valid: Callable[[object], bool]
    what: str
    argument: Argument | None = None
    is_limit: bool = False
    is_operator: bool = False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number_from(minimum: int) -> Callable[[object], bool]:
    def is_number(value: object) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and minimum <= value < _NUMBER_MAX  # type: ignore[operator]

    return is_number


def _is_one_of(*choices: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in choices


def _is_anything(value: object) -> bool:
    return isinstance(value, str | int | float | list | dict)


def _read_by(argument: Argument) -> Callable[[object], bool]:
    def is_valid(value: object) -> bool:
        if isinstance(value, int) and not -_NUMBER_MAX <= value < _NUMBER_MAX:
            return False
        try:
            argument.reader(value, type_name(value))
        except InvalidValue:
            return False
        return True

    return is_valid


_ANY_NUMBER: Final = _is_number_from(-_NUMBER_MAX)
_NATURAL: Final = _is_number_from(0)
_POSITIVE: Final = _is_number_from(1)
_OVERFLOWS: Final = _is_one_of(*RABBITMQ_OVERFLOWS)
_LOCATORS: Final = _is_one_of("client-local", "random", "least-leaders", "balanced")
_MODES: Final = _is_one_of("default", "lazy")

# fmt: off
#: RabbitMQ's own keys, with its words for a bad value. The last column: of two values the smaller
#: one counts, and operator policies may set it too.
_RABBITMQ: Final = (
    (ALTERNATE_EXCHANGE, _is_text, "alternate exchange name", False),
    ("dead-letter-exchange", _is_text, "dead letter exchange name", False),
    ("dead-letter-routing-key", _is_text, "dead letter routing key", False),
    ("message-ttl", _NATURAL, "message TTL", True),
    ("expires", _POSITIVE, "queue expiry", True),
    ("max-length", _NATURAL, "maximum length", True),
    ("max-length-bytes", _NATURAL, "maximum length in bytes", True),
    ("max-in-memory-length", _NATURAL, "maximum memory in bytes", True),
    ("max-in-memory-bytes", _NATURAL, "maximum memory in bytes", True),
    ("queue-mode", _MODES, "queue-mode value", False),
    ("overflow", _OVERFLOWS, "overflow value", False),
    ("delivery-limit", _ANY_NUMBER, "delivery limit", True),
    ("max-age", _read_by(BY_NAME["x-max-age"]), "max age", False),
    ("queue-leader-locator", _LOCATORS, "queue leader locator value", False),
    ("initial-cluster-size", _NATURAL, "cluster size", False),
    ("max-segment-size", _NATURAL, "segment size", False),
    ("stream-max-segment-size-bytes", _NATURAL, "segment size", False),
    ("stream-filter-size-bytes", _read_by(BY_NAME["x-stream-filter-size-bytes"]), "filter size",
     False),
    ("queue-version", _read_by(BY_NAME["x-queue-version"]), "queue-version value", False),
    ("dead-letter-strategy", _is_one_of("at-most-once", "at-least-once"), "strategy", False),
    ("consumer-timeout", _NATURAL, "consumer timeout", False),
    ("target-group-size", _POSITIVE, "qq target count value", False),
    ("queue-master-locator", _is_text, "queue master locator", False),
    ("ha-mode", _is_text, "ha-mode", False),
    ("ha-params", _is_anything, "ha-params", False),
    ("ha-sync-mode", _is_text, "ha-sync-mode", False),
    ("ha-sync-batch-size", _POSITIVE, "ha-sync-batch-size", False),
    ("ha-promote-on-shutdown", _is_text, "ha-promote-on-shutdown", False),
    ("ha-promote-on-failure", _is_text, "ha-promote-on-failure", False),
    ("federation-upstream", _is_text, "federation upstream", False),
    ("federation-upstream-set", _is_text, "federation upstream set", False),
    ("federation-upstream-pattern", _is_text, "federation upstream pattern", False),
)
# fmt: on

#: What operator policies may set as well, beside limits. Theirs counts, not that of a policy.
_OPERATOR: Final = frozenset(
    ("overflow", "queue-master-locator", "queue-version", "target-group-size")
)


def _argument_of(key: str) -> Argument | None:
    """The argument that a key sets; None for those that have no effect."""
    argument = BY_NAME.get(f"x-{key}") or BY_NAME.get(key)
    return argument if argument is not None and argument.field in LIVE_FIELDS else None


def _keys() -> dict[str, PolicyKey]:
    keys = {
        name: PolicyKey(
            name, is_valid, what, _argument_of(name), is_limit, is_limit or name in _OPERATOR
        )
        for name, is_valid, what, is_limit in _RABBITMQ
    }
    for argument in ARGUMENTS:
        name = argument.name.removeprefix("x-")
        if argument.field in LIVE_FIELDS and name not in keys:
            keys[name] = PolicyKey(name, _read_by(argument), name, argument)
    return keys


#: All keys of policies by name.
KEYS: Final[Mapping[str, PolicyKey]] = _keys()

_OLD_KEYS: Final = ("ha-", "max-segment-size")  # taken from definitions of RabbitMQ 3
#: Keys that RabbitMQ 4 has too; it refuses a policy with any other.
RABBITMQ_KEYS: Final = frozenset(name for name, *_ in _RABBITMQ if not name.startswith(_OLD_KEYS))

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
    """Of two values of a limit the one that counts; a negative one is no limit."""
    if not isinstance(one, int) or one < 0:
        return other
    return one if not isinstance(other, int) or other < 0 else min(one, other)
