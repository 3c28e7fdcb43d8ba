"""Each queue argument is described once, by examples and choices that the broker takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline.queues.declare.descriptions import DESCRIPTIONS, GROUPS, Description
from hareline.queues.declare.readers import InvalidValue, type_name
from hareline.queues.declare.table import ARGUMENTS, BY_NAME

DOCS = Path(__file__).resolve().parents[4] / "docs"


def named(description: Description) -> str:
    return description.name


def refuses(description: Description, value: object) -> bool:
    try:
        BY_NAME[description.name].reader(value, type_name(value))
    except InvalidValue:
        return True
    return False


def test_every_argument_is_described_once() -> None:
    names = [each.name for each in DESCRIPTIONS]
    assert sorted(names) == sorted(each.name for each in ARGUMENTS)


def test_titles_are_told_apart() -> None:
    titles = [each.title for each in DESCRIPTIONS]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=named)
def test_the_example_is_taken(description: Description) -> None:
    assert not refuses(description, description.example)


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=named)
def test_every_choice_is_taken_and_another_word_is_not(description: Description) -> None:
    if description.input == "choice":
        assert not any(refuses(description, word) for word, _ in description.choices)
        assert refuses(description, "no such word")
    elif description.input == "list":
        assert not any(refuses(description, [word]) for word, _ in description.choices)
        assert refuses(description, ["no such word"])
    else:
        assert description.choices == ()


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=named)
def test_bounds_are_those_of_the_reader(description: Description) -> None:
    for bound, step in ((description.minimum, -1), (description.maximum, 1)):
        if bound is not None:
            assert not refuses(description, bound)
            # a negative limit under one of Qpid's names is none
            assert refuses(description, bound + step)


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=named)
def test_the_page_is_there(description: Description) -> None:
    page, _, anchor = description.page.partition("#")
    text = (DOCS / f"{page}.md").read_text()
    headings = [
        line.lstrip("# ").lower().replace("`", "").replace(".", "").replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("#")
    ]
    assert not anchor or anchor in headings
    assert description.group in dict(GROUPS)
