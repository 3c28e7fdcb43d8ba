"""The list of differences from RabbitMQ's management API: what its patterns fit, and its table."""

from __future__ import annotations

from collections import Counter

import pytest

from scripts import management_differences
from scripts.management_differences import (
    BEGIN,
    DIFFERENCES,
    END,
    Difference,
    unlisted,
    unshown,
    with_table,
)

LISTED = (
    Difference("Keys", "a reason", ("GET /api/*: each.a: only RabbitMQ", "GET /b?x=[1]: status*")),
)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(management_differences, "DIFFERENCES", LISTED)


@pytest.mark.usefixtures("listed")
def test_what_no_pattern_fits_is_unlisted() -> None:
    shown = ["GET /api/x: each.a: only RabbitMQ", "GET /b?x=[1]: status 1, RabbitMQ 2"]
    other = ["GET /api/x: each.ab: only RabbitMQ", "GET /bax=1: status 1", "PUT /api/x: each.a"]
    assert unlisted([*shown, *other]) == other


@pytest.mark.usefixtures("listed")
def test_a_pattern_that_fits_nothing_is_unshown() -> None:
    assert unshown(["GET /api/x: each.a: only RabbitMQ"]) == {"Keys": ["GET /b?x=[1]: status*"]}


@pytest.mark.usefixtures("listed")
def test_the_table_stands_between_its_markers() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nbehind\n"
    made = with_table(page)
    assert made.startswith("before\n")
    assert made.endswith(f"{END}\nbehind\n")
    assert "| Keys | a reason |" in made
    assert "old" not in made
    assert with_table(made) == made


def test_every_difference_has_a_reason_and_each_pattern_stands_once() -> None:
    for each in DIFFERENCES:
        assert each.what
        assert each.why
        assert each.shown, each.what
    patterns = Counter(pattern for each in DIFFERENCES for pattern in each.shown)
    assert [pattern for pattern, count in patterns.items() if count > 1] == []
