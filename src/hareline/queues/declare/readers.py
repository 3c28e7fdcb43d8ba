"""Readers of argument values: the type, the range, and the text of a refusal.

A reader takes a value with RabbitMQ's name of its wire type and returns what a field of
``QueueArguments`` holds, or raises ``InvalidValue`` and nothing else, whatever the wire can carry.
Readers for RabbitMQ's names refuse what ``rabbit_amqqueue`` refuses; those for Qpid's names take
what Broker-J converts (``AttributeValueConverter``): numbers and booleans also as text, tables also
as JSON. Readers with bounds or words have them as attributes, for forms.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hareline.selectors.error import SelectorError
from hareline.selectors.selector import compile_selector
from hareline.wire.table import TYPE_NAMES, kind_of

EXPIRY_MAX_MS: Final = 315_360_000_000  # ten years: rabbit_misc:check_expiry, ?MAX_EXPIRY_TIMER
PRIORITY_MAX: Final = 255
SELECTOR: Final = "x-filter-jms-selector"  # of consumers, bindings and default filters
LONG_MAX: Final = 2**63 - 1

# rabbit_amqqueue: ?INTEGER_ARG_TYPES
INTEGER_TYPES: Final = frozenset(
    ("byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint")
)
_NUMBER_TYPES: Final = INTEGER_TYPES | {"float", "double", "timestamp"}


class InvalidValue(Exception):
    """``term`` ends RabbitMQ's text: ``invalid arg 'x' for queue 'q' in vhost '/': E``.

    It is an Erlang term as RabbitMQ prints it (``~255p``): an atom ``invalid_overflow``, a tuple
    ``{value_negative,-1}``, or a string in its quotes ``"expected integer, got longstr"``.
    """

    def __init__(self, term: str) -> None:
        super().__init__(term)
        self.term = term


class OutOfBounds(InvalidValue):
    """A value that RabbitMQ refuses later, with a sentence of its own instead of a term."""


Reader = Callable[[object, str], object]  # value, type name -> value of the field


def type_name(value: object, kind: str | None = None) -> str:
    """RabbitMQ's name of a type: by its wire octet, or what the value would be sent as."""
    if kind is None:
        try:
            kind = kind_of(value)
        except TypeError:
            return type(value).__name__
    return TYPE_NAMES[kind]


# ------------------------------------------------------------- as RabbitMQ reads its own arguments


def any_integer(value: object, type_: str) -> int:
    """``check_int_arg``."""
    if type_ not in INTEGER_TYPES or not isinstance(value, int):
        raise InvalidValue(quoted(f"expected integer, got {type_}"))
    return int(value)


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A whole number within bounds, with RabbitMQ's terms for what is outside."""

    minimum: int
    maximum: int | None = None
    too_large: str = "max_value_exceeded"
    convert: Callable[[object, str], int] = any_integer

    def __call__(self, value: object, type_: str) -> int:
        number = self.convert(value, type_)
        if self.maximum is not None and number > self.maximum:
            raise InvalidValue(f"{{{self.too_large},{number}}}")
        if number < self.minimum:
            raise InvalidValue(f"{{value_{'negative' if number < 0 else 'zero'},{number}}}")
        return number


natural: Final = Whole(0)  # check_non_neg_int_arg
at_least_one: Final = Whole(1)  # check_initial_cluster_size_arg
expiry_ms: Final = Whole(0, EXPIRY_MAX_MS, "value_too_large")  # check_message_ttl_arg
lease_ms: Final = Whole(1, EXPIRY_MAX_MS, "value_too_large")  # check_expires_arg
priority: Final = Whole(0, PRIORITY_MAX)  # check_max_priority_arg


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """A whole number within bounds, with an error of its own for what is outside."""

    minimum: int
    maximum: int
    refusal: Callable[[int], InvalidValue]

    def __call__(self, value: object, type_: str) -> int:
        number = natural(value, type_)
        if not self.minimum <= number <= self.maximum:
            raise self.refusal(number)
        return number


queue_version: Final = Within(  # check_queue_version
    1, 2, lambda number: InvalidValue(quoted(f"unsupported queue version '{number}'"))
)


def flag(value: object, type_: str) -> bool:
    """``check_bool_arg``."""
    if not isinstance(value, bool):
        raise InvalidValue(f"{{unacceptable_type,{type_}}}")
    return value


def text(value: object, type_: str) -> str:
    """``check_dlxname_arg``: any text, empty included."""
    if not isinstance(value, str):
        raise InvalidValue(f"{{unacceptable_type,{type_}}}")
    return value


def text_or_ignored(value: object, _type: str) -> str | None:
    """Any value; RabbitMQ does not check it."""
    return value if isinstance(value, str) else None


def filled_text(value: object, type_: str) -> str:
    """Text that is not blank: names of headers and groups."""
    string = text(value, type_)
    if not string.strip():
        raise InvalidValue("value_blank")
    return string


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One of some words.

    ``words``: each with its meaning, for forms. ``otherwise`` is the error term, with ``{}`` for
    the value. ``values``: what words stand for, if not for themselves.
    """

    words: Mapping[str, str]
    otherwise: str
    values: Mapping[str, str] | None = None
    is_any_case: bool = False

    def __call__(self, value: object, type_: str) -> str:
        word = text(value, type_)
        if self.is_any_case:
            word = word.upper()
        if word not in self.words:
            raise InvalidValue(self.otherwise.format(escaped(word)))
        return word if self.values is None else self.values[word]


def one_of(*words: str, otherwise: str = "") -> Choice:
    """A choice between words that need no explanation."""
    return Choice(dict.fromkeys(words, ""), otherwise)


_MAX_AGE: Final = re.compile(r"([0-9]{1,18})([YMDhms])")
_DAY_MS: Final = 24 * 3600 * 1000
_UNIT_MS: Final = {
    "Y": 365 * _DAY_MS,
    "M": 30 * _DAY_MS,
    "D": _DAY_MS,
    "h": 3600 * 1000,
    "m": 60 * 1000,
    "s": 1000,
}


def max_age_ms(value: object, type_: str) -> int:
    """``check_max_age``: ``7D`` and the like, above 0, as milliseconds."""
    match = _MAX_AGE.fullmatch(text(value, type_))
    if match is None or int(match[1]) == 0:
        raise InvalidValue("invalid_max_age")
    return int(match[1]) * _UNIT_MS[match[2]]


@dataclass(frozen=True, slots=True, eq=False)
class Percent:
    """A part of a whole, also with a fraction."""

    minimum: int = 0
    maximum: int = 100

    def __call__(self, value: object, type_: str) -> float:
        if type_ not in _NUMBER_TYPES or not isinstance(value, int | float):
            raise InvalidValue(quoted(f"expected number, got {type_}"))
        if not self.minimum <= value <= self.maximum:
            raise InvalidValue(quoted(f"expected 0 to 100, got {value}"))
        return float(value)


percent: Final = Percent()


# -------------------------------------------------------- as Qpid Broker-J reads its own arguments

_DECIMAL_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,19}")


def qpid_limit(value: object, type_: str) -> int | None:
    """``maximumQueueDepthMessages`` and its like: negative is no limit, 0 is one."""
    number = _qpid_number(value, type_)
    return None if number < 0 else number


def _qpid_number(value: object, type_: str) -> int:
    is_text = isinstance(value, str) and _DECIMAL_DIGITS.fullmatch(value) is not None
    is_number = type_ in _NUMBER_TYPES and (
        math.isfinite(value) if isinstance(value, float) else isinstance(value, int)
    )
    if not isinstance(value, str | int | float) or not (is_text or is_number):
        shown = f"'{value}'" if isinstance(value, str) else type_
        raise InvalidValue(quoted(f"expected integer, got {shown}"))
    number = int(value)
    if not -LONG_MAX <= number <= LONG_MAX:
        raise InvalidValue(f"{{value_too_large,{number}}}")
    return number


def qpid_integer(minimum: int, maximum: int | None = None) -> Whole:
    """A number, or decimal text, within these bounds."""
    return Whole(minimum, maximum, convert=_qpid_number)


def qpid_flag(value: object, type_: str) -> bool:
    """A boolean, or its name as text in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise InvalidValue(f"{{unacceptable_type,{type_}}}")


def qpid_truth(value: object, _type: str) -> bool:
    """``no-local``: true when its text is ``true``, else false (Boolean.valueOf)."""
    return str(value).lower() == "true"


def qpid_choice(values: Mapping[str, str], otherwise: str, *, any_case: bool = False) -> Choice:
    """The name of an enumeration's member, as our word for it."""
    return Choice(values, otherwise, values, any_case)


def qpid_last_value_switch(value: object, type_: str) -> str | None:
    """``qpid.last_value_queue``: on names the default key. Clients send true, ``true`` and 1.

    Broker-J takes any value for on, false included; its manual says true, and so does this.
    """
    is_on = value != 0 if isinstance(value, int) else qpid_flag(value, type_)
    return "qpid.LVQ_key" if is_on else None


def qpid_shared_groups_switch(value: object, _type: str) -> str | None:
    """``qpid.shared_msg_group``: 1 or ``1`` is "shared", any other value None."""
    return "shared" if not isinstance(value, bool) and str(value) == "1" else None


def alternate_binding(value: object, type_: str) -> str:
    """``alternateBinding``: a table ``{destination: name}``, or that as JSON; the destination."""
    table = _qpid_map(value, type_)
    destination = table.get("destination")
    if not isinstance(destination, str) or not destination.strip():
        raise InvalidValue(quoted("expected a table with a destination"))
    return destination


@dataclass(frozen=True, slots=True)
class DefaultFilter:
    """A filter for consumers that bring none of that name.

    ``filter_type`` is ``x-filter-jms-selector`` (``argument``: the selector) or
    ``x-qpid-replay-period`` (``argument``: seconds as decimal text).
    """

    name: str
    filter_type: str
    argument: str


@dataclass(frozen=True, slots=True, eq=False)
class SomeOf:
    """An array of words, or a text with commas between them; ``words`` as in ``Choice``."""

    words: Mapping[str, str]
    what: str

    def __call__(self, value: object, type_: str) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            raise InvalidValue(f"{{unacceptable_type,{type_}}}")
        for word in value:
            if word not in self.words:
                raise InvalidValue(quoted(f"unknown {self.what} '{word}'"))
        return tuple(value)


def default_filters(value: object, type_: str) -> tuple[DefaultFilter, ...]:
    """``defaultFilters``: ``{name: {type: [argument]}}``, a table or JSON; in the order given."""
    return tuple(
        _default_filter(name, definition) for name, definition in _qpid_map(value, type_).items()
    )


def _default_filter(name: object, definition: object) -> DefaultFilter:
    if not isinstance(definition, Mapping) or len(definition) != 1:
        raise InvalidValue(quoted(f"filter '{name}' needs exactly one type"))
    ((filter_type, arguments),) = definition.items()
    if not isinstance(arguments, list | tuple) or len(arguments) != 1:
        raise InvalidValue(quoted(f"filter '{name}' needs a list of one argument"))
    argument = arguments[0]
    if filter_type == SELECTOR:
        is_valid = isinstance(argument, str) and bool(argument.strip())
        if is_valid:
            _check_selector(name, argument)
    elif filter_type == "x-qpid-replay-period":
        is_valid = isinstance(argument, str) and _DECIMAL_DIGITS.fullmatch(argument) is not None
    else:
        raise InvalidValue(quoted(f"filter '{name}' has an unknown type '{filter_type}'"))
    if not is_valid:
        raise InvalidValue(quoted(f"filter '{name}' has an invalid argument"))
    return DefaultFilter(str(name), filter_type, argument)


def _check_selector(name: object, text: str) -> None:
    try:
        compile_selector(text)
    except SelectorError as error:
        raise InvalidValue(quoted(f"filter '{name}' has an invalid selector: {error}")) from None


def _qpid_map(value: object, type_: str) -> Mapping[str, object]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidValue(quoted("expected a table, got text that is not JSON")) from None
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{{unacceptable_type,{type_}}}")
    return value


# ------------------------------------------------------------------------------------ Erlang terms


def escaped(string: str) -> str:
    """A string as Erlang prints it between quotes."""
    return string.replace("\\", "\\\\").replace('"', '\\"')


def quoted(string: str) -> str:
    """A string as Erlang prints it."""
    return f'"{escaped(string)}"'
