"""What selectors say of one message (`subjects.SUBJECT`), case by case, from cases.txt.

There T, F and U stand for true, false and unknown.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hareline.selectors import selector as selector_module
from hareline.selectors.error import SelectorError
from hareline.selectors.identifiers import KNOWN_NAMES
from hareline.selectors.like import TEXT_MAX, longest_text
from hareline.selectors.parser import DEPTH_MAX
from hareline.selectors.selector import (
    LENGTH_MAX,
    SELECTOR_KEPT_CHARS,
    Selector,
    compile_selector,
)
from tests.support.messages import make_message
from tests.support.tables import hold_each

from .subjects import SUBJECT, message_with

PAGE = Path(__file__).resolve().parents[3] / "docs" / "selectors.md"
CASES = Path(__file__).with_name("cases.txt").read_text(encoding="utf-8")
VERDICTS = {"T": True, "F": False, "U": None}


def _cases() -> list[tuple[str, bool | None]]:
    lines = [line for line in CASES.splitlines() if line and not line.startswith("---")]
    return [(line[3:], VERDICTS[line[0]]) for line in lines]


def test_the_table_has_its_three_hundred_cases() -> None:
    cases = _cases()
    assert len(cases) >= 300
    assert len(set(cases)) == len(cases)


def test_what_a_selector_says_of_the_message() -> None:
    def says(text: str, verdict: bool | None) -> None:
        selector = compile_selector(text)
        assert selector.evaluate(SUBJECT) is verdict
        assert selector.matches(SUBJECT) is (verdict is True)

    hold_each(_cases(), says)


def test_its_negation_says_the_opposite() -> None:
    def says(text: str, verdict: bool | None) -> None:
        negated = compile_selector(f"NOT ({text})")
        assert negated.evaluate(SUBJECT) is (None if verdict is None else not verdict)

    hold_each(_cases(), says)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("size = 5 -- the rest of the line\nAND color = 'red'", True),
        ("size = 5 -- the rest of the line\rAND color = 'blue'", False),
        ("-- a line\r\n--\n--another\n size\t=\f5", True),
        ("size = 3 --2\n + 2", True),
        ("size = 3 --2", True),
        ("/* over\nlines */ size = 5", True),
        ("size = 5 /* at the end */", True),
        ("size = 5 -- at the end\n", True),
    ],
)
def test_comments_over_several_lines(text: str, verdict: bool) -> None:
    assert compile_selector(text).evaluate(SUBJECT) is verdict


def test_a_message_without_headers_has_no_properties_of_its_own() -> None:
    bare = make_message()
    assert compile_selector("color = 'red'").evaluate(bare) is None
    assert compile_selector("color IS NULL AND JMSType IS NULL").matches(bare)


def test_redelivery_is_the_second_argument() -> None:
    selector = compile_selector("JMSRedelivered")
    assert selector.matches(SUBJECT, True)
    assert not selector.matches(SUBJECT, False)
    assert not selector.matches(SUBJECT)
    assert selector.evaluate(SUBJECT, True) is True
    assert selector.evaluate(SUBJECT) is False


def test_a_selector_knows_its_text_and_the_names_in_it() -> None:
    text = "color = 'red' AND (size > \"max size\" OR NOT JMSPriority IN ('color')) AND color <> x"
    text = text.replace("JMSPriority", "JMSType")
    selector = compile_selector(text)
    assert selector.text == text
    assert selector.identifiers == {"color", "size", "max size", "JMSType", "x"}
    assert repr(selector) == f"<Selector {text}>"


def test_a_selector_of_constants_has_no_names() -> None:
    assert compile_selector("1 = 1").identifiers == frozenset()


def test_the_same_text_gives_the_same_selector() -> None:
    assert compile_selector("shared = 1") is compile_selector("shared = 1")
    assert compile_selector("shared = 1") is not compile_selector("shared  = 1")


def test_refused_texts_are_refused_again() -> None:
    for _ in range(2):
        with pytest.raises(SelectorError):
            compile_selector("refused =")


def test_what_a_like_searches_in_a_text_that_is_too_long_is_unknown() -> None:
    searching = compile_selector("text LIKE '%needle%'")
    negated = compile_selector("text NOT LIKE '%needle%'")
    for count, verdict in ((TEXT_MAX, True), (TEXT_MAX + 1, None)):
        message = message_with({"text": "needle".rjust(count)})
        assert searching.evaluate(message) is verdict
        assert negated.evaluate(message) is (None if verdict is None else False)
        other = message_with({"text": "x" * count})
        assert searching.evaluate(other) is (None if verdict is None else False)
        assert negated.evaluate(other) is verdict
        asked = compile_selector("text IS NOT NULL AND (text LIKE '%needle%' OR size = 1)")
        assert asked.matches(message_with({"text": "x" * count, "size": 1}))


def test_a_pattern_with_nothing_between_wildcards_is_of_texts_of_any_length() -> None:
    message = message_with({"text": "begin" + "x" * 100_000 + "end"})
    for pattern, verdict in (
        ("begin%end", True),
        ("begin%", True),
        ("%end", True),
        ("b_gin%_nd", True),
        ("begin", False),
        ("begin%other", False),
        ("%begin", False),
    ):
        assert compile_selector(f"text LIKE '{pattern}'").evaluate(message) is verdict
        assert compile_selector(f"text NOT LIKE '{pattern}'").evaluate(message) is not verdict


def test_a_selector_with_many_searches_makes_them_in_shorter_texts() -> None:
    tests = [f"text LIKE '%{number:03}%'" for number in range(300)]
    many, few = compile_selector(" OR ".join(tests)), compile_selector(" OR ".join(tests[:128]))
    longest = longest_text(len(tests))
    assert many.matches(message_with({"text": "007".rjust(longest)}))
    assert many.evaluate(message_with({"text": "007".rjust(longest + 1)})) is None
    assert few.matches(message_with({"text": "007".rjust(longest + 1)}))


def test_a_selector_that_costs_much_counts_as_several() -> None:
    def cost(text: str) -> int:
        return compile_selector(text).cost

    assert cost("a = 1") == cost("colour = 'red' AND size BETWEEN 1 AND 7 OR b LIKE 'x%y'") == 1
    assert cost("a LIKE '%x%'") == 9
    assert cost("a LIKE '%x%' AND b LIKE '%y%'") == 17
    assert cost("a LIKE '%x_y%'") == 25
    assert cost(" OR ".join(["a = 1"] * 100)) == 1 + 896 // 256 + 301 // 32
    assert cost(f"a = '{'x' * 8_000}'") == 1 + 8_006 // 256
    assert cost(" OR ".join(["a LIKE '%x_y%'"] * 400)) < 1_100


def test_only_so_many_selectors_are_kept() -> None:
    first = compile_selector("kept = 0")
    for number in range(1, selector_module.SELECTORS_KEPT + 1):
        compile_selector(f"kept = {number}")
    assert selector_module._kept_selector.cache_info().currsize == selector_module.SELECTORS_KEPT
    assert compile_selector("kept = 0") is not first


def test_long_selectors_work_and_are_not_kept() -> None:
    listed = ", ".join([f"'{number}'" for number in range(400)])
    text = f"color IN ({listed}, 'red')"
    assert SELECTOR_KEPT_CHARS < len(text) <= LENGTH_MAX
    assert compile_selector(text).matches(SUBJECT)
    assert compile_selector(text) is not compile_selector(text)


def test_a_selector_is_as_long_as_it_may_be() -> None:
    text = "color = 'red'"
    longest = text + " " * (LENGTH_MAX - len(text))
    assert Selector(longest).matches(SUBJECT)
    with pytest.raises(SelectorError, match=f"longer than {LENGTH_MAX} characters") as caught:
        Selector(longest + " ")
    assert caught.value.position == LENGTH_MAX


def test_a_row_of_a_thousand_conditions_is_compiled() -> None:
    row = " OR ".join(["x=1"] * 1_000)
    assert len(row) < LENGTH_MAX
    assert compile_selector(row).evaluate(SUBJECT) is None
    assert compile_selector(f"{row} OR flag").matches(SUBJECT)
    assert compile_selector(row.replace("OR", "AND")).evaluate(SUBJECT) is None


# ------------------------------------------------------------------------- docs/selectors.md


def _table_of_page(heading: str) -> list[list[str]]:
    """The rows of the first table whose heading begins like this, cell by cell."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n| {heading} |")
    assert rest, heading
    lines = rest.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def _quoted_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_names_every_name_and_its_kind() -> None:
    rows = _table_of_page("name | is | value")
    kinds = {_quoted_in(row[0])[0]: row[1] for row in rows if _quoted_in(row[0])}
    assert kinds == {name: known.kind for name, known in KNOWN_NAMES.items()}


def test_what_the_page_says_is_refused_is_refused() -> None:
    refused = [text for row in _table_of_page("refused | because") for text in _quoted_in(row[0])]
    assert len(refused) > 10
    for text in refused:
        with pytest.raises(SelectorError):
            compile_selector(text)


def test_what_the_page_advises_instead_is_accepted() -> None:
    advised = [
        text
        for row in _table_of_page("refused | because")
        for text in _quoted_in(row[1])
        if "=" in text or "IS" in text or "<" in text
    ]
    assert len(advised) == 3
    for text in advised:
        assert compile_selector(text).identifiers


def test_the_page_gives_the_limits() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"| length | {LENGTH_MAX:,} characters |" in page
    assert f"| {DEPTH_MAX}; a row of ANDs" in page
    assert (
        f"up to {SELECTOR_KEPT_CHARS:,} characters, the {selector_module.SELECTORS_KEPT}\n" in page
    )
