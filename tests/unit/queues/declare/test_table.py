"""The table of queue arguments: complete, unambiguous, true to its readers, and documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import (
    ARGUMENTS,
    BY_FIELD,
    BY_NAME,
    GROUPS,
    OVERFLOWS,
    ROWS,
    Argument,
    OverflowPolicy,
    QueueArguments,
)

DOCS = Path(__file__).resolve().parents[4] / "docs"
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def refuses(row: Argument, value: object) -> bool:
    try:
        row.reader(value, type_name(value))
    except InvalidValue:
        return True
    return False


def test_no_name_stands_for_two_arguments() -> None:
    names = [name for row in ROWS for name in row.names]
    assert len(names) == len(set(names)) == len(BY_NAME)


def test_each_row_is_checked_once() -> None:
    assert len(ARGUMENTS) == len(ROWS)
    assert set(ARGUMENTS) == set(ROWS)


def test_an_argument_is_needed_only_after_it_was_read() -> None:
    seen: set[str | None] = set()
    for argument in ARGUMENTS:
        seen.add(argument.field)
        assert argument.needs is None or argument.needs[0] in seen


def _documented() -> dict[str, tuple[list[str], str]]:
    """The rows of the page's tables: its first names, each with its aliases and its effect."""
    page = DOCS / "queue-arguments.md"
    rows = [
        line.strip().strip("|").split("|")
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    return {
        re.findall(r"`([^`]+)`", cells[0])[0]: (
            re.findall(r"`([^`]+)`", cells[1]),
            cells[-1].strip(),
        )
        for cells in rows
    }


def test_the_page_lists_every_argument_with_its_aliases() -> None:
    documented = _documented()
    for argument in ARGUMENTS:
        aliases, effect = documented.pop(argument.name)
        assert aliases == [alias.name for alias in argument.aliases]
        is_without = effect.startswith("accepted, without effect")
        assert is_without == (argument.field is None), argument.name
    assert list(documented) == ["x-name-prefix"]


def test_rows_are_found_by_name_alias_and_field() -> None:
    assert BY_NAME["x-max-length"] is BY_NAME["qpid.max_count"] is BY_FIELD["max_length"]


def test_what_stands_without_effect_never_changes_live() -> None:
    assert not [row for row in ROWS if row.live and row.field is None]


def test_bounds_and_policies_name_other_rows_by_their_keys() -> None:
    keys = {row.key for row in ROWS if row.policy is not None and row.policy.is_limit}
    assert {key for row in ROWS for key in row.bounded_by} <= keys


def test_every_overflow_policy_has_a_rule() -> None:
    assert tuple(OVERFLOWS) == get_args(OverflowPolicy)


# ------------------------------------------------------------------------------- for forms


def test_titles_are_told_apart() -> None:
    titles = [row.title for row in ROWS]
    assert len(set(titles)) == len(titles)


@each_row
def test_the_example_is_taken(row: Argument) -> None:
    assert not refuses(row, row.example)


@each_row
def test_every_choice_is_taken_and_another_word_is_not(row: Argument) -> None:
    is_list = row.input == "list"
    assert bool(row.choices) == (is_list or row.input == "choice")
    if row.choices:
        assert not any(refuses(row, [word] if is_list else word) for word in row.choices)
        assert refuses(row, ["no such word"] if is_list else "no such word")


def test_a_form_asks_for_what_the_example_is() -> None:
    words = {"text", "choice", "list", "json"}
    kinds = {bool: {"flag"}, str: words, dict: {"json"}, list: {"list"}}
    numbers = {"integer", "number", "bytes", "duration_ms"}
    wrong = [row.name for row in ROWS if row.input not in kinds.get(type(row.example), numbers)]
    assert wrong == []


@pytest.mark.parametrize("field", ["queue_type", "sort_order", "sort_type", "message_durability"])
def test_choices_are_the_words_of_the_field(field: str) -> None:
    hint = get_type_hints(QueueArguments)[field]
    words = {word for one in get_args(hint) for word in get_args(one)}
    assert set(BY_FIELD[field].choices) == words


@each_row
def test_bounds_are_those_of_the_reader(row: Argument) -> None:
    for bound, step in zip(row.bounds, (-1, 1), strict=True):
        if bound is not None:
            assert not refuses(row, bound)
            # a negative limit under one of Qpid's names is none
            assert refuses(row, bound + step)


@each_row
def test_the_page_is_there(row: Argument) -> None:
    page, _, anchor = row.page.partition("#")
    text = (DOCS / f"{page}.md").read_text()
    headings = [
        line.lstrip("# ").lower().replace("`", "").replace(".", "").replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    ]
    assert not anchor or anchor in headings
    assert row.group in GROUPS
