"""Checks of names and limits that several parts of the administration make.

Invariant: the texts are RabbitMQ's where it has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hareline.administration.error import AdministrationError, bad_request
from hareline.administration.terms import term

NAME_MAX_OCTETS: Final = 255
DEPTH_MAX: Final = 100  # of JSON: what walks through it calls itself, and so do encoders
_NUMBER_MAX: Final = 1 << 63


def check_name(kind: str, name: str) -> None:
    """Raise AdministrationError for a name that is empty, too long or not UTF-8."""
    if not name:
        raise bad_request(f"a {kind} needs a name")
    if not is_unicode(name):
        raise bad_request(f"the name of a {kind} is not UTF-8")
    if len(name.encode()) > NAME_MAX_OCTETS:
        raise bad_request(f"the name of a {kind} has {NAME_MAX_OCTETS} octets at most")


def is_shallow(value: object) -> bool:
    """Whether no more than ``DEPTH_MAX`` arrays and objects are within one another."""
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


def invalid(problem: str) -> AdministrationError:
    """The error for a value that a component does not take, with RabbitMQ's heading."""
    return bad_request(f"Validation failed\n\n{problem}\n")
