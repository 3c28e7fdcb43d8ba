"""Filtering by name: a part of a name, or a regular expression with a bound on its time.

Made by ``management.api.listing`` for a request. An item with several names has a line for each.
Both ignore case, as RabbitMQ's do. Expressions come from any user, and some would run for hours, so
they run in a thread, in an engine that lets the loop go on meanwhile and stops after a time.

Invariant: however the expression backtracks, the loop never waits for it, and a filter takes little
more than ``BUDGET_S``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from time import perf_counter
from typing import Final, TypeVar

import regex

from hareline.management.pace import Share
from hareline.management.refusals import Refusal
from hareline.patterns import too_costly

BUDGET_S: Final = 0.5
MATCH_S: Final = 0.05
PATTERN_MAX: Final = 512  # characters
#: Names that a thread is handed at one go.
BATCH_COUNT: Final = 1_024

T = TypeVar("T")


class NameFilter:
    """Picks the items whose name contains the text, or is matched by the expression."""

    __slots__ = ("_is_regex", "_left_s", "_text")

    def __init__(self, text: str, *, is_regex: bool) -> None:
        """Raises Refusal for a regular expression that is too long."""
        if is_regex and len(text) > PATTERN_MAX:
            raise Refusal(400, "bad_request", f"name: longer than {PATTERN_MAX} characters")
        self._text = text
        self._is_regex = is_regex
        self._left_s = BUDGET_S

    async def passed(
        self, items: Iterable[T], name_of: Callable[[T], str], share: Share
    ) -> AsyncIterator[T]:
        """Yield the items whose name passes.

        Raises Refusal for a regular expression that is not valid, or takes too long.
        """
        if not self._is_regex:
            wanted = self._text.lower()
            for item in items:
                await share.pause()
                if wanted in name_of(item).lower():
                    yield item
            return
        # also in a thread: some hundred characters may take some hundred ms to compile
        pattern = await share.wait_for(asyncio.to_thread(_compiled, self._text))
        rest = iter(items)
        while batch := list(islice(rest, BATCH_COUNT)):
            names = []
            for item in batch:
                await share.pause()
                names.append(name_of(item))
            found = await share.wait_for(asyncio.to_thread(self._search, pattern, names))
            for item, is_found in zip(batch, found, strict=True):
                if is_found:
                    yield item

    def _search(self, pattern: regex.Pattern[str], names: list[str]) -> list[bool]:
        """Which of the names match; called in a thread."""
        start_s = perf_counter()
        found = []
        for name in names:
            try:
                found.append(pattern.search(name, concurrent=True, timeout=MATCH_S) is not None)
            except TimeoutError:
                raise _too_slow() from None
            if perf_counter() - start_s > self._left_s:
                raise _too_slow()
        self._left_s -= perf_counter() - start_s
        return found


def _compiled(text: str) -> regex.Pattern[str]:
    problem = too_costly(text)
    if problem:
        raise Refusal(400, "bad_request", f"name: this regular expression {problem}")
    try:
        return regex.compile(text, regex.IGNORECASE | regex.MULTILINE)
    except (regex.error, RecursionError, OverflowError) as problem:
        reason = f"name: '{text}' is not a regular expression: {problem}"
        raise Refusal(400, "bad_request", reason) from None


def _too_slow() -> Refusal:
    return Refusal(
        400,
        "bad_request",
        "name: this regular expression takes too long; avoid repetitions within repetitions",
    )
