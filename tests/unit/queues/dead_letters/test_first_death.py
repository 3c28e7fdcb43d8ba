"""The table of the first death, found by what the headers say of it and not by its place."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.queues.dead_letters.first_death import first_death

WORK = {"queue": "work", "reason": "rejected"}
RETRY = {"queue": "retry", "reason": "expired"}
WORK_EXPIRED = {"queue": "work", "reason": "expired"}


def headers(deaths: object, queue: object = "work", reason: object = "rejected") -> dict[str, Any]:
    return {"x-death": deaths, "x-first-death-queue": queue, "x-first-death-reason": reason}


@pytest.mark.parametrize(
    "deaths",
    [[WORK], [RETRY, WORK], [WORK, RETRY], [WORK_EXPIRED, WORK, RETRY], ["x", WORK, 3, RETRY]],
)
def test_the_table_of_queue_and_reason_is_found_wherever_it_stands(deaths: list[object]) -> None:
    assert first_death(headers(deaths)) is WORK


def test_the_oldest_table_where_the_headers_name_none_of_them() -> None:
    assert first_death({"x-death": [WORK, RETRY]}) is RETRY
    assert first_death(headers([WORK, RETRY], queue="forgotten")) is RETRY
    assert first_death(headers([WORK, RETRY], queue=["work"])) is RETRY


@pytest.mark.parametrize("given", [{}, headers("x"), headers([]), headers(["x", 1]), headers(None)])
def test_headers_without_a_death(given: dict[str, Any]) -> None:
    assert first_death(given) is None
