"""What every option and every table of options is made with.

The modules of the tables declare their options with ``option``; ``settings.reference`` and
``settings.options`` read them back. Invariant: a table never changes, and knows all of its keys.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

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
    """Whether a running broker takes over a new value of this option."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "options are declared with option()"
    return "live" if extra["reload"] == "live" else "restart"
