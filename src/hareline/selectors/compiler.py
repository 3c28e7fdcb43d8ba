"""Compiles the tree of a selector to a Python function in bytecode.                         [hot]

A match asks one question, "is it true?", so the code need
not carry unknowns: three-valued logic is split into two questions, and Python's own ``and``,
``or`` and ``not`` answer both, stopping as early as they can. (Only a condition that is compared
with something needs all three values, and carries its unknowns: ``_verdict``.)

===========  ==========================  ===============================================
node         it is true when             it is false when
===========  ==========================  ===============================================
``a AND b``  a is true and b is true     a is false or b is false
``a OR b``   a is true or b is true      a is false and b is false
``NOT a``    a is false                  a is true
a test       it holds                    it does not hold, and no value in it is NULL
===========  ==========================  ===============================================

Each node is written once, for the one question that its place asks. This is the code of
``color = 'red' AND NOT size > 3``, with the constants "color", "red", "size" and 3::

    def make(c0, c1, c2, c3):
        def matches(message, is_redelivered=False):
            properties = message.properties
            headers = properties.headers
            if headers is None: headers = NO_HEADERS
            return ((v := headers.get(c0)) == c1 and
                not (IS_NUMBER[(v := headers.get(c2)).__class__] and v > c3) and v is not None)
        return matches

Safety: no text of a client becomes part of the Python text. Names, texts and numbers are all
constants, passed to ``make``, and the generated code sees the names in ``Rules.namespace``
and no builtins. For the same reason selectors of one shape share one text, and Python's compiler
runs once for all of them: a client that waits for a reply with ``JMSCorrelationID = '...'`` makes a
new selector for each request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol, TypeGuard

from hareline.message import Message
from hareline.selectors import rules, syntax
from hareline.selectors.like import longest_text, pattern_test, search_steps
from hareline.selectors.rules import Rules

SHAPES_KEPT: Final = 256
SHAPE_KEPT_CHARS: Final = 4_096  # longer Python texts are compiled again each time

# From this number on Java compares with a double as two doubles; Python would compare exactly.
_DOUBLE_EXACT: Final = 2**53

_COMPUTE: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "remainder"}
_COMPARE: Final = {"=": "equal", "<>": "unequal", "<": "less", "<=": "at_most"}
_MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_IN_PYTHON: Final = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Matcher(Protocol):
    """True if the message matches, False if it does not or if that is unknown."""

    def __call__(self, message: Message, is_redelivered: bool = False, /) -> bool: ...


def compile_condition(tree: syntax.Condition, language: Rules = rules.JMS) -> Matcher:
    """The function that says whether this condition is true for a message."""
    writer = _Writer(language)
    source = writer.source(tree)
    is_kept = len(source) <= SHAPE_KEPT_CHARS
    make = _kept_factory(source, language) if is_kept else _factory(source, language)
    return make(*writer.constants)


def like_steps(nodes: list[syntax.Node]) -> int:
    """The most that all LIKEs together may cost, for each character of their texts."""
    likes = [node for node in nodes if isinstance(node, syntax.Like)]
    return sum([search_steps(like.pattern, like.escape) for like in likes])


def _factory(source: str, language: Rules) -> Callable[..., Matcher]:
    """The function ``make`` of such a text."""
    namespace: dict[str, Any] = dict(language.namespace)
    exec(compile(source, "<selector>", "exec"), namespace)
    make: Callable[..., Matcher] = namespace["make"]
    return make


_kept_factory: Final = lru_cache(SHAPES_KEPT)(_factory)


class _Writer:
    """Writes the Python text of one tree and collects its constants."""

    def __init__(self, language: Rules) -> None:
        self.constants: list[object] = []
        self._rules = language
        self._locals: dict[str, str] = {}  # property name -> the local that holds its value
        self._longest_text = 0  # that a LIKE searches
        self._longest_name = ""  # the constant that says so; the same for all of them

    def source(self, tree: syntax.Condition) -> str:
        nodes = syntax.nodes_in(tree)
        self._longest_text = longest_text(like_steps(nodes))
        lines = []
        for name, uses in Counter(syntax.names_among(nodes)).items():
            if uses > 1:
                local = f"x{len(self._locals)}"
                lines.append(f"{local} = {self._reading(name)}")
                self._locals[name] = local
        lines.append(f"return {self._when_true(tree)}")
        code = "\n".join(lines)
        if "headers" in code:
            lines.insert(0, "headers = properties.headers")
            lines.insert(1, "if headers is None: headers = NO_HEADERS")
        if "headers" in code or "properties" in code:
            lines.insert(0, "properties = message.properties")
        body = "\n".join([f"        {line}" for line in lines])
        names = ", ".join([f"c{number}" for number in range(len(self.constants))])
        return (
            f"def make({names}):\n"
            f"    def matches(message, is_redelivered=False):\n{body}\n"
            f"    return matches\n"
        )

    def _constant(self, value: object) -> str:
        self.constants.append(value)
        return f"c{len(self.constants) - 1}"

    # ------------------------------------------------------------------------- conditions

    def _when_true(self, node: syntax.Condition) -> str:
        """An expression that is True or False, and binds at least as tightly as ``and``."""
        match node:
            case syntax.Literal(value):
                return str(value is True)
            case syntax.Property():
                return f"{self._value(node)} is True"
            case syntax.IsNull(value):
                return f"{self._value(value)} is None"
            case syntax.Not(part):
                return self._when_false(part)
            case syntax.And(parts):
                return f"({' and '.join([self._when_true(part) for part in parts])})"
            case syntax.Or(parts):
                return f"({' or '.join([self._when_true(part) for part in parts])})"
        return self._test(node)[0]

    def _when_false(self, node: syntax.Condition) -> str:
        match node:
            case syntax.Literal(value):
                return str(value is False)
            case syntax.Property():
                return f"{self._value(node)} is False"
            case syntax.IsNull(value):
                return f"{self._value(value)} is not None"
            case syntax.Not(part):
                return self._when_true(part)
            case syntax.And(parts):
                return f"({' or '.join([self._when_false(part) for part in parts])})"
            case syntax.Or(parts):
                return f"({' and '.join([self._when_false(part) for part in parts])})"
        return self._test(node)[1]

    def _test(self, node: syntax.Test) -> tuple[str, str]:
        """Conditions of true, and of false. The local ``v`` is the value that is tested."""
        match node:
            case syntax.Comparison(operator, left, right):
                if isinstance(left, syntax.Literal):
                    operator, left, right = _MIRRORED[operator], right, left
                if not _is_simple(right) or (self._rules.has_one_order and operator != "="):
                    return self._general_comparison(operator, left, right)
                return _answers(self._comparison(left, operator, right.value))
            case syntax.Between(value, low, high, is_negated):
                if not (_is_simple(low) and _is_simple(high)) or self._rules.has_one_order:
                    return self._call("not_between" if is_negated else "between", value, low, high)
                v = self._assignment(value)
                bottom, top = self._constant(low.value), self._constant(high.value)
                # not the opposite of each other for NaN
                inside, outside = f"{bottom} <= v <= {top}", f"(v < {bottom} or v > {top})"
                return _answers(f"IS_NUMBER[{v}.__class__] and {outside if is_negated else inside}")
            case syntax.In(value, texts):
                v = self._assignment(value)
                listed = self._constant(frozenset(texts))
                return _answers(f"{v}.__class__ is TEXT and v in {listed}")
            case syntax.Like(value, pattern, escape, is_negated):
                v = self._assignment(value)
                code, constant, steps = pattern_test(pattern, escape)
                is_like = code.format(c=self._constant(constant))
                is_unlike = f"not {is_like}"
                if is_negated:
                    is_like, is_unlike = is_unlike, is_like
                if not steps:
                    return _answers(f"{v}.__class__ is TEXT and {is_like}")
                is_short = f"length(v) <= {self._longest()}"  # in a longer one it is unknown
                return (
                    f"{v}.__class__ is TEXT and {is_short} and {is_like}",
                    f"{v} is not None and (v.__class__ is not TEXT or {is_short} and {is_unlike})",
                )

    def _longest(self) -> str:
        if not self._longest_name:
            self._longest_name = self._constant(self._longest_text)
        return self._longest_name

    def _comparison(self, left: syntax.Value, operator: str, constant: syntax.Constant) -> str:
        v = self._assignment(left)
        if isinstance(constant, bool):
            return f"{v} is {constant is (operator == '=')}"
        compared = f"{_IN_PYTHON[operator]} {self._constant(constant)}"
        if operator not in ("=", "<>"):
            return f"IS_NUMBER[{v}.__class__] and v {compared}"
        if not isinstance(constant, str):
            return f"{v} {compared} and IS_NUMBER[v.__class__]"  # to Python, True is 1
        if operator == "<>":
            return f"{v} {compared} and v.__class__ is TEXT"
        return f"{v} {compared}"

    def _general_comparison(
        self, operator: str, left: syntax.Value, right: syntax.Value
    ) -> tuple[str, str]:
        return _asked_of(self._compared(operator, left, right))

    def _compared(self, operator: str, left: syntax.Value, right: syntax.Value) -> str:
        """A call that returns True, False or None."""
        if operator in (">", ">="):
            operator, left, right = _MIRRORED[operator], right, left
        return f"{_COMPARE[operator]}({self._value(left)}, {self._value(right)})"

    def _call(self, function: str, *operands: syntax.Value) -> tuple[str, str]:
        return _asked_of(f"{function}({', '.join([self._value(each) for each in operands])})")

    def _verdict(self, node: syntax.Condition) -> str:
        """An expression that is True, False or None.

        Its length grows with that of the condition, however conditions and comparisons alternate.
        """
        match node:
            case syntax.Literal() | syntax.Property():
                return f"boolean({self._value(node)})"
            case syntax.Not(part):
                return f"opposite({self._verdict(part)})"
            case syntax.And(parts):
                return f"all_of(({', '.join([self._verdict(part) for part in parts])}))"
            case syntax.Or(parts):
                return f"any_of(({', '.join([self._verdict(part) for part in parts])}))"
            case syntax.Comparison(operator, left, right):
                return self._compared(operator, left, right)
            case syntax.IsNull(value):
                return f"({self._value(value)} is None)"
        is_true, is_false = self._test(node)
        return f"(True if {is_true} else False if {is_false} else None)"

    # ----------------------------------------------------------------------------- values

    def _assignment(self, node: syntax.Value) -> str:
        return f"(v := {self._value(node)})"

    def _value(self, node: syntax.Value) -> str:
        """An expression that binds more tightly than any operator."""
        match node:
            case syntax.Literal(value):
                return self._constant(value)
            case syntax.Property(name):
                return self._locals.get(name) or self._reading(name)
            case syntax.Sign(operator, value):
                return f"{'negate' if operator == '-' else 'number'}({self._value(value)})"
            case syntax.Arithmetic(operator, left, right):
                return f"{_COMPUTE[operator]}({self._value(left)}, {self._value(right)})"
            case syntax.Truth(part):
                return self._verdict(part)

    def _reading(self, name: str) -> str:
        known = self._rules.names.get(name)
        if known is not None:
            return f"({known.code})"
        return self._rules.reading.format(name=self._constant(name))


def _answers(test: str) -> tuple[str, str]:
    """Conditions under which a test of the local ``v`` is true, and false."""
    return test, f"not ({test}) and v is not None"


def _asked_of(call: str) -> tuple[str, str]:
    """Conditions under which an expression of True, False or None is true, and false."""
    return f"{call} is True", f"{call} is False"


def _is_simple(node: syntax.Value) -> TypeGuard[syntax.Literal]:
    """A constant with which Python compares any number as Java does."""
    if not isinstance(node, syntax.Literal):
        return False
    value = node.value
    return isinstance(value, (str, bool)) or -_DOUBLE_EXACT < value < _DOUBLE_EXACT
