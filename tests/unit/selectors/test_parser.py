from __future__ import annotations

import inspect
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.selectors.error import SelectorError
from hareline.selectors.parser import DEPTH_MAX, parse
from hareline.selectors.selector import LENGTH_MAX
from hareline.selectors.syntax import (
    And,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Property,
    to_text,
)
from tests.support.tables import hold_each

A, B = Property("a"), Property("b")


#: What is written, and the same with all its brackets.
TREES = [
    ("a OR b AND c", "a OR (b AND c)"),
    ("a AND b OR c", "(a AND b) OR c"),
    ("(a OR b) AND c", "(a OR b) AND c"),
    ("NOT a AND b", "(NOT a) AND b"),
    ("NOT a OR b", "(NOT a) OR b"),
    ("NOT NOT a", "NOT (NOT a)"),
    ("NOT a = 1", "NOT (a = 1)"),
    ("NOT a IN ('x')", "NOT (a IN ('x'))"),
    ("NOT a IS NULL", "NOT (a IS NULL)"),
    ("NOT a BETWEEN 1 AND 2 AND b", "(NOT (a BETWEEN 1 AND 2)) AND b"),
    ("a = 1 AND b = 2", "(a = 1) AND (b = 2)"),
    ("a + b = c - d", "(a + b) = (c - d)"),
    ("a + b * c > 0", "(a + (b * c)) > 0"),
    ("a * b + c > 0", "((a * b) + c) > 0"),
    ("a - b - c > 0", "((a - b) - c) > 0"),
    ("a - (b - c) > 0", "(a - (b - c)) > 0"),
    ("a / b / c > 0", "((a / b) / c) > 0"),
    ("a / b * c % d > 0", "(((a / b) * c) % d) > 0"),
    ("-a * b > 0", "((-a) * b) > 0"),
    ("a * -b > 0", "(a * (-b)) > 0"),
    ("- + -a > 0", "(-(+(-a))) > 0"),
    ("a - -b > 0", "(a - (-b)) > 0"),
    ("-(a + b) > 0", "(-(a + b)) > 0"),
    ("a BETWEEN b + 1 AND c * 2", "a BETWEEN (b + 1) AND (c * 2)"),
    ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
    ("a + 1 NOT BETWEEN 1 AND 2 OR b", "((a + 1) NOT BETWEEN 1 AND 2) OR b"),
    ("a + 1 IS NULL", "(a + 1) IS NULL"),
    ("a = b = c", "(a = b) = c"),
    ("a = NOT b", "a = (NOT b)"),
    ("a > 1 = b", "(a > 1) = b"),
    ("(a > 1) <> (b > 2)", "(a > 1) <> (b > 2)"),
    ("a = NOT b = c", "a = (NOT (b = c))"),
    ("a LIKE 'x%' OR b", "(a LIKE 'x%') OR b"),
    ("a LIKE 'x!%' ESCAPE '!' AND b", "(a LIKE 'x!%' ESCAPE '!') AND b"),
    ("a NOT LIKE 'it''s'", "a NOT LIKE 'it''s'"),
    # rows of one kind are one node
    ("a AND b AND c AND d", "a AND b AND c AND d"),
    ("a AND (b AND (c AND d))", "a AND b AND c AND d"),
    ("((a OR b) OR c) OR d", "a OR b OR c OR d"),
    ("a OR (b AND c) OR d", "a OR (b AND c) OR d"),
    # what says the same in fewer kinds of nodes
    ("a NOT IN ('x', 'y')", "NOT (a IN ('x', 'y'))"),
    ("a IS NOT NULL", "NOT (a IS NULL)"),
    ("(a > 1) = TRUE", "a > 1"),
    ("(a > 1) = FALSE", "NOT (a > 1)"),
    ("(a > 1) <> TRUE", "NOT (a > 1)"),
    ("(a > 1) <> FALSE", "a > 1"),
    ("TRUE = (a > 1)", "a > 1"),
    ("a > 1 = TRUE", "a > 1"),
    ("(a AND b) = FALSE", "NOT (a AND b)"),
    ("a = TRUE", "a = TRUE"),
    ("((a)) = (('x'))", "a = 'x'"),
    # constants are computed
    ("a > 10 * 1024", "a > 10240"),
    ("a > 2 + 3 * 4 - 5", "a > 9"),
    ("a > 7 / 2", "a > 3"),
    ("a > 7 / 2.0", "a > 3.5"),
    ("a > -7 / 2", "a > -3"),
    ("a > -(2 + 3)", "a > -5"),
    ("a > +5", "a > 5"),
    ("a > - -5", "a > 5"),
    ("a > -9223372036854775808", "a > -9223372036854775808"),
    ("a > -0x8000000000000000", "a > -9223372036854775808"),
    ("a > -(-9223372036854775807 - 1)", "a > -9223372036854775808"),
    ("a > -1.5", "a > -1.5"),
    ("a > 1E3", "a > 1000.0"),
    ("2 + 3 < a", "5 < a"),
    ("a + 1 + 2 > 0", "((a + 1) + 2) > 0"),
    # names
    ('"a" = 1', "a = 1"),
    ('"a.b" = 1', '"a.b" = 1'),
    ('"AND" = "say ""hi"""', '"AND" = "say ""hi"""'),
    ("größe = 1", "größe = 1"),
]


def test_a_selector_has_this_tree() -> None:
    def has_this_tree(text: str, bracketed: str) -> None:
        tree = parse(text)
        assert to_text(tree) == bracketed
        assert repr(parse(bracketed)) == repr(tree)

    hold_each(TREES, has_this_tree)


def test_the_nodes_of_a_tree() -> None:
    text = "a = 1 AND NOT b IS NULL AND a LIKE '_' ESCAPE 'x' AND b IN ('y', 'z')"
    assert parse(text) == And(
        (
            Comparison("=", A, Literal(1)),
            Not(IsNull(B)),
            Like(A, "_", "x", False),
            In(B, ("y", "z")),
        )
    )


VALUE = "expected a name, a value, NOT or ("
CONTINUATION = "expected an operator or the end"

ERRORS = [
    # nothing, and half of something
    ("", "it is empty", 0),
    ("  \n", "it is empty", 0),
    ("/* nothing */", "it is empty", 0),
    ("a =", VALUE, 3),
    ("a = ", VALUE, 4),
    ("a = AND", VALUE, 4),
    ("= 1", VALUE, 0),
    ("AND a", VALUE, 0),
    ("a AND", VALUE, 5),
    ("a AND AND b", VALUE, 6),
    ("a OR", VALUE, 4),
    ("NOT", VALUE, 3),
    ("a + = 1", VALUE, 4),
    ("()", VALUE, 1),
    ("(a", "expected an operator or )", 2),
    ("(a = 1 b", "expected an operator or )", 7),
    ("a)", CONTINUATION, 1),
    ("a b", CONTINUATION, 2),
    ("a = 1 b = 2", CONTINUATION, 6),
    ("a = 'x' 'y'", CONTINUATION, 8),
    ("a = 1, b = 2", CONTINUATION, 5),
    ("a ESCAPE 'x'", CONTINUATION, 2),
    ("a == 1", VALUE, 3),
    ("a => 1", VALUE, 3),
    ("a < > 1", VALUE, 4),
    # NULL
    ("a = NULL", "NULL cannot be compared; use IS NULL", 2),
    ("a <> null", "NULL cannot be compared; use IS NULL", 2),
    ("a > NULL", "NULL cannot be compared; use IS NULL", 2),
    ("NULL", "NULL is allowed only in IS NULL and IS NOT NULL", 0),
    ("NULL = a", "NULL is allowed only in IS NULL and IS NOT NULL", 0),
    ("NULL IS NULL", "NULL is allowed only in IS NULL and IS NOT NULL", 0),
    ("a + NULL > 1", "NULL is allowed only in IS NULL and IS NOT NULL", 4),
    ("a BETWEEN NULL AND 1", "NULL is allowed only in IS NULL and IS NOT NULL", 10),
    ("a IS 1", "expected NULL or NOT NULL", 5),
    ("a IS", "expected NULL or NOT NULL", 4),
    ("a IS NOT", "expected NULL", 8),
    ("a IS NOT 'x'", "expected NULL", 9),
    ("a IS TRUE", "expected NULL or NOT NULL", 5),
    ("'x' IS NULL", "IS NULL tests properties, not a text", 0),
    ("1 + 1 IS NOT NULL", "IS NULL tests properties, not a number", 0),
    ("TRUE IS NULL", "IS NULL tests properties, not a boolean", 0),
    ("(a > 1) IS NULL", "IS NULL tests properties, not a condition", 0),
    # a condition is wanted
    ("1", "expected a condition, not a number", 0),
    ("'a'", "expected a condition, not a text", 0),
    ("a + 1", "expected a condition, not a number", 0),
    ("-a", "expected a condition, not a number", 0),
    ("(5)", "expected a condition, not a number", 0),
    ("JMSPriority", "expected a condition, not a number", 0),
    ("JMSType", "expected a condition, not a text", 0),
    ("a AND 1", "expected a condition, not a number", 6),
    ("'x' OR a", "expected a condition, not a text", 0),
    ("a OR b AND 'x'", "expected a condition, not a text", 11),
    ("NOT 5", "expected a condition, not a number", 4),
    ("NOT 'a'", "expected a condition, not a text", 4),
    ("a AND (b + 1)", "expected a condition, not a number", 6),
    # never equal
    ("'a' = 1", "a text is never equal to a number", 4),
    ("1 = 'a'", "a number is never equal to a text", 2),
    ("1 <> TRUE", "a number is never equal to a boolean", 2),
    ("'TRUE' = TRUE", "a text is never equal to a boolean", 7),
    ("a + 1 = 'x'", "a number is never equal to a text", 6),
    ("-a = TRUE", "a number is never equal to a boolean", 3),
    ("JMSPriority = '4'", "a number is never equal to a text", 12),
    ("JMSDeliveryMode = 2", "a text is never equal to a number", 16),
    ("JMSType = JMSPriority", "a text is never equal to a number", 8),
    ("JMSRedelivered = 'TRUE'", "a boolean is never equal to a text", 15),
    # no order
    ("a < 'x'", "< compares numbers, not a text", 4),
    ("'x' >= a", ">= compares numbers, not a text", 0),
    ("a > TRUE", "> compares numbers, not a boolean", 4),
    ("JMSType > 1", "> compares numbers, not a text", 0),
    ("JMSMessageID <= JMSCorrelationID", "<= compares numbers, not a text", 0),
    ("JMSRedelivered > a", "> compares numbers, not a boolean", 0),
    # conditions that are compared
    ("1 < a < 5", "< compares numbers, not a condition", 0),
    ("(a > 1) > TRUE", "> compares numbers, not a condition", 0),
    ("a >= NOT b", ">= compares numbers, not a condition", 5),
    ("(a > 1) = 1", "a condition is never equal to a number", 8),
    ("a = b <> 'x'", "a condition is never equal to a text", 6),
    ("JMSType = NOT b", "a text is never equal to a condition", 8),
    # arithmetic
    ("'a' + 1 = 2", "+ calculates with numbers, not a text", 0),
    ("a + 'b' = 'ab'", "+ calculates with numbers, not a text", 4),
    ("a * TRUE = 1", "* calculates with numbers, not a boolean", 4),
    ("a - (b > 1) = 1", "- calculates with numbers, not a condition", 4),
    ("JMSType % 2 = 1", "% calculates with numbers, not a text", 0),
    ("-'a' = 1", "- is for numbers, not a text", 1),
    ("+TRUE = 1", "+ is for numbers, not a boolean", 1),
    ("-(a > 1) = 1", "- is for numbers, not a condition", 1),
    ("- NOT a", "- is for numbers, not a condition", 2),
    ("a > 1 / 0", "a calculation without a finite result", 6),
    ("a > 1 % 0", "a calculation without a finite result", 6),
    ("a > 1.0 / 0", "a calculation without a finite result", 8),
    ("a > 0.0 / 0", "a calculation without a finite result", 8),
    ("a > 1E308 * 10", "a calculation without a finite result", 10),
    ("a > 9223372036854775808", "a number beyond 64 bits", 4),
    ("a > 1 - 9223372036854775808", "a number beyond 64 bits", 8),
    ("a > -(9223372036854775808)", "a number beyond 64 bits", 6),
    ("a > +9223372036854775808", "a number beyond 64 bits", 5),
    # BETWEEN
    ("a BETWEEN 1", "expected AND and the upper end of BETWEEN", 11),
    ("a BETWEEN 1 OR 2", "expected AND and the upper end of BETWEEN", 12),
    ("a BETWEEN 1, 2", "expected AND and the upper end of BETWEEN", 11),
    ("a BETWEEN 1 AND", VALUE, 15),
    ("a BETWEEN 'x' AND 'y'", "BETWEEN compares numbers, not a text", 10),
    ("a BETWEEN 1 AND TRUE", "BETWEEN compares numbers, not a boolean", 16),
    ("'a' BETWEEN 1 AND 2", "BETWEEN compares numbers, not a text", 0),
    ("JMSType NOT BETWEEN 1 AND 2", "BETWEEN compares numbers, not a text", 0),
    ("a BETWEEN 1 AND (b > 2)", "BETWEEN compares numbers, not a condition", 16),
    # IN
    ("a IN", "expected ( and texts in single quotes", 4),
    ("a IN 'x'", "expected ( and texts in single quotes", 5),
    ("a IN ()", "expected a text in single quotes", 6),
    ("a IN (1, 2)", "expected a text in single quotes", 6),
    ("a IN ('x',)", "expected a text in single quotes", 10),
    ("a IN ('x', b)", "expected a text in single quotes", 11),
    ("a IN (NULL)", "expected a text in single quotes", 6),
    ("a IN ('x'", "expected , or )", 9),
    ("a IN ('x' 'y')", "expected , or )", 10),
    ("5 IN ('x')", "IN tests texts, not a number", 0),
    ("a + 1 IN ('x')", "IN tests texts, not a number", 0),
    ("TRUE NOT IN ('x')", "IN tests texts, not a boolean", 0),
    ("JMSPriority IN ('4')", "IN tests texts, not a number", 0),
    ("(a = 1) IN ('x')", "IN tests texts, not a condition", 0),
    # LIKE
    ("a LIKE", "expected a text in single quotes", 6),
    ("a LIKE b", "expected a text in single quotes", 7),
    ("a LIKE 5", "expected a text in single quotes", 7),
    ("a LIKE NULL", "expected a text in single quotes", 7),
    ("5 LIKE '5'", "LIKE tests texts, not a number", 0),
    ("JMSTimestamp LIKE '1%'", "LIKE tests texts, not a number", 0),
    ("a > 1 LIKE 'x'", "LIKE tests texts, not a condition", 0),
    ("a LIKE 'x' ESCAPE", "expected a text in single quotes", 17),
    ("a LIKE 'x' ESCAPE 5", "expected a text in single quotes", 18),
    ("a LIKE 'x' ESCAPE ''", "ESCAPE needs exactly one character", 18),
    ("a LIKE 'x' ESCAPE '!!'", "ESCAPE needs exactly one character", 18),
    ("a LIKE 'x!' ESCAPE '!'", "the escape character may precede only _, % or itself", 7),
    ("a LIKE '!x' ESCAPE '!'", "the escape character may precede only _, % or itself", 7),
    # NOT in the middle
    ("a NOT", "expected BETWEEN, IN or LIKE", 5),
    ("a NOT = 1", "expected BETWEEN, IN or LIKE", 6),
    ("a NOT NULL", "expected BETWEEN, IN or LIKE", 6),
    ("a NOT IS NULL", "expected BETWEEN, IN or LIKE", 6),
    ("a NOT b", "expected BETWEEN, IN or LIKE", 6),
    ('a NOT "IN"', "expected BETWEEN, IN or LIKE", 6),
    # a token that is none, wherever it stands
    ("a = 1 AND b.c = 2", "a name with dots needs double quotes", 10),
]


def test_what_can_never_be_right_is_explained() -> None:
    def is_explained(text: str, problem: str, position: int) -> None:
        with pytest.raises(SelectorError) as caught:
            parse(text)
        assert (caught.value.problem, caught.value.position) == (problem, position)
        assert len(str(caught.value).encode()) < 255

    hold_each(ERRORS, is_explained)


# how a level is put around what is inside, and how many of the levels allowed it takes
LEVELS = [
    ("({})", 0.5),
    ("NOT {}", 1),
    ("b OR (c AND ({}))", 2),
    ("NOT (b IN ('x') OR {})", 2),
    ("({}) = (b = 1)", 2),
]


@pytest.mark.parametrize(("level", "cost"), LEVELS)
def test_conditions_nest_so_deep_and_no_deeper(level: str, cost: float) -> None:
    text = "a"
    for _ in range(int((DEPTH_MAX - 1) / cost)):
        text = level.format(text)
        assert to_text(parse(text))
    for _ in range(3):
        text = level.format(text)
    with pytest.raises(SelectorError, match="too many nested levels"):
        parse(text)


def test_signs_and_sums_nest_so_deep_and_no_deeper() -> None:
    # the property itself and the comparison are a level each
    assert to_text(parse(f"{'- ' * (DEPTH_MAX - 2)}a = 1"))
    assert to_text(parse("a = 1" + " + a" * (DEPTH_MAX - 2)))
    for text in (f"{'- ' * (DEPTH_MAX - 1)}a = 1", "a = 1" + " + a" * (DEPTH_MAX - 1)):
        with pytest.raises(SelectorError, match="too many nested levels"):
            parse(text)


def test_a_sum_of_constants_has_one_level() -> None:
    assert parse("a = 1" + " + 1" * 1000) == Comparison("=", A, Literal(1001))


@pytest.mark.parametrize(
    "piece", ["(", "NOT ", "-", "- ", "a+(", "a=(b*(", "a OR b AND c = d + e * (", "1-"]
)
def test_the_deepest_nesting_is_refused_without_a_deep_stack(piece: str) -> None:
    text = piece * (LENGTH_MAX // len(piece))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 500)
    try:
        with pytest.raises(SelectorError):
            parse(text)
    finally:
        sys.setrecursionlimit(limit)


PIECES = [
    *["a", "b", "JMSType", "JMSPriority", '"x y"', "1", "2.5", "'t'", "TRUE", "NULL", "("],
    *[")", ",", "=", "<>", "<", "+", "-", "*", "AND", "OR", "NOT", "IN", "IS", "LIKE"],
    *["BETWEEN", "ESCAPE", "/* */", "--", "\n", "."],
]


@given(st.lists(st.sampled_from(PIECES)))
def test_any_row_of_tokens_is_a_selector_or_a_selector_error(pieces: list[str]) -> None:
    text = " ".join(pieces)
    position = 0
    try:
        tree = parse(text)
    except SelectorError as error:
        position = error.position
    else:
        assert repr(parse(to_text(tree))) == repr(tree)
    assert 0 <= position <= len(text)
