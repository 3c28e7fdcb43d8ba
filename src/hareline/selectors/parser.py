"""Parses the tokens of a selector into its tree, and checks all that is known beforehand.

Tighter operators come first in this table, as in the JMS
specification (section 3.8.1.1); operators in one line are evaluated from left to right:

===============  ==========================================================================
signs            ``-x``  ``+x``
products         ``*``  ``/``  ``%``
sums             ``+``  ``-``
tests            ``=  <>  <  <=  >  >=``  [NOT] BETWEEN  [NOT] IN  [NOT] LIKE  IS [NOT] NULL
NOT
AND
OR
===============  ==========================================================================

A selector that can never be true is an error here: a text compared with a number, an order of
texts, ``= NULL``, a number where a condition belongs. Constants are computed;
``NOT IN`` and ``IS NOT NULL`` become a NOT, which means the same; a condition compared with TRUE or
FALSE becomes that condition or its NOT. Comparing conditions is Qpid's addition.

Invariant: no node of a tree lies deeper than ``DEPTH_MAX``, so code that walks it may recurse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, cast

from hareline.selectors import syntax, values
from hareline.selectors.error import SelectorError
from hareline.selectors.identifiers import KNOWN_NAMES
from hareline.selectors.lexer import EXACT_MAX, Token, tokens_of
from hareline.selectors.like import PatternProblem, check_pattern

DEPTH_MAX: Final = 64
_NESTING_MAX: Final = 2 * DEPTH_MAX + 1  # a right side in brackets is two calls for one level

_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _SIGN = range(1, 8)

# "unknown": a property, whose type differs from message to message. "condition": the result of a
# test or a logical operator; unlike a boolean it is not a value until it is compared.
Kind = Literal["unknown", "number", "text", "boolean", "condition"]

_KIND_NAMES: Final[dict[Kind, str]] = {
    "unknown": "a property",
    "number": "a number",
    "text": "a text",
    "boolean": "a boolean",
    "condition": "a condition",
}

_COMPUTE: Final = {
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.remainder,
}


class _Operand(NamedTuple):
    """A part of the tree and its kind. ``start``: its first character in the text."""

    node: syntax.Node
    kind: Kind
    start: int
    depth: int


def parse(text: str) -> syntax.Condition:
    """The tree of a selector. Raises SelectorError."""
    return _Parser(text).selector()


class _Parser:
    """Operator precedence: ``_prefix`` reads a left side, ``_INFIX`` what may follow it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._index = 0
        self._nesting = 0

    def selector(self) -> syntax.Condition:
        if len(self._tokens) == 1:
            raise self._problem("it is empty", 0)
        whole = self._expression(0)
        if self._token.kind != "end":
            raise self._expected("an operator or the end")
        return self._condition(whole)

    def _expression(self, power: int) -> _Operand:
        """The expression from here on, of all that binds more tightly than ``power``."""
        self._nesting += 1
        if self._nesting > _NESTING_MAX:
            raise self._problem("too many nested levels", self._token.position)
        left = self._prefix()
        while True:
            if left.depth > DEPTH_MAX:
                raise self._problem("too many nested levels", left.start)
            token = self._token
            infix = _INFIX.get(token.text) if token.kind in ("operator", "keyword") else None
            if infix is None or infix[0] <= power:
                break
            left = infix[1](self, left)
        self._nesting -= 1
        return left

    # -------------------------------------------------------- what an expression begins with

    def _prefix(self) -> _Operand:
        token = self._token
        match token.kind, token.text:
            case "text", text:
                self._advance()
                return _Operand(syntax.Literal(text), "text", token.position, 1)
            case (("exact" | "approximate"), _):
                self._advance()
                return self._number(token.number, token.position)
            case "name", name:
                self._advance()
                kind: Kind = KNOWN_NAMES[name].kind if name in KNOWN_NAMES else "unknown"
                return _Operand(syntax.Property(name), kind, token.position, 1)
            case "keyword", ("TRUE" | "FALSE" as word):
                self._advance()
                return _Operand(syntax.Literal(word == "TRUE"), "boolean", token.position, 1)
            case "keyword", "NOT":
                return self._not()
            case "keyword", "NULL":
                raise self._problem(
                    "NULL is allowed only in IS NULL and IS NOT NULL", token.position
                )
            case "operator", ("+" | "-"):
                return self._sign()
            case "operator", "(":
                return self._bracket()
        raise self._expected("a name, a value, NOT or (")

    def _bracket(self) -> _Operand:
        start = self._advance().position
        inner = self._expression(0)
        if not self._accept(")"):
            raise self._expected("an operator or )")
        return inner._replace(start=start)

    def _not(self) -> _Operand:
        start = self._advance().position
        part = self._expression(_NOT)
        return _Operand(syntax.Not(self._condition(part)), "condition", start, part.depth + 1)

    def _sign(self) -> _Operand:
        sign = self._advance()
        if sign.text == "-" and self._token.kind == "exact":
            # parsed together, because 2**63 is valid only with the minus
            return self._number(-self._advance().number, sign.position)
        inner = self._expression(_SIGN)
        value = self._number_part(inner, f"{sign.text} is for")
        if isinstance(value, syntax.Literal):
            result = (values.negate if sign.text == "-" else values.number)(value.value)
            return self._computed(result, sign.position, sign)
        node = syntax.Sign(sign.text, value)
        return _Operand(node, "number", sign.position, inner.depth + 1)

    def _number(self, number: values.Number, start: int) -> _Operand:
        if isinstance(number, int) and number > EXACT_MAX:
            raise self._problem("a number beyond 64 bits", start)
        return _Operand(syntax.Literal(number), "number", start, 1)

    # -------------------------------------------------------------- what goes on with it

    def _join(self, left: _Operand) -> _Operand:
        """AND and OR, a whole row at once: a row of a thousand is as deep as one of two."""
        word = self._token.text
        node_type, power = (syntax.And, _AND) if word == "AND" else (syntax.Or, _OR)
        parts: list[syntax.Condition] = []
        depth = 0
        operand = left
        while True:
            part = self._condition(operand)
            if isinstance(part, node_type):  # it was in brackets, which have no effect here
                parts.extend(part.parts)
            else:
                parts.append(part)
            depth = max(depth, operand.depth)
            if not self._accept(word):
                return _Operand(node_type(tuple(parts)), "condition", left.start, depth + 1)
            operand = self._expression(power)

    def _compare(self, left: _Operand) -> _Operand:
        operator = self._advance()
        if self._token.kind == "keyword" and self._token.text == "NULL":
            raise self._problem("NULL cannot be compared; use IS NULL", operator.position)
        right = self._expression(_TEST)
        if operator.text not in ("=", "<>"):
            for side in (left, right):
                self._number_part(side, f"{operator.text} compares")
        elif "condition" in (left.kind, right.kind):
            return self._compare_condition(left, operator, right)
        elif left.kind != right.kind and "unknown" not in (left.kind, right.kind):
            raise self._never_equal(left, operator, right)
        return self._comparison(left, operator, right)

    def _compare_condition(self, left: _Operand, operator: Token, right: _Operand) -> _Operand:
        """``(x > 3) = TRUE``, which is ``x > 3``, and conditions as values."""
        condition, other = (left, right) if left.kind == "condition" else (right, left)
        if other.kind in ("number", "text"):
            raise self._never_equal(left, operator, right)
        match other.node:
            case syntax.Literal(bool(wanted)):
                if wanted is (operator.text == "="):
                    return condition._replace(start=left.start)
                node = syntax.Not(self._condition(condition))
                return _Operand(node, "condition", left.start, condition.depth + 1)
        return self._comparison(_truth(left), operator, _truth(right))

    def _comparison(self, left: _Operand, operator: Token, right: _Operand) -> _Operand:
        node = syntax.Comparison(operator.text, _value(left), _value(right))
        return _Operand(node, "condition", left.start, max(left.depth, right.depth) + 1)

    def _never_equal(self, left: _Operand, operator: Token, right: _Operand) -> SelectorError:
        return self._problem(
            f"{_KIND_NAMES[left.kind]} is never equal to {_KIND_NAMES[right.kind]}",
            operator.position,
        )

    def _calculate(self, left: _Operand) -> _Operand:
        operator = self._advance()
        right = self._expression(_SUM if operator.text in "+-" else _PRODUCT)
        first = self._number_part(left, f"{operator.text} calculates with")
        second = self._number_part(right, f"{operator.text} calculates with")
        if isinstance(first, syntax.Literal) and isinstance(second, syntax.Literal):
            result = _COMPUTE[operator.text](first.value, second.value)
            return self._computed(result, left.start, operator)
        node = syntax.Arithmetic(operator.text, first, second)
        return _Operand(node, "number", left.start, max(left.depth, right.depth) + 1)

    def _computed(self, result: values.Number | None, start: int, operator: Token) -> _Operand:
        """The result of an operation on constants."""
        if result is None or not math.isfinite(result):
            raise self._problem("a calculation without a finite result", operator.position)
        return _Operand(syntax.Literal(result), "number", start, 1)

    def _negated_test(self, left: _Operand) -> _Operand:
        self._advance()
        test = _NEGATABLE.get(self._token.text) if self._token.kind == "keyword" else None
        if test is None:
            raise self._expected("BETWEEN, IN or LIKE")
        return test(self, left, True)

    def _between(self, left: _Operand, is_negated: bool = False) -> _Operand:
        self._advance()
        low = self._expression(_TEST)
        if not self._accept("AND"):
            raise self._expected("AND and the upper end of BETWEEN")
        high = self._expression(_TEST)
        node = syntax.Between(
            self._number_part(left, "BETWEEN compares"),
            self._number_part(low, "BETWEEN compares"),
            self._number_part(high, "BETWEEN compares"),
            is_negated,
        )
        depth = max(left.depth, low.depth, high.depth) + 1
        return _Operand(node, "condition", left.start, depth)

    def _in(self, left: _Operand, is_negated: bool = False) -> _Operand:
        self._advance()
        value = self._text_part(left, "IN")
        if not self._accept("("):
            raise self._expected("( and texts in single quotes")
        texts = [self._text_token().text]
        while self._accept(","):
            texts.append(self._text_token().text)
        if not self._accept(")"):
            raise self._expected(", or )")
        return self._test(syntax.In(value, tuple(texts)), left, is_negated)

    def _like(self, left: _Operand, is_negated: bool = False) -> _Operand:
        self._advance()
        value = self._text_part(left, "LIKE")
        pattern = self._text_token()
        escape: str | None = None
        if self._accept("ESCAPE"):
            token = self._text_token()
            escape = token.text
            if len(escape) != 1:
                raise self._problem("ESCAPE needs exactly one character", token.position)
        try:
            check_pattern(pattern.text, escape)
        except PatternProblem as problem:
            raise self._problem(str(problem), pattern.position) from None
        return self._test(syntax.Like(value, pattern.text, escape, is_negated), left)

    def _is(self, left: _Operand) -> _Operand:
        self._advance()
        is_negated = self._accept("NOT")
        if not self._accept("NULL"):
            raise self._expected("NULL" if is_negated else "NULL or NOT NULL")
        if left.kind == "condition" or isinstance(left.node, syntax.Literal):
            raise self._problem(f"IS NULL tests properties, not {_of(left)}", left.start)
        return self._test(syntax.IsNull(_value(left)), left, is_negated)

    def _test(self, node: syntax.Condition, left: _Operand, is_negated: bool = False) -> _Operand:
        """A test of ``left``; its other operands have no depth."""
        if is_negated:
            return _Operand(syntax.Not(node), "condition", left.start, left.depth + 2)
        return _Operand(node, "condition", left.start, left.depth + 1)

    # ----------------------------------------------------------------- kinds of operands

    def _condition(self, operand: _Operand) -> syntax.Condition:
        if operand.kind in ("number", "text"):
            raise self._problem(f"expected a condition, not {_of(operand)}", operand.start)
        return cast("syntax.Condition", operand.node)

    def _number_part(self, operand: _Operand, purpose: str) -> syntax.Value:
        """``purpose`` begins the error text; "numbers, not ..." follows."""
        if operand.kind not in ("unknown", "number"):
            raise self._problem(f"{purpose} numbers, not {_of(operand)}", operand.start)
        return _value(operand)

    def _text_part(self, operand: _Operand, word: str) -> syntax.Value:
        if operand.kind not in ("unknown", "text"):
            raise self._problem(f"{word} tests texts, not {_of(operand)}", operand.start)
        return _value(operand)

    # ---------------------------------------------------------------------------- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _advance(self) -> Token:
        token = self._tokens[self._index]
        self._index += 1
        return token

    def _accept(self, word: str) -> bool:
        """Step over the next token if it is this operator or keyword."""
        token = self._token
        if token.text != word or token.kind not in ("operator", "keyword"):
            return False
        self._index += 1
        return True

    def _text_token(self) -> Token:
        if self._token.kind != "text":
            raise self._expected("a text in single quotes")
        return self._advance()

    def _expected(self, what: str) -> SelectorError:
        return self._problem(f"expected {what}", self._token.position)

    def _problem(self, problem: str, position: int) -> SelectorError:
        return SelectorError(problem, self._text, position)


def _value(operand: _Operand) -> syntax.Value:
    """The node of an operand that is not a condition."""
    return cast("syntax.Value", operand.node)


def _truth(operand: _Operand) -> _Operand:
    """A condition as a value; a value stays unchanged."""
    if operand.kind != "condition":
        return operand
    node = syntax.Truth(cast("syntax.Condition", operand.node))
    return operand._replace(node=node, kind="boolean", depth=operand.depth + 1)


def _of(operand: _Operand) -> str:
    return _KIND_NAMES[operand.kind]


_NEGATABLE: Final[dict[str, Callable[[_Parser, _Operand, bool], _Operand]]] = {
    "BETWEEN": _Parser._between,
    "IN": _Parser._in,
    "LIKE": _Parser._like,
}

_INFIX: Final[dict[str, tuple[int, Callable[[_Parser, _Operand], _Operand]]]] = {
    "OR": (_OR, _Parser._join),
    "AND": (_AND, _Parser._join),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), (_TEST, _Parser._compare)),
    "BETWEEN": (_TEST, _Parser._between),
    "IN": (_TEST, _Parser._in),
    "LIKE": (_TEST, _Parser._like),
    "IS": (_TEST, _Parser._is),
    "NOT": (_TEST, _Parser._negated_test),
    **dict.fromkeys(("+", "-"), (_SUM, _Parser._calculate)),
    **dict.fromkeys(("*", "/", "%"), (_PRODUCT, _Parser._calculate)),
}
