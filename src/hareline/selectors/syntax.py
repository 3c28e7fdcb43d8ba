"""The tree of a selector, which the parsers make and the compiler reads.

The parsers check that every operand has a kind that its operator accepts, so a tree is valid by
construction. ``to_text`` writes a tree as a selector; parsing that gives the same tree, if it is
of JMS's language (``erlang_condition`` may make comparisons that JMS does not have).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hareline.selectors.lexer import is_name

Constant = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, TRUE or FALSE."""

    value: Constant


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message, or a header; NULL if the message has none of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Sign:
    """``-x`` or ``+x``."""

    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``operator``: one of ``+ - * / %``."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Truth:
    """The result of a condition as a value: TRUE, FALSE or NULL. = or <> compares it."""

    part: Condition


Value = Literal | Property | Sign | Arithmetic | Truth


@dataclass(frozen=True, slots=True)
class Comparison:
    """``operator``: one of ``= <> < <= > >=``."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Between:
    """``value [NOT] BETWEEN low AND high``. NOT stands here because a text is neither."""

    value: Value
    low: Value
    high: Value
    is_negated: bool


@dataclass(frozen=True, slots=True)
class In:
    value: Value
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """``value [NOT] LIKE pattern [ESCAPE escape]``. NOT stands here because a number is neither."""

    value: Value
    pattern: str
    escape: str | None
    is_negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    value: Value


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition


@dataclass(frozen=True, slots=True)
class And:
    """Two or more parts, of which no part is an And."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more parts, of which no part is an Or."""

    parts: tuple[Condition, ...]


Test = Comparison | Between | In | Like
# A literal as a condition is TRUE or FALSE; a property as a condition should be a boolean.
Condition = Literal | Property | Test | IsNull | Not | And | Or
Node = Value | Condition

_BARE: Final = (Literal, Property)
_QUOTE: Final = "'"
_NAME_QUOTE: Final = '"'


def nodes_in(node: Node) -> list[Node]:
    """This node and all below it, with repetitions, from left to right."""
    found = [node]
    for part in _parts_of(node):
        found += nodes_in(part)
    return found


def _parts_of(node: Node) -> tuple[Node, ...]:
    match node:
        case Literal() | Property():
            return ()
        case Sign(_, part) | In(part, _) | IsNull(part) | Not(part) | Like(part) | Truth(part):
            return (part,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return left, right
        case Between(value, low, high, _):
            return value, low, high
        case And(parts) | Or(parts):
            return parts


def names_among(nodes: list[Node]) -> list[str]:
    """The name of every property in the tree, with repetitions."""
    return [node.name for node in nodes if isinstance(node, Property)]


def to_text(node: Node) -> str:
    """A selector with this tree, with brackets around every node that has parts."""
    match node:
        case Literal(value):
            return _literal(value)
        case Property(name):
            return name if is_name(name) else _quoted(name, _NAME_QUOTE)
        case Sign(operator, value):
            return f"{operator}{_bracketed(value)}"
        case Truth(part):
            return to_text(part)
        case Arithmetic(operator, left, right) | Comparison(operator, left, right):
            return f"{_bracketed(left)} {operator} {_bracketed(right)}"
        case Between(value, low, high, is_negated):
            word = "NOT BETWEEN" if is_negated else "BETWEEN"
            return f"{_bracketed(value)} {word} {_bracketed(low)} AND {_bracketed(high)}"
        case In(value, texts):
            listed = ", ".join([_quoted(text, _QUOTE) for text in texts])
            return f"{_bracketed(value)} IN ({listed})"
        case Like(value, pattern, escape, is_negated):
            word = "NOT LIKE" if is_negated else "LIKE"
            ending = "" if escape is None else f" ESCAPE {_quoted(escape, _QUOTE)}"
            return f"{_bracketed(value)} {word} {_quoted(pattern, _QUOTE)}{ending}"
        case IsNull(value):
            return f"{_bracketed(value)} IS NULL"
        case Not(part):
            return f"NOT {_bracketed(part)}"
        case And(parts):
            return " AND ".join(map(_bracketed, parts))
        case Or(parts):
            return " OR ".join(map(_bracketed, parts))


def _bracketed(node: Node) -> str:
    text = to_text(node)
    return text if isinstance(node, _BARE) else f"({text})"


def _literal(value: Constant) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _quoted(value, _QUOTE)
    return repr(value)


def _quoted(text: str, quote: str) -> str:
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"
