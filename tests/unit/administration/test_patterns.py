"""Patterns of policies: those that are refused, those that are taken, and the names they try."""

from __future__ import annotations

import pytest

from hareline.administration.checks import NAME_MAX_OCTETS
from hareline.administration.error import AdministrationError
from hareline.administration.patterns import (
    PATTERN_MAX,
    check_pattern,
    compiled,
    search,
    trial_names,
)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        ".*",
        "^amq\\.",
        "^orders\\.",
        "^(?!amq\\.).*",
        "^(orders|bills)\\.[a-z0-9_-]+$",
        "^([a-z]+\\.)+events$",
        "(?i)^dead",
        "^tenant-\\d{1,6}\\.(in|out)(\\.retry)?$",
        ".*foo.*bar.*",
        "^a(?#note)b",
        "(a(b(c(d(e(f)?)?)?)?)?)?",
        "^(([0-9]{1,3})\\.){3}[0-9]{1,3}$",
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        "^" + "|".join(f"queue-{number}$" for number in range(60)),
        "[]x]y",
        "[^a0-]+b",
        "(?<year>[0-9]{4})-(?:a|b)",
    ],
)
def test_patterns_as_people_write_them_are_taken(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


# differs: policy-patterns
@pytest.mark.parametrize(
    "pattern",
    [
        "^(a|aa)+b$",
        "^(\\w|\\w\\w)+$",
        "^orders\\.(a|aa)+b$",
        "^(foo|bar)\\.(x|xx|xy)+z$",
        "^(b|c|(a|aa)+d)$",
        "^c+$|^(a|aa)+b$",
    ],
)
def test_a_pattern_that_takes_too_long_is_refused_with_a_name(pattern: str) -> None:
    with pytest.raises(
        AdministrationError, match=r"takes more than 5 ms for some names, such as '"
    ):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (1, "should be a binary but was 1"),
        ("\ud800", "is not Unicode"),
        ("(", "is invalid"),
        ("a" * (PATTERN_MAX + 1), f"of {PATTERN_MAX} characters at most, but has"),
        ("(" * 200 + ")" * 200, "has more than 32 groups within one another"),
        ("(" * 20 + "a" + "){2}" * 20, "repeats too much within repetitions"),
        ("(" * 20 + "a" + ")(?#hidden){2}" * 20, "repeats too much within repetitions"),
        ("a{60000}", "or too often"),
        ("((a{30}){30}b){30}", "repeats too much within repetitions"),
        ("(?x)" + "(" * 20 + "a" + ") {2}" * 20, "has the flag x"),
        ("(?i-s:(?ix:a))", "has the flag x"),
    ],
)
def test_what_is_no_pattern_is_said(pattern: object, text: str) -> None:
    with pytest.raises(AdministrationError, match=text):
        check_pattern(pattern)


def test_a_search_ends_in_time() -> None:
    with pytest.raises(TimeoutError):
        search(compiled("^(a|aa)+b$"), "a" * 60 + "!")
    assert search(compiled("b"), "abc")
    assert not search(compiled("^b"), "abc")


def test_names_are_as_long_as_names_can_be_and_lead_to_each_place() -> None:
    names = list(trial_names("^(ab|cd)\\.[xy]+$"))
    assert all(len(name) == NAME_MAX_OCTETS for name in names)
    beginnings = {name[:4] for name in names}
    assert {"aaaa", "abbb", "ab..", "ab.x", "abab", "cccc", "cd.x"} <= beginnings


def test_each_alternative_of_a_whole_pattern_is_tried() -> None:
    beginnings = {name[:2] for name in trial_names("^a+|b\\d|[^a]z")}
    assert {"aa", "bb", "b0", "00", "0z"} <= beginnings
