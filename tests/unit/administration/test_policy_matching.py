"""Policies found by name in bounded time: what is remembered, and what slow patterns cost."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration import policies
from hareline.administration.policies import (
    REMEMBERED_MAX,
    SLOW_NAMES_MAX,
    Policy,
    VhostPolicies,
)
from hareline.administration.policy_keys import NONE_APPLIED
from hareline.patterns import Pattern
from hareline.storage.administration import PolicyRecord

SLOW = "^(a|aa)+b$"
SLOW_NAME = "a" * 60 + "!"


class Stand:
    """``used_s`` is the processor's time, which a test lets pass; each search takes ``cost_s``."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self.reports: list[tuple[str, str]] = []
        self.policies = VhostPolicies(
            lambda what, problem: self.reports.append((what, problem)), lambda: self.used_s
        )

    def place(self, name: str, pattern: str, **more: Any) -> Policy:
        policy = Policy(
            PolicyRecord(
                "/",
                more.get("is_operator", False),
                name,
                pattern,
                more.get("apply_to", "queues"),
                more.get("priority", 0),
                more.get("definition", {"max-length": 1}),
            )
        )
        self.policies.place(policy)
        return policy

    def name(self, queue: str, queue_type: str = "classic") -> str | None:
        policy = self.policies.applied(queue, queue_type).policy
        return None if policy is None else policy.name


def test_a_slow_pattern_is_passed_over_for_that_name_only() -> None:
    stand = Stand()
    slow = stand.place("slow", SLOW, priority=5)
    stand.place("usual", "")
    assert stand.name(SLOW_NAME) == "usual"
    assert stand.name("aab") == "slow"
    assert (slow.slow_count, slow.slow_names) == (1, [SLOW_NAME])
    ((what, problem),) = stand.reports
    assert what == "policy 'slow'"
    assert problem == f"its pattern takes more than 5 ms for '{SLOW_NAME}'"


def test_a_slow_name_is_tried_once_until_policies_change() -> None:
    stand = Stand()
    slow = stand.place("slow", SLOW)
    for _ in range(3):
        assert stand.name(SLOW_NAME) is None
    assert slow.slow_count == 1
    stand.place("other", "^none$")
    assert stand.name(SLOW_NAME) is None
    assert slow.slow_count == 2


def test_a_log_is_not_flooded_with_slow_names() -> None:
    stand = Stand()
    slow = stand.place("slow", SLOW)
    for number in range(SLOW_NAMES_MAX + 5):
        stand.name("a" * (40 + number) + "!")
    assert slow.slow_count == SLOW_NAMES_MAX + 5
    assert len(slow.slow_names) == len(stand.reports) == SLOW_NAMES_MAX
    assert stand.reports[-1][1].endswith("further names are not reported")


def test_many_patterns_together_have_a_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    for number in range(10):
        stand.place(f"p{number}", "^none$", priority=-number)
    stand.place("last", "q", priority=-10)
    stand.place("operator", "q", is_operator=True)

    is_in = Pattern.is_in

    def search(pattern: Pattern, name: str) -> bool:
        stand.used_s += 0.006
        return is_in(pattern, name)

    monkeypatch.setattr(Pattern, "is_in", search)
    applied = stand.policies.applied("q", "classic")
    assert applied.policy is None
    assert applied.operator_policy is not None
    ((what, problem),) = stand.reports
    assert what == "policies of priority -3 and lower"
    assert "'p3' were not looked at" in problem


def test_what_concerns_a_name_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    searched: list[str] = []

    is_in = Pattern.is_in

    def search(pattern: Pattern, name: str) -> bool:
        searched.append(name)
        return is_in(pattern, name)

    monkeypatch.setattr(Pattern, "is_in", search)
    stand.place("p", "q")
    assert stand.policies.applied("q1", "classic") is stand.policies.applied("q2", "classic")
    stand.name("q1")
    assert searched == ["q1", "q2"]
    stand.place("p", "1")
    assert (stand.name("q1"), stand.name("q2")) == ("p", None)
    stand.policies.remove("p", is_operator=False)
    assert stand.policies.applied("q1", "classic") is NONE_APPLIED


def test_queues_of_a_type_and_exchanges_of_a_name_are_not_mixed_up() -> None:
    stand = Stand()
    stand.place("all", "", apply_to="all")
    stand.place("quorum", "", apply_to="quorum_queues", priority=1)
    assert (stand.name("q"), stand.name("q", "quorum")) == ("all", "quorum")
    exchange = stand.policies.applied("q", None).policy
    assert exchange is not None
    assert exchange.name == "all"


def test_not_more_names_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policies, "REMEMBERED_MAX", 8)
    assert REMEMBERED_MAX > 8
    stand = Stand()
    stand.place("p", "")
    for number in range(100):
        assert stand.name(f"q{number}") == "p"
        assert len(stand.policies._remembered) <= 8
