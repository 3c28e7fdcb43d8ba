"""Reads a condition as an Erlang term into the tree of a selector.

Called by ``selectors.selector`` for the bindings of an ``x-jms-topic`` exchange. RabbitMQ's
JMS client does not send the selector of a subscriber but a term that it made from the selector:
``size > 12-4 AND absent IS NULL`` comes as

    {'and',{'>',{'ident',<<"size">>},{'-',12,4}},{'is_null',{'ident',<<"absent">>}}}.

The tree is the one that ``parser`` makes from a selector, so the same compiler reads it;
``selectors.rules`` has the differences of the two languages. The operations are RabbitMQ's
(``sjx_evaluator``). A term that can never be true in RabbitMQ, a number as a condition for example,
is an error here, as in the selectors of other bindings.

Invariant: no part of a term lies deeper than ``NESTING_MAX``, which is RabbitMQ's limit. The client
nests ``a OR b OR c`` to the right; such a row counts as one level here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.selectors import erlang_values, syntax
from hareline.selectors.error import SelectorError
from hareline.selectors.term_reader import (
    Atom,
    Binary,
    CharacterList,
    Group,
    Number,
    Term,
    read_term,
)

NESTING_MAX: Final = 16
PATTERN_LENGTH_MAX: Final = 1_024  # characters; RabbitMQ has a limit as well, and matches nothing

_VALUES: Final = (
    syntax.Literal,
    syntax.Property,
    syntax.Sign,
    syntax.Arithmetic,
    syntax.Truth,
)
_COMPUTE: Final = {
    "+": erlang_values.add,
    "-": erlang_values.subtract,
    "*": erlang_values.multiply,
    "/": erlang_values.divide,
}


def parse_term(text: str) -> syntax.Condition:
    """The tree of the condition in a term. Raises SelectorError."""
    return _Builder(text).condition(read_term(text), 0)


class _Builder:
    """``_BUILDERS`` names the method for an operation with this many operands.

    ``depth``: how many tuples and lists a term is nested in.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def condition(self, term: Term, depth: int) -> syntax.Condition:
        node = self._node(term, depth)
        match node:
            case syntax.Literal(value) if not isinstance(value, bool):
                kind = "a text" if isinstance(value, str) else "a number"
                raise self._problem(f"expected a condition, not {kind}", term)
            case syntax.Sign() | syntax.Arithmetic():
                raise self._problem("expected a condition, not a number", term)
            case syntax.Truth(part):
                return part
        return node

    def _value(self, term: Term, depth: int) -> syntax.Value:
        node = self._node(term, depth)
        return node if isinstance(node, _VALUES) else syntax.Truth(node)

    def _node(self, term: Term, depth: int) -> syntax.Node:
        if depth + (isinstance(term, Group) and bool(term.items)) > NESTING_MAX:
            raise self._problem("too many nested levels", term)
        match term:
            case Number(value, _):
                return syntax.Literal(value)
            case Binary(text, _):
                return syntax.Literal(text)
            case Atom(("true" | "false") as name, _):
                return syntax.Literal(name == "true")
            case Atom(name, _):
                raise self._problem(f"{name} is allowed only at the beginning of a tuple", term)
            case Group((Atom(name, _), *operands), True, _):
                build = _BUILDERS.get((name, len(operands)))
                if build is None:
                    raise self._problem(_misfit(name, len(operands)), term)
                return build(self, name, operands, depth + 1)
            case Group(_, True, _):
                raise self._problem("a tuple begins with the name of an operation", term)
            case Group():
                raise self._problem("a list is allowed only after in and not_in", term)
            case CharacterList():
                raise self._problem('a text is written <<"...">>', term)

    # ------------------------------------------------------------------------- conditions

    def _ident(self, _name: str, operands: list[Term], _depth: int) -> syntax.Node:
        (name,) = operands
        if not isinstance(name, Binary):
            raise self._problem('ident names a header, in <<"...">>', name)
        return syntax.Property(name.text)

    def _not(self, _name: str, operands: list[Term], depth: int) -> syntax.Node:
        return syntax.Not(self.condition(operands[0], depth))

    def _row(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        """``and`` and ``or``, with the whole row of equal operations on their right sides."""
        node_type = syntax.And if name == "and" else syntax.Or
        parts: list[syntax.Condition] = []
        pending = operands[::-1]
        while pending:
            term = pending.pop()
            match term:
                case Group((Atom(same, _), left, right), True, _) if same == name and not pending:
                    pending = [right, left]
                    continue
            part = self.condition(term, depth)
            if isinstance(part, node_type):
                parts.extend(part.parts)
            else:
                parts.append(part)
        return node_type(tuple(parts))

    def _is_null(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        value = self._node(operands[0], depth)
        if not isinstance(value, syntax.Property):
            raise self._problem(f"{name} tests an ident", operands[0])
        test = syntax.IsNull(value)
        return syntax.Not(test) if name == "not_null" else test

    def _compare(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        left, right = operands
        return syntax.Comparison(name, self._value(left, depth), self._value(right, depth))

    def _between(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        value, low, high = operands
        return syntax.Between(
            self._value(value, depth),
            self._value(low, depth),
            self._value(high, depth),
            name == "not_between",
        )

    def _between_range(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        value, ends = operands
        match ends:
            case Group((Atom("range", _), low, high), True, _):
                if depth + 1 > NESTING_MAX:
                    raise self._problem("too many nested levels", ends)
                return syntax.Between(
                    self._value(value, depth),
                    self._value(low, depth + 1),
                    self._value(high, depth + 1),
                    name == "not_between",
                )
        raise self._problem(
            f"{name} is followed by three terms, or two and the second a range", ends
        )

    def _in(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        value, listed = operands
        if not isinstance(listed, Group) or listed.is_tuple:
            raise self._problem(f'{name} is followed by a list of texts in <<"...">>', listed)
        if depth + bool(listed.items) > NESTING_MAX:
            raise self._problem("too many nested levels", listed)
        texts = []
        for item in listed.items:
            if not isinstance(item, Binary):
                raise self._problem(f'{name} is followed by a list of texts in <<"...">>', item)
            texts.append(item.text)
        test = syntax.In(self._value(value, depth), tuple(texts))
        return syntax.Not(test) if name == "not_in" else test

    def _like(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        value, pattern, ending = operands
        if not isinstance(pattern, Binary):
            raise self._problem(f'{name} is followed by a pattern in <<"...">>', pattern)
        if len(pattern.text) > PATTERN_LENGTH_MAX:
            raise self._problem(f"a pattern has at most {PATTERN_LENGTH_MAX} characters", pattern)
        escape: str | None = None
        match ending:
            case Atom("no_escape", _):
                pass
            case Binary(character, _) if len(character) == 1:
                escape = character
            case _:
                raise self._problem(
                    f'{name} ends with no_escape or one character in <<"...">>', ending
                )
        text = pattern.text if escape is None else _strict(pattern.text, escape)
        return syntax.Like(self._value(value, depth), text, escape, name == "not_like")

    # ------------------------------------------------------------------------ calculations

    def _sign(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        value = self._number(name, operands[0], depth)
        if isinstance(value, syntax.Literal):
            sign = erlang_values.negate if name == "-" else erlang_values.number
            return self._computed(sign(value.value), syntax.Sign(name, value))
        return syntax.Sign(name, value)

    def _calculate(self, name: str, operands: list[Term], depth: int) -> syntax.Node:
        left, right = [self._number(name, operand, depth) for operand in operands]
        node = syntax.Arithmetic(name, left, right)
        if isinstance(left, syntax.Literal) and isinstance(right, syntax.Literal):
            return self._computed(_COMPUTE[name](left.value, right.value), node)
        return node

    def _computed(self, result: erlang_values.Number | None, node: syntax.Value) -> syntax.Value:
        """A constant; without a result (1/0) it stays a calculation, unknown for every message."""
        return node if result is None else syntax.Literal(result)

    def _number(self, name: str, term: Term, depth: int) -> syntax.Value:
        value = self._value(term, depth)
        match value:
            case syntax.Truth():
                raise self._problem(f"{name} calculates with numbers, not a condition", term)
            case syntax.Literal(bool()):
                raise self._problem(f"{name} calculates with numbers, not a boolean", term)
            case syntax.Literal(str()):
                raise self._problem(f"{name} calculates with numbers, not a text", term)
        return value

    def _problem(self, problem: str, term: Term) -> SelectorError:
        return SelectorError(problem, self._text, term.position)


def _strict(pattern: str, escape: str) -> str:
    """The same pattern with escape characters only before ``_``, ``%`` and themselves.

    RabbitMQ accepts them before any character and, as itself, at the end.
    """
    kept = []
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            kept.append(character)
            continue
        escaped = next(characters, escape)
        kept.append(escape + escaped if escaped in ("_", "%", escape) else escaped)
    return "".join(kept)


def _misfit(name: str, count: int) -> str:
    """Problem of a tuple of this atom and this many terms after it."""
    counts = sorted({known for operation, known in _BUILDERS if operation == name})
    if not counts:
        return f"{name} is not an operation"
    wanted = " or ".join([str(known) for known in counts])
    return f"{name} is followed by {wanted} terms, not {count}"


_Build = Callable[[_Builder, str, list[Term], int], syntax.Node]

_BUILDERS: Final[dict[tuple[str, int], _Build]] = {
    ("ident", 1): _Builder._ident,
    ("not", 1): _Builder._not,
    ("is_null", 1): _Builder._is_null,
    ("not_null", 1): _Builder._is_null,
    ("like", 3): _Builder._like,
    ("not_like", 3): _Builder._like,
    **{(name, 2): _Builder._row for name in ("and", "or")},
    **{(name, 2): _Builder._in for name in ("in", "not_in")},
    **{(name, 2): _Builder._compare for name in ("=", "<>", "<", "<=", ">", ">=")},
    **{(name, 2): _Builder._between_range for name in ("between", "not_between")},
    **{(name, 3): _Builder._between for name in ("between", "not_between")},
    **{(name, 1): _Builder._sign for name in ("+", "-")},
    **{(name, 2): _Builder._calculate for name in ("+", "-", "*", "/")},
}
