"""Conditions as the terms that RabbitMQ's JMS client makes of selectors.

``written`` is such a client for the property tests: it writes the trees of ``naive`` as terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hareline.selectors import erlang_values
from hareline.selectors.erlang_condition import NESTING_MAX, PATTERN_LENGTH_MAX, parse_term
from hareline.selectors.error import SelectorError
from hareline.selectors.parser import parse
from hareline.selectors.selector import (
    ERLANG_TERMS,
    TERM_LENGTH_MAX,
    Selector,
    compile_selector,
)
from hareline.selectors.syntax import to_text
from hareline.wire.table import Table, Timestamp
from tests.support.messages import make_message
from tests.support.tables import hold_each

from . import naive
from .subjects import SUBJECT, message_with

VERDICTS = {"T": True, "F": False, "U": None}


# ------------------------------------------------------------------- what the client really sends


@pytest.mark.row("M17")
@pytest.mark.parametrize(
    ("term", "selector"),
    [
        ("{'ident',<<\"urgent\">>}", "urgent"),
        ("{'not',{'ident',<<\"urgent\">>}}", "NOT urgent"),
        (
            "{'and',{'is_null',{'ident',<<\"nothing\">>}},"
            "{'>',{'ident',<<\"JMSPrefix\">>},{'-',12,4}}}.",
            "nothing IS NULL AND JMSPrefix > 12 - 4",
        ),
        (
            "{'and',{'ident',<<\"boolProp\">>},{'>',{'ident',<<\"JMSPriority\">>},3}}",
            "boolProp AND JMSPriority > 3",
        ),
        (
            '{\'like\',{\'ident\',<<"a.b">>},<<"x!_%">>,<<"!">>}',
            "\"a.b\" LIKE 'x!_%' ESCAPE '!'",
        ),
        ("{'like',{'ident',<<\"a\">>},<<\"bl%\">>,'no_escape'}", "a LIKE 'bl%'"),
        ("{'not_like',{'ident',<<\"a\">>},<<\"l%\">>,'no_escape'}", "a NOT LIKE 'l%'"),
        ("{'between',{'ident',<<\"n\">>},1,3}", "n BETWEEN 1 AND 3"),
        ("{'not_between',{'ident',<<\"n\">>},{'range',1,3}}", "n NOT BETWEEN 1 AND 3"),
        ("{'not_in',{'ident',<<\"s\">>},[<<\"a\">>]}", "s NOT IN ('a')"),
        ('{\'in\',{\'ident\',<<"s">>},[<<"a">>,<<"b">>]}', "s IN ('a', 'b')"),
        ("{'not_null',{'ident',<<\"p\">>}}", "p IS NOT NULL"),
        # the client takes what stands in a row from the right
        ("{'=',{'ident',<<\"n\">>},{'-',12,{'-',4,1}}}", "n = 12 - (4 - 1)"),
        (
            "{'or',{'ident',<<\"a\">>},{'or',{'ident',<<\"b\">>},"
            "{'or',{'ident',<<\"c\">>},{'ident',<<\"d\">>}}}}",
            "a OR b OR c OR d",
        ),
        (
            "{'and',{'or',{'ident',<<\"a\">>},{'ident',<<\"b\">>}},"
            "{'or',{'ident',<<\"c\">>},{'ident',<<\"d\">>}}}",
            "(a OR b) AND (c OR d)",
        ),
        (
            "{'and',{'and',{'ident',<<\"a\">>},{'ident',<<\"b\">>}},{'ident',<<\"c\">>}}",
            "a AND b AND c",
        ),
        ("{'<=',{'-',{'ident',<<\"n\">>}},{'-',5}}", "-n <= -5"),
        ("{'>=',{'+',{'ident',<<\"n\">>}},{'-',{'-',5}}}", "+n >= 5"),
        ("{'<',{'*',{'ident',<<\"n\">>},2.5},1.57E12}", "n * 2.5 < 1.57E12"),
        (
            "{'=',{'>',{'ident',<<\"n\">>},1},{'<>',{'ident',<<\"m\">>},2}}",
            "(n > 1) = (m <> 2)",
        ),
        ("{'=',{'ident',<<\"flag\">>},'true'}", "flag = TRUE"),
        (
            '{\'=\',{\'ident\',<<"it\'s">>},<<"say \\"hi\\" \\\\o/">>}',
            '"it\'s" = \'say "hi" \\o/\'',
        ),
    ],
)
def test_a_term_has_the_tree_of_its_selector(term: str, selector: str) -> None:
    assert repr(parse_term(term)) == repr(parse(selector))


# ------------------------------------------------------------------------------- what they mean


def ident(name: str) -> str:
    return f"{{'ident',<<\"{name}\">>}}"


#: What is to be said of the message, and the term.
TERMS = [
    ("T", "'true'"),
    ("F", "'false'"),
    ("T", ident("flag")),
    ("F", ident("off")),
    ("U", ident("absent")),
    ("U", ident("color")),
    ("U", f"{{'and',{ident('flag')},{ident('color')}}}"),
    ("F", f"{{'and',{ident('off')},{ident('color')}}}"),
    ("T", f"{{'or',{ident('flag')},{ident('color')}}}"),
    ("U", f"{{'not',{ident('size')}}}"),
    # identifiers are headers, and nothing else
    ("T", f"{{'=',{ident('JMSType')},<<\"header\">>}}"),
    ("T", f"{{'=',{ident('JMSPriority')},9}}"),
    ("T", f"{{'is_null',{ident('JMSMessageID')}}}"),
    ("T", f"{{'is_null',{ident('JMSRedelivered')}}}"),
    ("T", f"{{'=',{ident('a.b')},1}}"),
    # what is neither text, number nor boolean is as if it were not there
    *(("T", f"{{'is_null',{ident(name)}}}") for name in ("blob", "array", "table", "price")),
    *(("T", f"{{'is_null',{ident(name)}}}") for name in ("when", "void")),
    ("U", f"{{'<>',{ident('blob')},<<\"red\">>}}"),
    ("U", f"{{'not',{{'=',{ident('table')},1}}}}"),
    # numbers of all widths
    *(("T", f"{{'not_null',{ident(name)}}}") for name in ("byte", "ubyte", "short", "uint")),
    ("T", f"{{'=',{ident('seven')},7}}"),
    ("T", f"{{'=',{ident('long')},7.0}}"),
    ("F", f"{{'=',{ident('big')},9007199254740992.0}}"),
    ("T", f"{{'>',{ident('big')},9007199254740992.0}}"),
    # values of different types are not equal, and in Erlang's order
    ("F", f"{{'=',{ident('digits')},2}}"),
    ("T", f"{{'<>',{ident('digits')},2}}"),
    ("T", f"{{'<>',2,{ident('digits')}}}"),
    ("F", f"{{'=',{ident('one')},'true'}}"),
    ("T", f"{{'<>',{ident('one')},'true'}}"),
    ("T", f"{{'>',{ident('color')},1000000}}"),
    ("F", f"{{'<=',{ident('color')},1000000}}"),
    ("T", f"{{'<',{ident('one')},'false'}}"),
    ("T", f"{{'>',{ident('color')},<<\"blue\">>}}"),
    ("F", f"{{'>=',{ident('color')},<<\"reds\">>}}"),
    ("T", f"{{'not',{{'<',{ident('color')},5}}}}"),
    ("T", f'{{\'between\',{ident("color")},<<"a">>,<<"s">>}}'),
    ("T", f"{{'not_between',{ident('color')},1,5}}"),
    ("U", f"{{'=',{ident('absent')},1}}"),
    ("U", f"{{'<>',{ident('absent')},{ident('absent')}}}"),
    ("U", f"{{'<',{ident('one')},{ident('absent')}}}"),
    ("U", f"{{'between',{ident('size')},9,{ident('absent')}}}"),
    ("F", f"{{'between',{ident('size')},6,9}}"),
    ("T", f"{{'between',{ident('size')},5,5}}"),
    # arithmetic
    ("T", f"{{'=',{{'/',{ident('long')},2}},3.5}}"),
    ("T", f"{{'=',{{'+',{ident('most')},1}},9223372036854775808.0}}"),
    ("T", "{'=',{'-',12,{'-',4,1}},9}"),
    ("U", f"{{'=',{{'+',{ident('digits')},1}},3}}"),
    ("U", f"{{'>',{{'/',{ident('size')},0}},1}}"),
    ("U", f"{{'not',{{'=',{{'/',1,0}},{ident('size')}}}}}"),
    # in, like
    ("T", f'{{\'in\',{ident("color")},[<<"blue">>,<<"red">>]}}'),
    ("F", f"{{'not_in',{ident('color')},[<<\"red\">>]}}"),
    ("F", f"{{'in',{ident('color')},[]}}"),
    ("F", f"{{'in',{ident('size')},[<<\"5\">>]}}"),
    ("T", f"{{'not_in',{ident('size')},[<<\"5\">>]}}"),
    ("U", f"{{'in',{ident('absent')},[<<\"x\">>]}}"),
    ("T", f"{{'like',{ident('phone')},<<\"12%3\">>,'no_escape'}}"),
    ("F", f"{{'like',{ident('color')},<<\"r_\">>,'no_escape'}}"),
    ("T", f"{{'not_like',{ident('color')},<<\"r_\">>,'no_escape'}}"),
    ("T", f'{{\'like\',{ident("under")},<<"!_f%">>,<<"!">>}}'),
    ("U", f"{{'like',{ident('absent')},<<\"%\">>,'no_escape'}}"),
    ("F", f"{{'like',{ident('size')},<<\"%\">>,'no_escape'}}"),
    # RabbitMQ lets the escape character stand before anything, and at the end
    ("T", f'{{\'like\',{ident("color")},<<"!r!ed">>,<<"!">>}}'),
    ("F", f'{{\'like\',{ident("color")},<<"red!">>,<<"!">>}}'),
    ("T", f'{{\'like\',{ident("percent")},<<"50%">>,<<"%">>}}'),
    ("T", f'{{\'like\',{ident("percent")},<<"!50!%">>,<<"!">>}}'),
    # conditions as values
    ("T", f"{{'=',{{'>',{ident('size')},4}},{ident('flag')}}}"),
    ("U", f"{{'=',{{'>',{ident('absent')},4}},'false'}}"),
    ("T", f"{{'<>',{{'is_null',{ident('size')}}},{{'is_null',{ident('absent')}}}}}"),
    ("T", f"{{'<',{{'is_null',{ident('size')}}},{{'is_null',{ident('absent')}}}}}"),
]


@pytest.mark.row("M17")
def test_a_term_says_of_the_message() -> None:
    def says(verdict: str, term: str) -> None:
        selector = Selector(term, ERLANG_TERMS)
        # differs: jms-like
        assert selector.evaluate(SUBJECT) is VERDICTS[verdict]
        assert selector.matches(SUBJECT) is (verdict == "T")
        opposite = {"T": False, "F": True, "U": None}[verdict]
        assert Selector(f"{{'not',{term}}}", ERLANG_TERMS).evaluate(SUBJECT) is opposite

    hold_each(TERMS, says)


def test_a_message_without_headers_is_of_no_condition_on_them() -> None:
    assert not Selector(f"{{'=',{ident('a')},1}}", ERLANG_TERMS).matches(make_message())
    assert Selector(f"{{'is_null',{ident('a')}}}", ERLANG_TERMS).matches(make_message())


def test_equal_terms_share_a_selector_which_is_not_that_of_the_other_language() -> None:
    first = compile_selector("true", ERLANG_TERMS)
    assert compile_selector("true", ERLANG_TERMS) is first
    assert compile_selector("true") is not first
    # one shape of code in both, and yet each with its own meaning
    text = message_with({"size": "x"})
    assert compile_selector(f"{{'<=',{ident('size')},{ident('size')}}}", ERLANG_TERMS).matches(text)
    assert not compile_selector("size <= size").matches(text)


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.row("M17")
@pytest.mark.parametrize(
    ("term", "problem", "position"),
    [
        ("", "expected a term", 0),
        ("{'fun',1}", "an unknown atom `fun`", 1),
        ("5", "expected a condition, not a number", 0),
        ('<<"a">>', "expected a condition, not a text", 0),
        ("{'-',1}", "expected a condition, not a number", 0),
        ("{'and',true,5}", "expected a condition, not a number", 12),
        ("{'not',{'+',{ident,<<\"a\">>},1}}", "expected a condition, not a number", 7),
        ("{'or',true}", "or is followed by 2 terms, not 1", 0),
        ("{'-',1,2,3}", "- is followed by 1 or 2 terms, not 3", 0),
        ("{'between',1}", "between is followed by 2 or 3 terms, not 1", 0),
        ("{'regex',1}", "regex is not an operation", 0),
        ("{true,1}", "true is not an operation", 0),
        ("ident", "ident is allowed only at the beginning of a tuple", 0),
        ("{'=',no_escape,1}", "no_escape is allowed only at the beginning of a tuple", 5),
        ("{}", "a tuple begins with the name of an operation", 0),
        ("{1,2}", "a tuple begins with the name of an operation", 0),
        ("[]", "a list is allowed only after in and not_in", 0),
        ("{'=',[],1}", "a list is allowed only after in and not_in", 5),
        ('{\'=\',{ident,<<"a">>},"b"}', 'a text is written <<"...">>', 21),
        ("{ident,a}", "an unknown atom `a`", 7),
        ("{ident,5}", 'ident names a header, in <<"...">>', 7),
        ('{ident,"a"}', 'ident names a header, in <<"...">>', 7),
        ('{is_null,<<"a">>}', "is_null tests an ident", 9),
        ("{not_null,{'+',1,2}}", "not_null tests an ident", 10),
        ('{\'in\',{ident,<<"a">>},<<"b">>}', 'in is followed by a list of texts in <<"...">>', 22),
        ("{'in',{ident,<<\"a\">>},{}}", 'in is followed by a list of texts in <<"...">>', 22),
        ('{not_in,{ident,<<"a">>},[1]}', 'not_in is followed by a list of texts in <<"...">>', 25),
        ('{like,{ident,<<"a">>},5,no_escape}', 'like is followed by a pattern in <<"...">>', 22),
        (
            '{like,{ident,<<"a">>},<<"b">>,<<"!!">>}',
            'like ends with no_escape or one character in <<"...">>',
            30,
        ),
        (
            '{not_like,{ident,<<"a">>},<<"b">>,<<>>}',
            'not_like ends with no_escape or one character in <<"...">>',
            34,
        ),
        (
            '{like,{ident,<<"a">>},regex,<<"(a+)+b">>}',
            'like is followed by a pattern in <<"...">>',
            22,
        ),
        (
            "{between,1,[2,3]}",
            "between is followed by three terms, or two and the second a range",
            11,
        ),
        ("{range,1,2}", "range is not an operation", 0),
        ("{'+',true,1}", "+ calculates with numbers, not a boolean", 5),
        ("{'+',1,<<\"a\">>}", "+ calculates with numbers, not a text", 7),
        ("{'-',{'=',1,1}}", "- calculates with numbers, not a condition", 5),
        ("true false", "expected the end", 5),
    ],
)
def test_what_can_never_be_true_is_explained(term: str, problem: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_term(term)
    # differs: jms-regex
    assert (caught.value.problem, caught.value.position) == (problem, position)
    assert len(f"PRECONDITION_FAILED - invalid arg 'rjms_erlang_selector': {caught.value}") < 255


@pytest.mark.row("M17")
def test_terms_nest_so_deep_and_no_deeper() -> None:
    deepest = "{'not'," * NESTING_MAX + "true" + "}" * NESTING_MAX
    assert to_text(parse_term(deepest)).count("NOT") == NESTING_MAX
    with pytest.raises(SelectorError, match="too many nested levels"):
        parse_term("{'not'," * (NESTING_MAX + 1) + "true" + "}" * (NESTING_MAX + 1))
    # an ident has terms inside as well
    deepest = "{'not'," * (NESTING_MAX - 1) + ident("a") + "}" * (NESTING_MAX - 1)
    assert to_text(parse_term(deepest)).count("NOT") == NESTING_MAX - 1
    for inmost in (
        ident("a"),
        "{'in',<<>>,[]}",
        "{'between',1,2,3}",
    ):
        with pytest.raises(SelectorError, match="too many nested levels"):
            parse_term("{'not'," * NESTING_MAX + inmost + "}" * NESTING_MAX)
    for inmost in ("{'in',<<>>,[<<>>]}", "{'between',1,{'range',2,3}}"):
        with pytest.raises(SelectorError, match="too many nested levels"):
            parse_term("{'not'," * (NESTING_MAX - 1) + inmost + "}" * (NESTING_MAX - 1))


@pytest.mark.row("M17")
@pytest.mark.parametrize("word", ["and", "or"])
def test_a_long_row_is_one_level(word: str) -> None:
    names = [f"n{number}" for number in range(400)]
    term = ident(names[-1])
    for name in names[-2::-1]:
        term = f"{{'{word}',{ident(name)},{term}}}"
    assert len(term) < TERM_LENGTH_MAX
    tree = parse_term(term)
    assert tree == parse(f" {word} ".join(names))
    message = message_with(dict.fromkeys(names, word == "and"))
    assert Selector(term, ERLANG_TERMS).evaluate(message) is (word == "and")


@pytest.mark.row("M17")
def test_a_pattern_has_a_longest_length() -> None:
    start, end = f"{{'like',{ident('a')},<<\"", "\">>,'no_escape'}"
    pattern = "%_" * (PATTERN_LENGTH_MAX // 2)
    message = message_with({"a": "x" * PATTERN_LENGTH_MAX})
    assert Selector(start + pattern + end, ERLANG_TERMS).matches(message)
    assert not Selector(start + pattern[:-1] + "y" + end, ERLANG_TERMS).matches(message)
    with pytest.raises(SelectorError, match="a pattern has at most 1024 characters"):
        parse_term(start + pattern + "_" + end)


def test_a_term_has_a_longest_length() -> None:
    start, end = f"{{'=',{ident('a')},<<\"", '">>}'
    text = "x" * (TERM_LENGTH_MAX - len(start + end))
    assert Selector(start + text + end, ERLANG_TERMS).matches(message_with({"a": text}))
    with pytest.raises(SelectorError, match="longer than 16384 characters"):
        Selector(start + text + "x" + end, ERLANG_TERMS)


# ----------------------------------------------------------------------------- a second opinion


class Writer:
    """Writes a tree of ``naive`` as a term; ``random`` decides what may be written in two ways."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def group(self, name: str, *parts: str) -> str:
        items = [self.atom(name), *parts]
        blank = self.random.choice(("", "", " ", "\n"))
        return "{" + blank + f"{blank},".join(items) + blank + "}"

    def atom(self, name: str) -> str:
        is_bare = name.replace("_", "").isalpha() and self.random.random() < 0.3
        return name if is_bare else f"'{name}'"

    def term(self, tree: naive.Tree) -> str:
        match tree:
            case "literal", value:
                return self.literal(value)
            case "name", name:
                return self.group("ident", binary(name))
            case "sign", sign, part:
                return self.group(sign, self.term(part))
            case "arithmetic" | "compare", sign, left, right:
                return self.group(sign, self.term(left), self.term(right))
            case "between", value, low, high, is_negated:
                name = "not_between" if is_negated else "between"
                ends = [self.term(low), self.term(high)]
                if self.random.random() < 0.3:
                    ends = [self.group("range", *ends)]
                return self.group(name, self.term(value), *ends)
            case "in", value, texts, is_negated:
                listed = f"[{','.join(map(binary, texts))}]"
                return self.group("not_in" if is_negated else "in", self.term(value), listed)
            case "like", value, pattern, escape, is_negated:
                ending = self.atom("no_escape") if escape is None else binary(escape)
                name = "not_like" if is_negated else "like"
                return self.group(name, self.term(value), binary(pattern), ending)
            case "null", value, is_negated:
                return self.group("not_null" if is_negated else "is_null", self.term(value))
            case "not", part:
                return self.group("not", self.term(part))
            case ("and" | "or") as word, left, right:
                return self.group(word, self.term(left), self.term(right))
        raise AssertionError(tree)

    def literal(self, value: object) -> str:
        if isinstance(value, bool):
            return self.atom("true" if value else "false")
        if isinstance(value, str):
            return binary(value)
        digits = repr(value)
        if "e" in digits and "." not in digits:
            digits = digits.replace("e", ".0e")
        if digits.startswith("-") and self.random.random() < 0.5:
            return self.group("-", digits[1:]) if digits != f"-{2**63}" else digits
        return digits


def binary(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{escaped}">>'


def computes(tree: naive.Tree) -> bool:
    """A part of it is a constant that the two languages may compute differently, or cannot."""
    if tree[0] in ("sign", "arithmetic") and not naive.names(tree):
        return True
    return any(computes(part) for part in tree if isinstance(part, tuple) and part)


def is_simplified(tree: naive.Tree) -> bool:
    """A condition is compared with TRUE or FALSE, of which a selector makes that condition."""
    match tree:
        case "compare", _, ("literal", _), ((kind, *_)) if kind not in ("literal", "name"):
            return True
        case "compare", _, ((kind, *_)), ("literal", _) if kind not in ("literal", "name"):
            return True
    return any(is_simplified(part) for part in tree if isinstance(part, tuple) and part)


def is_written(tree: naive.Tree) -> bool:
    """The client has words for it: no ``%``, and IS NULL of names alone."""
    match tree:
        case "arithmetic", "%", _, _:
            return False
        case "null", (kind, *_), _ if kind != "name":
            return False
    return all(is_written(part) for part in tree if isinstance(part, tuple) and part)


@pytest.mark.row("M17")
@given(naive.CONDITIONS, st.randoms(use_true_random=False))
def test_a_term_and_the_selector_of_the_same_condition_have_one_tree(
    tree: naive.Tree, random: Random
) -> None:
    assume(is_written(tree) and not computes(tree) and not is_simplified(tree))
    selector = parse(naive.Printer(random).text(tree))
    term = parse_term(Writer(random).term(tree) + random.choice(("", ".", " . ")))
    assert repr(term) == repr(selector)  # by repr, which tells 1 from 1.0 and TRUE
    assert to_text(term) == to_text(selector)


_COMPARE: dict[str, Callable[[Any, Any], bool | None]] = {
    "=": erlang_values.equal,
    "<>": erlang_values.unequal,
    "<": erlang_values.less,
    "<=": erlang_values.at_most,
    ">": lambda left, right: erlang_values.less(right, left),
    ">=": lambda left, right: erlang_values.at_most(right, left),
}
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": erlang_values.add,
    "-": erlang_values.subtract,
    "*": erlang_values.multiply,
    "/": erlang_values.divide,
}


def verdict(tree: naive.Tree, headers: Mapping[str, object]) -> bool | None:
    """RabbitMQ's meaning of a tree, one operation after the other."""
    value = evaluate(tree, headers)
    return value if isinstance(value, bool) else None


def evaluate(tree: naive.Tree, headers: Mapping[str, object]) -> Any:
    match tree:
        case "literal", value:
            return value
        case "name", name:
            value = headers.get(name)
            is_known = isinstance(value, (int, float, str)) and not isinstance(value, Timestamp)
            return value if is_known else None
        case "sign", sign, part:
            value = evaluate(part, headers)
            return erlang_values.negate(value) if sign == "-" else erlang_values.number(value)
        case "arithmetic", sign, left, right:
            return _COMPUTE[sign](evaluate(left, headers), evaluate(right, headers))
        case "compare", sign, left, right:
            return _COMPARE[sign](evaluate(left, headers), evaluate(right, headers))
        case "between", value, low, high, is_negated:
            values = [evaluate(part, headers) for part in (value, low, high)]
            if None in values:
                return None
            inside = erlang_values.at_most(values[1], values[0]) is True
            return (
                inside and erlang_values.at_most(values[0], values[2]) is True
            ) is not is_negated
        case "in", value, texts, is_negated:
            text = evaluate(value, headers)
            return None if text is None else (text in texts) is not is_negated
        case "like", value, pattern, escape, is_negated:
            text = evaluate(value, headers)
            if text is None:
                return None
            return isinstance(text, str) and naive.like(text, pattern, escape) is not is_negated
        case "null", value, is_negated:
            return (evaluate(value, headers) is None) is not is_negated
        case "not", part:
            answer = verdict(part, headers)
            return None if answer is None else not answer
        case ("and" | "or") as word, left, right:
            answers = [verdict(left, headers), verdict(right, headers)]
            decisive = word == "or"
            return decisive if decisive in answers else None if None in answers else not decisive
    raise AssertionError(tree)


@pytest.mark.row("M17")
@given(naive.CONDITIONS, naive.HEADERS, st.randoms(use_true_random=False))
def test_a_term_says_what_an_interpreter_of_it_says(
    tree: naive.Tree, headers: dict[str, object], random: Random
) -> None:
    assume(is_written(tree))
    message = make_message(headers=Table(headers), priority=2, type="ab", timestamp=Timestamp(3))
    term = Writer(random).term(tree)
    selector = Selector(term, ERLANG_TERMS)
    expected = verdict(tree, headers)
    assert selector.evaluate(message) is expected, term
    assert selector.matches(message) is (expected is True), term
    assert selector.identifiers <= naive.names(tree)
