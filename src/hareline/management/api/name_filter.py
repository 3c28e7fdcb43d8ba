"""Filtering by name: a part of a name, or a regular expression with a bound on its time.

Made by ``management.api.listing`` for a request. Both ignore case, as RabbitMQ's do. Expressions
come from any user and are run on the loop, so the engine is one that stops after a time.

Invariant: however the expression backtracks, one filter takes ``BUDGET_S`` of the loop's time at
most, in pieces of ``MATCH_S``.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final

import regex

from hareline.management.refusals import Refusal

BUDGET_S: Final = 0.25
MATCH_S: Final = 0.01
PATTERN_MAX: Final = 512  # characters


class NameFilter:
    """``allows``: whether a name contains the text, or is matched by the expression."""

    __slots__ = ("_left_s", "_pattern", "_text")

    def __init__(self, text: str, *, is_regex: bool) -> None:
        """Raises Refusal for a regular expression that is not valid, or too long."""
        self._text = text.lower()
        self._pattern = _compiled(text) if is_regex else None
        self._left_s = BUDGET_S

    def allows(self, name: str) -> bool:
        """True if the name passes. Raises Refusal if the expression takes too long."""
        pattern = self._pattern
        if pattern is None:
            return self._text in name.lower()
        start_s = perf_counter()
        try:
            found = pattern.search(name, timeout=MATCH_S)
        except TimeoutError:
            raise _too_slow() from None
        self._left_s -= perf_counter() - start_s
        if self._left_s < 0:
            raise _too_slow()
        return found is not None


def _compiled(text: str) -> regex.Pattern[str]:
    if len(text) > PATTERN_MAX:
        raise Refusal(400, "bad_request", f"name: longer than {PATTERN_MAX} characters")
    try:
        return regex.compile(text, regex.IGNORECASE)
    except (regex.error, RecursionError, OverflowError) as problem:
        reason = f"name: '{text}' is not a regular expression: {problem}"
        raise Refusal(400, "bad_request", reason) from None


def _too_slow() -> Refusal:
    return Refusal(
        400,
        "bad_request",
        "name: this regular expression takes too long; avoid repetitions within repetitions",
    )
