"""Refusals of an administrative change: checks of names and limits, with RabbitMQ's texts.

Values in a text are terms of Erlang, cut so that it stays readable whatever was sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from hareline.errors import HarelineError
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

DEPTH_MAX: Final = 100  # of JSON: what walks through it calls itself, and so do encoders
_NUMBER_MAX: Final = 1 << 63
_TEXT_MAX: Final = 200
#: In RabbitMQ's JSON the value of a void; its imports refuse null.
_UNDEFINED: Final = "undefined"

#: ``conflict``: it is set elsewhere. ``protected``: it may not be deleted.
Kind = Literal["bad_request", "not_found", "conflict", "protected"]


class AdministrationError(HarelineError):
    """Nothing has changed; ``reason`` says what was wrong and what to do."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind: Kind = kind
        self.reason = reason


def bad_request(reason: str) -> AdministrationError:
    """The error for something that is not valid."""
    return AdministrationError("bad_request", reason)


def invalid(problem: str) -> AdministrationError:
    """The error for a value that a component does not take, with RabbitMQ's heading."""
    return bad_request(f"Validation failed\n\n{problem}\n")


def check_name(kind: str, name: str) -> None:
    """Raise AdministrationError for a name that is empty, too long or not UTF-8."""
    if not name:
        raise bad_request(f"a {kind} needs a name")
    if not is_unicode(name):
        raise bad_request(f"the name of a {kind} is not UTF-8")
    if len(name.encode()) > SHORTSTR_MAX_OCTETS:
        raise bad_request(f"the name of a {kind} has {SHORTSTR_MAX_OCTETS} octets at most")


def is_shallow(value: object) -> bool:
    """True if no more than ``DEPTH_MAX`` arrays and objects are within one another."""
    level = [value]
    for _ in range(DEPTH_MAX):
        held = [each for each in level if isinstance(each, list | Mapping)]
        if not held:
            return True
        level = [
            one for each in held for one in (each.values() if isinstance(each, Mapping) else each)
        ]
    return not any(isinstance(each, list | Mapping) for each in level)


def is_unicode(text: str) -> bool:
    """False for a text with surrogates: octets that are not UTF-8, or half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_limit(component: str, limit: str, value: object, known: Sequence[str]) -> int:
    """The value of a limit. Raises AdministrationError if it is not a whole number, or unknown."""
    if limit not in known:
        raise invalid(f"Unrecognised terms [{{{term(limit)},{term(value)}}}] in {component}")
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{limit} should be a number, actually was {term(value)}")
    if not -_NUMBER_MAX <= value < _NUMBER_MAX:
        raise invalid(f"{limit} has more than 64 bits: {value}")
    return value


def in_force(limit: int | None) -> int | None:
    """The limit, or None where it is negative, which means no limit."""
    return None if limit is None or limit < 0 else limit


def term(value: object) -> str:
    """The value as ``~p`` prints it: ``<<"text">>``, ``1``, ``true``, ``[1,2]``, ``null``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        cut = value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + "..."
        return f'<<"{cut}">>'
    if isinstance(value, Mapping):
        return "[" + ",".join(f"{{{term(key)},{term(each)}}}" for key, each in value.items()) + "]"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(term, value)) + "]"
    return str(value)


def table_json(table: Mapping[str, object]) -> dict[str, object]:
    """A field table as RabbitMQ shows it: a void is ``undefined``, and so is a NaN here."""
    return {name: _value_json(value) for name, value in table.items()}


def _value_json(value: object) -> object:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return _UNDEFINED
    if isinstance(value, Mapping):
        return table_json(value)
    if isinstance(value, list | tuple):
        return [_value_json(each) for each in value]
    return value
