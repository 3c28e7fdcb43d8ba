"""Values of a command line that are more than text: NAME=VALUE, JSON, durations.

Invariant: what cannot be read is a CommandFailed with status USAGE that quotes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hareline.cli.failures import CommandFailed, ExitStatus


def pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    """``NAME=VALUE`` texts as a dict."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise CommandFailed(f"{flag}: '{text}' is not NAME=VALUE", ExitStatus.USAGE)
        found[name] = value
    return found


def typed_pairs(texts: Iterable[str], flag: str) -> dict[str, Any]:
    """As `pairs`; a value that is JSON is what it means, any other is text.

    So ``x-max-length=10`` is a number, ``x-queue-type=stream`` a text and ``x="10"`` a text too.
    """
    return {name: typed(value) for name, value in pairs(texts, flag).items()}


def typed(text: str) -> Any:
    """The JSON value that a text is, or the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def json_object(text: str, flag: str) -> dict[str, Any]:
    """A JSON object of the command line."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"{flag}: '{text}' is not JSON: {error}", ExitStatus.USAGE) from None
    if not isinstance(value, dict):
        raise CommandFailed(f"{flag}: '{text}' is not a JSON object", ExitStatus.USAGE)
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(name)
