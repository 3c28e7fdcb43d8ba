"""Results: what was counted in all processes, as data and as lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hareline.cli.perf.plan import Pattern, Plan
from hareline.cli.perf.result import Histogram, result_lines, result_of, why_nothing_moved


class Counted:
    """As much of a role's counters as a result reads."""

    def __init__(self, sent: int, received: int, refused: int = 0) -> None:
        self.sent, self.received, self.refused = sent, received, refused
        self.confirmed, self.returned = sent, 0
        self.blocked = ""
        self.latency, self.confirm_latency = Histogram(), Histogram()
        if received:
            self.latency.add(2_000_000)


PLAN = Plan(Pattern.work, "", "q", ("q",), sizes=(10, 20))


def test_a_result_adds_up_and_is_json() -> None:
    result = result_of(PLAN, [Counted(30, 0), Counted(0, 20)], 2.0, {"producers": 1})
    assert (result["sent"], result["received"]) == (30, 20)
    assert (result["sent_per_s"], result["received_per_s"]) == (15.0, 10.0)
    assert result["latency_ms"]["p99"] == 2.0
    assert result["confirm_latency_ms"] == {}
    assert json.loads(json.dumps(result)) == result
    assert (result["pattern"], result["sizes"], result["producers"]) == ("work", [10, 20], 1)


def test_lines_leave_out_what_did_not_happen() -> None:
    lines = result_lines(result_of(PLAN, [Counted(30, 1)], 1.0, {}))
    assert [line.split()[0] for line in lines] == ["sent", "received", "latency"]
    lines = result_lines(result_of(PLAN, [Counted(30, 0, refused=4)], 0.0, {}))
    assert [line.split()[:2] for line in lines][2] == ["refused", "4"]


NOTHING = {
    **dict.fromkeys(("sent", "received", "confirmed", "refused", "returned"), 0),
    "in_flight": 10,
    "consumers": 1,
    "blocked": "",
    "seconds": 2.5,
}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"confirmed": 1}, ""),
        ({"received": 1}, ""),
        ({"in_flight": 0, "consumers": 0, "sent": 1}, ""),
        ({"in_flight": 0, "sent": 1}, "none came within 2.5 s"),
        ({"sent": 9, "blocked": "low on disk"}, "the broker is low on disk, and blocks publishers"),
        ({"sent": 2, "confirmed": 2, "returned": 2}, "no queue takes them"),
        ({"sent": 2, "refused": 2}, "the broker refused them all"),
    ],
)
def test_a_test_that_moved_nothing_says_why(changed: dict[str, Any], why: str) -> None:
    assert why_nothing_moved({**NOTHING, **changed}).startswith(why)
    assert bool(why_nothing_moved({**NOTHING, **changed})) == bool(why)
