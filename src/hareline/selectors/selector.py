"""A message selector: a text, compiled once, and tested on any number of messages.           [hot]

``compile_selector`` is called when a consumer or a binding with a selector is made, ``matches`` by
lanes for each message and by exchanges with such bindings. The language is described in
docs/selectors.md; the way from text to function is ``lexer``, ``parser``, ``compiler``. The same
condition may come in another language, as a term that an ``x-jms-topic`` exchange is bound with:
that way is ``term_reader``, ``erlang_condition``, ``compiler``.

Selectors are immutable and shared: compiling the same text gives the same object, as long as
it is among the last ``SELECTORS_KEPT``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from hareline.message import Message
from hareline.selectors import rules, syntax
from hareline.selectors.compiler import Matcher, compile_condition, like_steps
from hareline.selectors.erlang_condition import parse_term
from hareline.selectors.error import SelectorError
from hareline.selectors.like import STEPS_MAX, TEXT_MAX
from hareline.selectors.parser import parse
from hareline.selectors.rules import Rules

LENGTH_MAX: Final = 8_192  # characters; one of that length takes some 20 ms to compile
TERM_LENGTH_MAX: Final = 16_384  # a term needs two to four times the characters of a selector
SELECTORS_KEPT: Final = 512
SELECTOR_KEPT_CHARS: Final = 1_024  # longer ones are compiled again for each consumer

# Amounts for which a selector counts as one more: some 2 us of a match, at worst.
CHARS_PER_COST: Final = 256
NODES_PER_COST: Final = 32
COST_PER_SEARCH: Final = 8


class Language(NamedTuple):
    """``parse``: makes a tree from a text; raises SelectorError. ``length_max``: in characters."""

    parse: Callable[[str], syntax.Condition]
    rules: Rules
    length_max: int


JMS: Final = Language(parse, rules.JMS, LENGTH_MAX)
ERLANG_TERMS: Final = Language(parse_term, rules.ERLANG, TERM_LENGTH_MAX)


class Selector:
    """A compiled condition.

    ``text``: the source. ``identifiers``: the names in it, headers and others.
    ``cost``: as how many ordinary selectors it counts, from 1.

    ``matches(message, is_redelivered=False)`` is True if the condition is true for the message,
    and False if it is false or unknown. It raises only what ``Message.properties`` raises for
    invalid octets.
    """

    __slots__ = ("_condition", "_denial", "_rules", "cost", "identifiers", "matches", "text")

    matches: Matcher

    def __init__(self, text: str, language: Language = JMS) -> None:
        """Raises SelectorError."""
        longest = language.length_max
        if len(text) > longest:
            raise SelectorError(f"it is longer than {longest} characters", text, longest)
        self._condition = language.parse(text)
        self._rules = language.rules
        self._denial: Matcher | None = None
        self.text = text
        self.matches = compile_condition(self._condition, self._rules)
        nodes = syntax.nodes_in(self._condition)
        self.identifiers = frozenset(syntax.names_among(nodes))
        searches = min(like_steps(nodes), STEPS_MAX // TEXT_MAX)
        self.cost = 1 + len(text) // CHARS_PER_COST + len(nodes) // NODES_PER_COST
        self.cost += COST_PER_SEARCH * searches

    def evaluate(self, message: Message, is_redelivered: bool = False) -> bool | None:
        """The same in three values; None is "unknown". For explanations, not for dispatch."""
        if self.matches(message, is_redelivered):
            return True
        if self._denial is None:
            self._denial = compile_condition(syntax.Not(self._condition), self._rules)
        return False if self._denial(message, is_redelivered) else None

    def __repr__(self) -> str:
        return f"<Selector {self.text}>"


def compile_selector(text: str, language: Language = JMS) -> Selector:
    """The selector of this text. Raises SelectorError if it is invalid or empty.

    In JMS an empty text means "no selector"; the caller handles that.
    """
    if len(text) > SELECTOR_KEPT_CHARS:
        return Selector(text, language)
    return _kept_selector(text, language)


_kept_selector: Final = lru_cache(SELECTORS_KEPT)(Selector)
