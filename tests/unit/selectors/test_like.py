from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.selectors.like import (
    SHORT_SEGMENT,
    STEPS_MAX,
    TEXT_MAX,
    PatternProblem,
    check_pattern,
    longest_text,
    pattern_test,
    search_steps,
)

from . import naive


def is_like(text: str, pattern: str, escape: str | None = None) -> bool:
    test = pattern_test(pattern, escape)
    return bool(eval(test.code.format(c="c"), {"c": test.constant, "v": text}))


@pytest.mark.parametrize(
    ("pattern", "escape", "code"),
    [
        ("", None, "v == {c}"),
        ("abc", None, "v == {c}"),
        ("a!%!_!!", "!", "v == {c}"),
        ("abc%", None, "v.startswith({c})"),
        ("abc%%", None, "v.startswith({c})"),
        ("%", None, "v.startswith({c})"),
        ("%abc", None, "v.endswith({c})"),
        ("%%abc", None, "v.endswith({c})"),
        ("%abc%", None, "{c} in v"),
        ("%%abc%%", None, "{c} in v"),
        ("%" + "x" * SHORT_SEGMENT + "%", None, "{c} in v"),
        ("%" + "x" * (SHORT_SEGMENT + 1) + "%", None, "{c}(v) is not None"),
        ("%a_%", None, "{c}(v) is not None"),
        ("a_", None, "{c}(v) is not None"),
        ("a%c", None, "{c}(v) is not None"),
        ("_%", None, "{c}(v) is not None"),
        ("%a%c%", None, "{c}(v)"),
        ("%_a", None, "{c}(v) is not None"),
    ],
)
def test_the_usual_patterns_need_no_expression(pattern: str, escape: str | None, code: str) -> None:
    assert pattern_test(pattern, escape).code == code


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("abcabd", "a%bd", True),
        ("abab", "ab%ab", True),
        ("ab", "ab%b", False),
        ("ab", "ab%ab", False),
        ("", "a%b", False),
        ("aXb", "a%X%b", True),
        ("aXb", "aX%Xb", False),
        ("aXXb", "a%XXX%b", False),
        ("aba", "ab%ba", False),
        ("aXbXc", "a%b%c", True),
        ("aXcXb", "a%b%c", False),
        ("abc", "%a%b%c%", True),
        ("acb", "%a%b%c%", False),
        ("xaab", "%a_b", True),
        ("aab", "a%_b", True),
        ("ab", "a%_b", False),
        ("aaa", "_%_", True),
        ("a", "_%_", False),
        ("a\nb", "a%b", True),
        ("a\n", "a", False),
        ("a\n", "a_", True),
        ("a", "a$", False),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("abc", "a.%", False),
        ("a.c", "a.%_", True),
        ("(a)|[b]", "(a)|[b]%", True),
        ("😀", "_", True),
        ("\udcff", "_", True),
    ],
)
def test_patterns(text: str, pattern: str, *, expected: bool) -> None:
    assert is_like(text, pattern) is expected


@given(st.text("ab\n", max_size=12), st.text("ab%_", max_size=8))
def test_a_pattern_matches_what_it_should(text: str, pattern: str) -> None:
    assert is_like(text, pattern) is naive.like(text, pattern, None)


@given(
    st.text("a%_!", max_size=8),
    st.lists(st.sampled_from(["a", "%", "_", "!%", "!_", "!!"]), max_size=8).map("".join),
)
def test_escaped_wildcards_stand_for_themselves(text: str, pattern: str) -> None:
    check_pattern(pattern, "!")
    assert is_like(text, pattern, "!") is naive.like(text, pattern, "!")


@given(st.text(max_size=8))
def test_every_escaped_text_matches_itself_alone(text: str) -> None:
    pattern = re.sub(r"[%_\\]", r"\\\g<0>", text)
    assert is_like(text, pattern, "\\")
    assert not is_like(text + "x", pattern, "\\")
    assert is_like("x" + text + "y", f"%{pattern}%", "\\")
    assert is_like("x" + text + "y", f"_{pattern}_", "\\")


@pytest.mark.parametrize("pattern", ["!", "a!", "!a", "a!b%", "!!!", "%!"])
def test_an_escape_character_needs_something_to_escape(pattern: str) -> None:
    with pytest.raises(PatternProblem, match="may precede only _, % or itself"):
        check_pattern(pattern, "!")
    check_pattern(pattern, None)


def test_a_wildcard_can_be_the_escape_character() -> None:
    assert is_like("50%", "50%%", "%")
    assert not is_like("500", "50%%", "%")
    assert is_like("a_b", "a__b", "_")
    assert not is_like("axxb", "a__b", "_")


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        *[("abc", 0), ("a_c", 0), ("a_%", 0), ("%a_", 0), ("a_%_c", 0), ("%%", 0)],
        *[("%abc%", 1), ("a%b%c", 1), ("%ab%cd%", 1), ("%a_c%", 3), ("%a_c%__%b%", 3)],
    ],
)
def test_a_pattern_searches_only_with_something_between_wildcards(pattern: str, steps: int) -> None:
    assert search_steps(pattern, None) == steps
    assert pattern_test(pattern, None).steps == steps


def test_the_more_a_selector_searches_the_shorter_are_the_texts_in_which_it_does() -> None:
    assert longest_text(0) == longest_text(1) == longest_text(128) == TEXT_MAX
    assert longest_text(1_000) == STEPS_MAX // 1_000
    assert all(longest_text(steps) * steps <= STEPS_MAX for steps in (1, 129, 5_000, 8_192))


@pytest.mark.parametrize(
    "pattern",
    [
        "%a" * 50 + "%b",
        "%a" * 50 + "%b%",
        "%a_a" * 50 + "b",
        "%" + "a" * 49 + "b" + "a" * 49 + "%",
        "%" + "a" * 4_000 + "b" + "%",
        "a%" + "a" * 400 + "b%a" * 8,
        "a" * 4_000 + "%" + "a" * 4_000 + "b",
    ],
)
def test_a_search_goes_through_its_text_once(pattern: str) -> None:
    # what goes back over its choices, or begins anew at each character, takes a second and more
    text = "a" * 400_000
    assert search_steps(pattern, None) <= 3
    started = process_time()
    assert not is_like(text, pattern)
    assert process_time() - started < 0.2
