from __future__ import annotations

import dis
from itertools import pairwise, product
from random import Random
from types import CodeType, FunctionType
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hareline.selectors import compiler, rules
from hareline.selectors.compiler import compile_condition
from hareline.selectors.error import SelectorError
from hareline.selectors.parser import DEPTH_MAX, parse
from hareline.selectors.selector import Selector, compile_selector
from hareline.selectors.syntax import to_text
from hareline.wire.table import Table, Timestamp
from tests.support.messages import make_message

from . import naive
from .subjects import message_with

TRUTHS = make_message(headers=Table(t=True, f=False, one=1))

# Every way for something to be true, false or unknown: a property, a test, a constant, a negation.
FORMS: dict[bool | None, list[str]] = {
    True: ["t", "one = 1", "TRUE", "(NOT f)", "(absent IS NULL)", "(f = FALSE)"],
    False: ["f", "one = 2", "FALSE", "(NOT t)", "(one IS NULL)", "(t <> TRUE)"],
    None: ["u", "u = 1", "u > one", "(NOT u)", "(u BETWEEN 1 AND 2)", "(one = u + 1)"],
}
TRUTH_VALUES: list[bool | None] = [True, False, None]


def verdict(text: str) -> bool | None:
    selector = compile_selector(text)
    answer = selector.evaluate(TRUTHS)
    assert selector.matches(TRUTHS) is (answer is True)
    return answer


# ---------------------------------------------------------------------------------- truth tables

AND = {
    (True, True): True,
    (True, False): False,
    (True, None): None,
    (False, True): False,
    (False, False): False,
    (False, None): False,
    (None, True): None,
    (None, False): False,
    (None, None): None,
}
OR = {
    (True, True): True,
    (True, False): True,
    (True, None): True,
    (False, True): True,
    (False, False): False,
    (False, None): None,
    (None, True): True,
    (None, False): None,
    (None, None): None,
}
NOT = {True: False, False: True, None: None}


@pytest.mark.parametrize(("left", "right"), AND)
def test_and_or_and_their_negations_follow_the_truth_tables(
    left: bool | None, right: bool | None
) -> None:
    for a, b in product(FORMS[left], FORMS[right]):
        assert verdict(f"{a} AND {b}") is AND[left, right]
        assert verdict(f"{a} OR {b}") is OR[left, right]
        assert verdict(f"NOT ({a} AND {b})") is NOT[AND[left, right]]
        assert verdict(f"NOT ({a} OR {b})") is NOT[OR[left, right]]
        assert verdict(f"NOT {a} AND NOT {b}") is AND[NOT[left], NOT[right]]
        assert verdict(f"NOT {a} OR NOT {b}") is OR[NOT[left], NOT[right]]


@pytest.mark.parametrize("value", TRUTH_VALUES)
def test_not_follows_its_truth_table(value: bool | None) -> None:
    for a in FORMS[value]:
        assert verdict(a) is value
        assert verdict(f"NOT {a}") is NOT[value]
        assert verdict(f"NOT NOT {a}") is value
        assert verdict(f"NOT NOT NOT {a}") is NOT[value]


@pytest.mark.parametrize(("a", "b", "c"), list(product(TRUTH_VALUES, repeat=3)))
def test_three_operands_are_taken_by_precedence(
    a: bool | None, b: bool | None, c: bool | None
) -> None:
    texts = {True: "t", False: "f", None: "u"}
    x, y, z = texts[a], texts[b], texts[c]
    assert verdict(f"{x} AND {y} AND {z}") is AND[AND[a, b], c]
    assert verdict(f"{x} OR {y} OR {z}") is OR[OR[a, b], c]
    assert verdict(f"{x} OR {y} AND {z}") is OR[a, AND[b, c]]
    assert verdict(f"{x} AND {y} OR {z}") is OR[AND[a, b], c]
    assert verdict(f"({x} OR {y}) AND {z}") is AND[OR[a, b], c]
    assert verdict(f"{x} AND ({y} OR {z})") is AND[a, OR[b, c]]
    assert verdict(f"NOT {x} AND {y} OR {z}") is OR[AND[NOT[a], b], c]
    assert verdict(f"NOT ({x} AND NOT ({y} OR NOT {z}))") is NOT[AND[a, NOT[OR[b, NOT[c]]]]]


# ----------------------------------------------------------------------------- a second opinion


@given(naive.CONDITIONS, naive.HEADERS, st.booleans(), st.randoms(use_true_random=False))
def test_a_selector_says_what_the_naive_interpreter_says(
    tree: naive.Tree, headers: dict[str, object], is_redelivered: bool, random: Random
) -> None:
    assume(not naive.has_impossible_constant(tree))
    message = make_message(
        headers=Table(headers), priority=2, type="ab", delivery_mode=1, timestamp=Timestamp(3)
    )
    values = {
        **headers,
        "JMSPriority": 2,
        "JMSType": "ab",
        "JMSDeliveryMode": "NON_PERSISTENT",
        "JMSTimestamp": 3,
        "JMSRedelivered": is_redelivered,
    }
    text = naive.Printer(random).text(tree)
    selector = Selector(text)
    expected = naive.verdict(tree, values)
    assert selector.evaluate(message, is_redelivered) is expected, text
    assert selector.matches(message, is_redelivered) is (expected is True), text
    assert selector.identifiers == naive.names(tree)


@given(naive.CONDITIONS, naive.HEADERS, st.randoms(use_true_random=False))
def test_what_is_printed_says_the_same_as_what_was_parsed(
    tree: naive.Tree, headers: dict[str, object], random: Random
) -> None:
    assume(not naive.has_impossible_constant(tree))
    parsed = parse(naive.Printer(random).text(tree))
    again = parse(to_text(parsed))
    # by repr, which tells 1 from 1.0 and TRUE
    assert repr(again) == repr(parsed)
    message = message_with(headers)
    assert compile_condition(again)(message) is compile_condition(parsed)(message)


@pytest.mark.parametrize(
    ("level", "is_negation", "levels"),
    [
        ("NOT {}", True, DEPTH_MAX - 1),
        ("f OR (t AND ({}))", False, (DEPTH_MAX - 1) // 2),
        ("t AND NOT (f OR ({}))", True, (DEPTH_MAX - 1) // 3),
        ("({}) <> (one = 1)", True, (DEPTH_MAX - 1) // 2),
        ("t = (t AND (f OR ({})))", False, (DEPTH_MAX - 1) // 4),
    ],
)
def test_the_deepest_conditions_are_compiled(level: str, is_negation: bool, levels: int) -> None:
    text = "t"
    for _ in range(levels):
        text = level.format(text)
    assert verdict(text) is not (is_negation and levels % 2 == 1)
    with pytest.raises(SelectorError, match="too many nested levels"):
        compile_selector(level.format(level.format(text)))


def test_conditions_that_are_compared_make_no_more_code_than_text() -> None:
    lengths = []
    text = "a > 1"
    for _ in range((DEPTH_MAX - 1) // 4):
        text = f"NOT ({text} OR b IN ('x')) = (b BETWEEN 1 AND a)"
        lengths.append(len(_python_of(text)))
    growth = [after - before for before, after in pairwise(lengths)]
    assert max(growth) < 2 * min(growth)


def test_the_deepest_calculations_are_compiled() -> None:
    signs = "- " * (DEPTH_MAX - 2)
    assert verdict(f"{signs}one = {1 if DEPTH_MAX % 2 == 0 else -1}") is True
    assert verdict(f"one{' + one' * (DEPTH_MAX - 2)} = {DEPTH_MAX - 1}") is True
    brackets = "one + (" * (DEPTH_MAX - 3) + "one" + ")" * (DEPTH_MAX - 3)
    assert verdict(f"{brackets} = {DEPTH_MAX - 2}") is True


# ------------------------------------------------------------------------------------- safety

HOSTILE = [
    "__import__",
    "message",
    "matches",
    "c0",
    "v",
    "lambda: 0",
    "'); import os; ('",
    "{0}",
    "%s",
    "\\",
    "\n    return True",
    "#",
    "é",
    "None",
]


def _codes(code: CodeType) -> list[CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *[each for part in inner for each in _codes(part)]]


def _python_of(text: str) -> str:
    return compiler._Writer(rules.JMS).source(parse(text))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_of_a_selector_becomes_python(hostile: str) -> None:
    template = "\"{0}\" = '{1}' AND (\"{0}\" LIKE '%{1}%_' OR '{1}' IN ('{1}')) AND -\"{0}\" > 1"
    name, text = hostile.replace('"', '""'), hostile.replace("'", "''")
    hostile_selector = template.format(name, text)
    plain_selector = template.format("x", "y")
    assert _python_of(hostile_selector) == _python_of(plain_selector)
    assert compile_selector(hostile_selector).identifiers == {hostile}
    message = message_with({hostile: hostile, "x": "y"})
    assert compile_selector(f"\"{name}\" = '{text}'").matches(message)
    assert not compile_selector(f"\"{name}\" = '{text}.'").matches(message)


def test_the_generated_code_sees_no_builtins_and_its_own_names_only() -> None:
    text = (
        "a = 'x' AND b > 1 AND c IN ('x') AND d LIKE 'x%y_' AND JMSExpiration = 1"
        " AND -e + 2 < f * g / h % 3"
    )
    function = cast("FunctionType", compile_selector(text).matches)
    assert function.__globals__["__builtins__"] == {}
    fields = {"properties", "headers", "get", "expiration", "__class__"}
    used = {
        str(instruction.argval)
        for code in _codes(function.__code__)
        for instruction in dis.get_instructions(code)
        if instruction.opname.startswith("LOAD_") and instruction.arg is not None
        if "GLOBAL" in instruction.opname or "NAME" in instruction.opname
    }
    assert used <= set(rules.JMS.namespace) | fields
    assert "IS_NUMBER" in used


def test_selectors_of_one_shape_share_their_code() -> None:
    def code_of(text: str) -> Any:
        return cast("FunctionType", compile_selector(text).matches).__code__

    assert code_of("color = 'red' AND size > 3") is code_of("shape = 'round' AND weight > 2.5")
    assert code_of("color = 'red' AND size > 3") is not code_of("color = 'red' AND size >= 3")
    first = compile_selector("color = 'red' AND size > 3")
    second = compile_selector("shape = 'round' AND weight > 2.5")
    message = message_with({"color": "red", "size": 4, "shape": "round", "weight": 2})
    assert first.matches(message)
    assert not second.matches(message)


def test_a_property_is_read_once_however_often_it_is_named() -> None:
    assert _python_of("a = 1 OR a = 2 OR b = 3").count("headers.get(") == 2
    assert _python_of("a BETWEEN a AND a + 1").count("headers.get(") == 1
    assert _python_of("JMSPriority > 1 AND JMSPriority < 4").count("properties.priority") == 1


def test_only_short_shapes_are_kept_and_only_so_many() -> None:
    cache = compiler._kept_factory
    before = cache.cache_info()
    Selector(" OR ".join([f"x = {number}" for number in range(500)]))
    assert cache.cache_info().misses == before.misses
    for number in range(compiler.SHAPES_KEPT + 1):
        signs = "".join(["+" if bit == "1" else "-" for bit in f"{number:b}"])
        Selector(f"x {' x '.join(signs)} x = 1")
    assert cache.cache_info().currsize == compiler.SHAPES_KEPT
