"""JSON values as RabbitMQ shows them in its errors: as terms of Erlang.

Invariant: a text is cut, so that an error stays readable whatever was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TEXT_MAX: Final = 200


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
