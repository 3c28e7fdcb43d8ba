"""The table of queue arguments: complete, unambiguous, and on its page of the documentation."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from hareline.queues.declare.arguments import QueueArguments
from hareline.queues.declare.table import ARGUMENTS, BY_FIELD, BY_NAME, ORDERINGS

FIELDS = [argument.field for argument in ARGUMENTS if argument.field is not None]


def test_each_field_has_one_row_and_each_row_its_field() -> None:
    fields = [spec.name for spec in dataclasses.fields(QueueArguments)]
    assert sorted([*FIELDS, "raw"]) == sorted(fields)
    assert len(FIELDS) == len(set(FIELDS))


def test_no_name_stands_for_two_arguments() -> None:
    names = [
        name
        for argument in ARGUMENTS
        for name in (argument.name, *(alias.name for alias in argument.aliases))
    ]
    assert len(names) == len(set(names)) == len(BY_NAME)


def test_an_argument_is_needed_only_after_it_was_read() -> None:
    seen: set[str | None] = set()
    for argument in ARGUMENTS:
        seen.add(argument.field)
        assert argument.needs is None or argument.needs[0] in seen


def _documented() -> dict[str, tuple[list[str], str]]:
    """The rows of the page's tables: its first names, each with its aliases and its effect."""
    page = Path(__file__).parents[4] / "docs" / "queue-arguments.md"
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


def test_orderings_are_fields_in_the_order_of_the_table() -> None:
    assert {"max_priority", "priorities", "sort_key", "last_value_key"} <= set(ORDERINGS)
    assert list(ORDERINGS) == [field for field in FIELDS if BY_FIELD[field].is_ordering]


def test_rows_are_found_by_name_alias_and_field() -> None:
    assert BY_NAME["x-max-length"] is BY_NAME["qpid.max_count"] is BY_FIELD["max_length"]
    assert list(BY_FIELD) == FIELDS
