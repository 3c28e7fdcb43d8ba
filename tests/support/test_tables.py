"""That a table of cases fails for each case that is wrong, and names them all."""

from __future__ import annotations

import pytest

from .tables import hold_each


def is_even(number: int) -> None:
    assert number % 2 == 0


def test_every_row_is_looked_at() -> None:
    seen: list[tuple[int, str]] = []
    hold_each([(1, "a"), (2, "b")], lambda *row: seen.append(row))
    assert seen == [(1, "a"), (2, "b")]


def test_all_rows_that_fail_are_named() -> None:
    with pytest.raises(pytest.fail.Exception) as caught:
        hold_each([(2,), (3,), (4,), (5,)], is_even)
    first, *others = str(caught.value).split("\n(")
    assert first == "2 of 4 rows"
    assert [line.split(":")[0] for line in others] == ["3,)", "5,)"]


def test_an_error_fails_its_row_alone() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"1 of 2 rows\n\('a',\): TypeError"):
        hold_each([("a",), (2,)], lambda number: is_even(number + 0))


def test_a_missing_error_fails_its_row() -> None:
    def refuses(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            _ = 1 // number

    with pytest.raises(pytest.fail.Exception, match=r"1 of 2 rows\n\(1,\): Failed: DID NOT RAISE"):
        hold_each([(0,), (1,)], refuses)


def test_a_table_without_rows_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="0 of 0 rows"):
        hold_each([], is_even)
