"""How the value of one queue argument is read: its type, its range, and what a refusal says.

A reader takes a value with RabbitMQ's name of its wire type and returns what a field of
``QueueArguments`` holds. ``queues.declare.table`` names one for every argument, and
``queues.declare.arguments`` calls it once per declare.

Invariant: a reader raises ``InvalidValue`` and nothing else, whatever the wire can carry. Its text
is an Erlang term as RabbitMQ prints it (``~255p``): an atom ``invalid_overflow``, a tuple
``{value_negative,-1}``, or a string in its quotes ``"expected integer, got longstr"``. Readers for
RabbitMQ's names refuse what ``rabbit_amqqueue`` refuses; those for Qpid's names take what Broker-J
converts (``AttributeValueConverter``): numbers and booleans also as text, tables also as JSON.
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
LONG_MAX: Final = 2**63 - 1

# rabbit_amqqueue: ?INTEGER_ARG_TYPES
_INTEGER_TYPES: Final = frozenset(
    ("byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint")
)
_NUMBER_TYPES: Final = _INTEGER_TYPES | {"float", "double", "timestamp"}


class InvalidValue(Exception):
    """``term`` is the end of RabbitMQ's text: ``invalid arg 'x' for queue 'q' in vhost '/': E``."""

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
    if type_ not in _INTEGER_TYPES or not isinstance(value, int):
        raise InvalidValue(quoted(f"expected integer, got {type_}"))
    return int(value)


def natural(value: object, type_: str) -> int:
    """``check_non_neg_int_arg``."""
    number = any_integer(value, type_)
    if number < 0:
        raise InvalidValue(f"{{value_negative,{number}}}")
    return number


def at_least_one(value: object, type_: str) -> int:
    """``check_initial_cluster_size_arg``: a count of at least 1."""
    number = natural(value, type_)
    if number == 0:
        raise InvalidValue("{value_zero,0}")
    return number


def expiry_ms(value: object, type_: str) -> int:
    """``check_message_ttl_arg``: 0 to ten years."""
    number = any_integer(value, type_)
    if number > EXPIRY_MAX_MS:
        raise InvalidValue(f"{{value_too_large,{number}}}")
    if number < 0:
        raise InvalidValue(f"{{value_negative,{number}}}")
    return number


def lease_ms(value: object, type_: str) -> int:
    """``check_expires_arg``: 1 ms to ten years."""
    number = expiry_ms(value, type_)
    if number == 0:
        raise InvalidValue("{value_zero,0}")
    return number


def priority(value: object, type_: str) -> int:
    """``check_max_priority_arg``."""
    number = natural(value, type_)
    if number > PRIORITY_MAX:
        raise InvalidValue(f"{{max_value_exceeded,{number}}}")
    return number


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


def one_of(*choices: str, otherwise: str) -> Reader:
    """One of these texts; ``otherwise`` is the error term, with ``{}`` for the value."""

    def read(value: object, type_: str) -> str:
        string = text(value, type_)
        if string not in choices:
            raise InvalidValue(otherwise.format(escaped(string)))
        return string

    return read


def queue_version(value: object, type_: str) -> int:
    """``check_queue_version``."""
    number = natural(value, type_)
    if number not in (1, 2):
        raise InvalidValue(quoted(f"unsupported queue version '{number}'"))
    return number


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


def between(minimum: int, maximum: int, sentence: str) -> Reader:
    """``rabbit_stream_queue``: a bound that is checked when the stream is made."""

    def read(value: object, type_: str) -> int:
        number = natural(value, type_)
        if not minimum <= number <= maximum:
            raise OutOfBounds(sentence)
        return number

    return read


def percent(value: object, type_: str) -> float:
    """A part of a whole: 0 to 100, also with a fraction."""
    if type_ not in _NUMBER_TYPES or not isinstance(value, int | float):
        raise InvalidValue(quoted(f"expected number, got {type_}"))
    if not 0 <= value <= 100:
        raise InvalidValue(quoted(f"expected 0 to 100, got {value}"))
    return float(value)


# -------------------------------------------------------- as Qpid Broker-J reads its own arguments

_DECIMAL_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,19}")


def qpid_integer(minimum: int, maximum: int = LONG_MAX) -> Reader:
    """A number, or decimal text, within these bounds."""

    def read(value: object, type_: str) -> int:
        number = _qpid_number(value, type_)
        if number < minimum:
            # RabbitMQ's words where it has them
            term = f"{{value_negative,{number}}}" if number < 0 else f"{{value_zero,{number}}}"
            raise InvalidValue(term)
        if number > maximum:
            raise InvalidValue(f"{{max_value_exceeded,{number}}}")
        return number

    return read


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


def qpid_choice(choices: Mapping[str, str], otherwise: str, *, any_case: bool = False) -> Reader:
    """The name of an enumeration's member, as our word for it."""

    def read(value: object, type_: str) -> str:
        name = text(value, type_)
        chosen = choices.get(name.upper() if any_case else name)
        if chosen is None:
            raise InvalidValue(otherwise)
        return chosen

    return read


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


DEATH_REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit", "replaced")


def death_reasons(value: object, type_: str) -> tuple[str, ...]:
    """An array of reasons, or a text with commas between them."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple):
        raise InvalidValue(f"{{unacceptable_type,{type_}}}")
    for reason in value:
        if reason not in DEATH_REASONS:
            raise InvalidValue(quoted(f"unknown reason '{reason}'"))
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
    if filter_type == "x-filter-jms-selector":
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
    """What Erlang puts between the quotes of a printed string."""
    return string.replace("\\", "\\\\").replace('"', '\\"')


def quoted(string: str) -> str:
    """A string as Erlang prints it."""
    return f'"{escaped(string)}"'
