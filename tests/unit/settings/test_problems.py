"""What checks see of a table, valid or not, and how their problems are raised."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hareline.settings.section import (
    UNKNOWN,
    Section,
    below,
    known_in,
    option,
    problem,
    refuse,
    value_in,
)


class Table(Section):
    """A table with a default and without."""

    given: int = option(..., "Has no default.")
    usual: str = option("x", "Has a default.")


@pytest.mark.parametrize(
    ("table", "given", "usual"),
    [
        (Table(given=5, usual="y"), 5, "y"),
        ({"given": 5, "usual": "y"}, 5, "y"),
        ({"given": "no number"}, "no number", "x"),
        ({}, UNKNOWN, "x"),
        ({"usal": "a misspelt key may have meant it"}, UNKNOWN, UNKNOWN),
        ("no table", UNKNOWN, UNKNOWN),
    ],
)
def test_a_value_is_given_or_the_default_or_unknown(
    table: object, given: object, usual: object
) -> None:
    assert value_in(Table, table, "given") == given
    assert value_in(Table, table, "usual") == usual


def test_a_value_of_another_type_is_not_known() -> None:
    assert known_in(Table, {"given": 5}, "given", int) == 5
    assert known_in(Table, {"given": "5"}, "given", int) is None
    assert known_in(Table, {}, "given", int) is None


def test_all_problems_are_raised_at_once_each_at_its_place() -> None:
    inner = [problem(("name",), "'{name}' is taken", name="a"), problem((), "empty")]
    with pytest.raises(ValidationError) as caught:
        refuse([*below(("users", 1), inner), problem(("port",), "too large")])
    assert [(each["loc"], each["msg"]) for each in caught.value.errors()] == [
        (("users", 1, "name"), "'a' is taken"),
        (("users", 1), "empty"),
        (("port",), "too large"),
    ]


def test_nothing_is_raised_without_a_problem() -> None:
    refuse([])
