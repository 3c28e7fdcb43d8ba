"""JSON values as terms of Erlang, for errors, and Erlang's values in RabbitMQ's JSON.

Invariant: a text of an error is cut, so that it stays readable whatever was sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

_TEXT_MAX: Final = 200
#: In RabbitMQ's JSON the value of a void; its imports refuse null.
_UNDEFINED: Final = "undefined"


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
