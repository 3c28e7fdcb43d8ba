"""Cron expressions: times against a walk over every minute, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hareline.queues.policies.cron import Cron, InvalidCron


def ms(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * 1000  # type: ignore[misc, arg-type]


@pytest.mark.row("S12")
@pytest.mark.parametrize(
    ("text", "after", "following"),
    [
        ("* * * * *", (2026, 11, 30, 8, 34), (2026, 11, 30, 8, 35)),
        ("0 * * * *", (2026, 12, 31, 23, 0), (2027, 1, 1, 0, 0)),
        ("*/20 8-10/2 * * *", (2026, 1, 1, 8, 40), (2026, 1, 1, 10, 0)),
        ("30 7 * * MON-fri", (2026, 11, 27, 7, 30), (2026, 11, 30, 7, 30)),
        ("0 0 * * 7", (2026, 11, 30), (2026, 12, 6)),
        ("0 0 29 feb *", (2096, 2, 29), (2104, 2, 29)),
        ("15,45 0 31 * *", (2026, 4, 30, 0, 20), (2026, 5, 31, 0, 15)),
        # crontab(5): either of two restricted days is enough
        ("0 0 13 * fri", (2026, 11, 30), (2026, 12, 4)),
        ("0 0 13 * fri", (2026, 12, 11), (2026, 12, 13)),
        # and a field that begins with a star does not restrict
        ("0 0 */2 * mon", (2026, 11, 30), (2026, 12, 7)),
    ],
)
def test_next_time(text: str, after: tuple[int, ...], following: tuple[int, ...]) -> None:
    assert Cron(text).next_ms(ms(*after)) == ms(*following)
    assert Cron(text).next_ms(ms(*following) - 1) == ms(*following)


@pytest.mark.row("S12")
def test_times_are_those_that_a_walk_over_all_minutes_finds() -> None:
    cron, start = Cron("7-50/9 3,22 1-7 * 2"), datetime(2026, 1, 1, tzinfo=UTC)
    walked = [
        moment
        for moment in (start + timedelta(minutes=n) for n in range(60 * 24 * 60))
        if moment.minute in range(7, 51, 9)
        and moment.hour in (3, 22)
        and (moment.day <= 7 or moment.weekday() == 1)
    ]
    found, at_ms = [], int(start.timestamp()) * 1000
    for _ in walked:
        at = cron.next_ms(at_ms)
        assert at is not None
        found.append(datetime.fromtimestamp(at / 1000, UTC))
        at_ms = at
    assert found == walked


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("* * * *", "4 fields instead of 5"),
        ("1," * 200 + "1 * * * *", "more than 256 characters"),
        ("60 * * * *", "'60' is not a minute"),
        ("* 5-3 * * *", "'5-3' is not a hour"),
        ("* * 0 * *", "'0' is not a day of month"),
        ("* * * mai *", "'mai' is not a month"),
        ("* * * * 8", "'8' is not a day of week"),
        ("*/0 * * * *", "'*/0' is not a minute"),
        ("5/15 * * * *", "'5/15' is not a minute"),
        ("1, * * * *", "'' is not a minute"),
        ("² * * * *", "'²' is not a minute"),
        ("0 0 31 2,4 *", "no such day in any month"),
    ],
)
def test_what_is_no_cron_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidCron) as refusal:
        Cron(text)
    assert str(refusal.value) == problem
