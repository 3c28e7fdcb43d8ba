"""How checks look at a table of options, and how they object to it.

A check looks at a validated ``Section``, or at the JSON values of a table in which something else
is wrong; ``value_in`` and ``known_in`` read both. ``settings.sources`` shows every problem at its
own place in the file. Invariant: what depends on a value that is not known is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from hareline.settings.section import Section

T = TypeVar("T")

INCONSISTENT: Final = "inconsistent"  # pydantic's type of what does not fit together


class _Unknown:
    """Stands for a value that is invalid, or that a misspelt key was meant to set."""


UNKNOWN: Final = _Unknown()


def value_in(model: type[Section], table: object, key: str) -> Any:
    """The value of a key, or its default; ``UNKNOWN`` if that cannot be told."""
    if isinstance(table, Section):
        return getattr(table, key)
    if not isinstance(table, Mapping):
        return UNKNOWN
    if key in table:
        return table[key]
    field = model.model_fields[key]
    if field.is_required() or not table.keys() <= model.model_fields.keys():
        return UNKNOWN
    return field.default


def known_in(model: type[Section], table: object, key: str, kind: type[T]) -> T | None:
    """The value of a key if it is of this type, otherwise None."""
    value = value_in(model, table, key)
    return value if isinstance(value, kind) else None


def problem(place: tuple[str | int, ...], message: str, **values: object) -> InitErrorDetails:
    """What is wrong at a place; ``message`` completes "listener.port: ..." and quotes values."""
    return InitErrorDetails(
        type=PydanticCustomError(INCONSISTENT, message, values), loc=place, input=None
    )


def below(
    place: tuple[str | int, ...], problems: Iterable[InitErrorDetails]
) -> Iterator[InitErrorDetails]:
    """The same problems, seen from a table that has theirs at ``place``."""
    for each in problems:
        each["loc"] = (*place, *each.get("loc", ()))
        yield each


def refuse(problems: Iterable[InitErrorDetails]) -> None:
    """Raise all problems at once, each at its own place below the model that is validated."""
    found = list(problems)
    if found:
        raise ValidationError.from_exception_data("settings", found)
