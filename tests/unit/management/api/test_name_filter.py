"""Filters by name, and what happens to expressions that backtrack."""

from __future__ import annotations

import asyncio

import pytest

from hareline.management.answers import Refusal
from hareline.management.api import listing
from hareline.management.api.listing import PATTERN_MAX, NameFilter
from hareline.management.pace import Pace


async def passed(text: str, *names: str, is_regex: bool = True) -> list[str]:
    async with Pace().share() as share:
        wanted = NameFilter(text, is_regex=is_regex)
        return [name async for name in wanted.passed(names, str, share)]


async def test_a_text_is_looked_for_in_any_case() -> None:
    names = ("my-oRD.RS-1", "orders")
    assert await passed("Ord.rs", *names, is_regex=False) == ["my-oRD.RS-1"]
    assert await passed("", *names, is_regex=False) == list(names)


@pytest.mark.parametrize(
    ("pattern", "name", "is_found"),
    [
        ("^orders$", "Orders", True),
        ("^orders$", "orders-1", False),
        ("^(?!amq\\.gen).*$", "amq.gen-x", False),
        ("[[:digit:]]{2}", "a42", True),
        ("", "anything", True),
    ],
)
async def test_an_expression_is_searched_for(pattern: str, name: str, is_found: bool) -> None:
    assert await passed(pattern, name) == [name] * is_found


async def test_many_names_are_searched_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "BATCH_COUNT", 3)
    names = [f"q{number}" for number in range(10)]
    assert await passed("[13579]$", *names) == names[1::2]


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<a>x)(?P<a>", "x" * (PATTERN_MAX + 1)])
async def test_an_expression_that_is_not_valid_is_refused(pattern: str) -> None:
    with pytest.raises(Refusal, match="name: ") as refused:
        await passed(pattern, "a")
    assert refused.value.status == 400


@pytest.mark.parametrize("pattern", ["^(a|a)*$", "^(a|aa)+$"])
async def test_an_expression_that_backtracks_without_end_is_stopped_and_holds_up_nothing(
    pattern: str,
) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    working = asyncio.create_task(others())
    with pytest.raises(Refusal, match="takes too long"):
        await passed(pattern, "a" * 200 + "b")
    working.cancel()
    assert turns > 10


async def test_all_names_together_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "perf_counter", iter(range(1_000)).__next__)  # 1 s a match
    with pytest.raises(Refusal, match="takes too long"):
        await passed("a", "a")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(" * 20 + "a" + "){2}" * 20, "repeats too much within repetitions"),
        ("((a{60000}){60000}){60000}", "or too often"),
        ("(" * 200 + ")" * 200, "more than 32 groups"),
    ],
)
async def test_an_expression_that_would_be_compiled_for_ever_is_refused(
    pattern: str, reason: str
) -> None:
    with pytest.raises(Refusal, match=reason):
        await passed(pattern, "a")
