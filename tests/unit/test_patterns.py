"""Patterns: those that are refused, those that are taken, and the names they try."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.patterns import NAME_MAX, PATTERN_MAX, Pattern, check_pattern, trial_names


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
    check_pattern(pattern)


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
        "^" + "(a|aa)" * 48 + "b$",
    ],
)
def test_a_pattern_that_takes_too_long_is_refused_with_a_name(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"takes more than 5 ms for some names, such as '"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "^is invalid: missing"),
        ("a" * (PATTERN_MAX + 1), f"more than {PATTERN_MAX}"),
        ("(" * 200 + ")" * 200, "has more than 32 groups within one another"),
        ("(" * 20 + "a" + "){2}" * 20, "repeats too much within repetitions"),
        ("(" * 20 + "a" + ")(?#hidden){2}" * 20, "repeats too much within repetitions"),
        ("a{60000}", "or too often"),
        ("((a{30}){30}b){30}", "repeats too much within repetitions"),
        ("(?x)" + "(" * 20 + "a" + ") {2}" * 20, "has the flag x"),
        ("(?i-s:(?ix:a))", "has the flag x"),
    ],
)
def test_what_is_no_pattern_is_said(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_pattern(pattern)


def test_a_search_ends_in_time() -> None:
    slow, name = Pattern("^(a|aa)+b$"), "a" * 60 + "!"
    with pytest.raises(TimeoutError):
        slow.is_in(name)
    with pytest.raises(TimeoutError):
        slow.match_of(name)
    assert Pattern("b").is_in("abc")
    assert not Pattern("^b").is_in("abc")


def test_braces_that_repeat_nothing_stand_for_themselves() -> None:
    """``regex`` alone would take ``{e}`` for "with an error or none"."""
    for text in ("^orders{e}$", "^orders\\\\{d}$", "^orders{1<=e<=2}$", "^orders{1d<=2}$"):
        assert not Pattern(text).is_in("order")
        assert not Pattern(text).is_in("orders")
    assert Pattern("^orders{e}$").is_in("orders{e}")
    assert Pattern("^\\p{Lu}{2}$").is_in("AB")


NAMES = st.text("ab12-{}.", max_size=8)


@given(st.text("ab.^$*+?{}[]()|\\1,2-dw", max_size=10), NAMES)
def test_a_pattern_means_what_it_means_in_python(text: str, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            python = re.compile(text, re.ASCII)
        except (re.error, FutureWarning, OverflowError):
            return
    assert Pattern(text, is_ascii=True).is_in(name) == (python.search(name) is not None)


def test_names_are_as_long_as_names_can_be_and_lead_to_each_place() -> None:
    names = list(trial_names("^(ab|cd)\\.[xy]+$"))
    assert all(len(name) == NAME_MAX for name in names)
    beginnings = {name[:4] for name in names}
    assert {"aaaa", "abbb", "ab..", "ab.x", "abab", "cccc", "cd.x"} <= beginnings


def test_each_alternative_of_a_whole_pattern_is_tried() -> None:
    beginnings = {name[:2] for name in trial_names("^a+|b\\d|[^a]z")}
    assert {"aa", "bb", "b0", "00", "0z"} <= beginnings
