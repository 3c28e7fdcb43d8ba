"""Tables of options, and the checks of them.

The modules of the tables declare options with ``option``. A check reads a validated ``Section`` or
the JSON values of one in which something else is wrong, by ``value_in`` and ``known_in``; a value
that is not known is passed over. ``settings.sources`` shows each problem at its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

Reload = Literal["live", "restart"]


def option(default: Any, description: str, *, reload: Reload = "restart", **bounds: Any) -> Any:
    """One option: what it defaults to, what it means, and whether SIGHUP can change it.

    ``reload`` is "live" when a running broker takes the new value over, "restart" when it must be
    started again. ``bounds`` are pydantic's: ``ge``, ``le``, ``gt``, ``min_length``, ``pattern``.
    """
    return Field(default, description=description, json_schema_extra={"reload": reload}, **bounds)


class Section(BaseModel):
    """A table of the file: unknown keys are errors, values are final."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )


def reload_of(field: FieldInfo) -> Reload:
    """Way in which a new value of this option takes effect."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "options are declared with option()"
    return "live" if extra["reload"] == "live" else "restart"


# ----------------------------------------------------------------------------------------- problems


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
    """Problem at a place; ``message`` completes "listener.port: ..." and quotes values."""
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
