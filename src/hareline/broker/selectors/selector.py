"""A message selector: a text, compiled once, that any number of messages are held against.   [hot]

``compile_selector`` is called when a consumer or a binding with a selector is made, ``matches`` by
the dispatcher for each message and by exchanges with such bindings. The language is described in
docs/selectors.md; the way from text to function is ``lexer``, ``parser``, ``compiler``.

Selectors are immutable and shared: whoever compiles the same text gets the same object, as long as
it is among the last ``SELECTORS_KEPT``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from hareline.broker.selectors import syntax
from hareline.broker.selectors.compiler import Matcher, compile_condition
from hareline.broker.selectors.error import SelectorError
from hareline.broker.selectors.parser import parse
from hareline.message import Message

LENGTH_MAX: Final = 8_192  # characters; one of that length takes some 20 ms to compile
SELECTORS_KEPT: Final = 512
SELECTOR_KEPT_CHARS: Final = 1_024  # longer ones are compiled anew for each consumer


class Selector:
    """``text``: what it was compiled from. ``identifiers``: the names in it, headers and others.

    ``matches(message, is_redelivered=False)`` is True when the condition is true of the message,
    and False when it is false or unknown. It raises nothing but what ``Message.properties`` raises
    for octets that are none.
    """

    __slots__ = ("_condition", "_denial", "identifiers", "matches", "text")

    matches: Matcher

    def __init__(self, text: str) -> None:
        """Raises SelectorError."""
        if len(text) > LENGTH_MAX:
            raise SelectorError(f"it is longer than {LENGTH_MAX} characters", text, LENGTH_MAX)
        self._condition = parse(text)
        self._denial: Matcher | None = None
        self.text = text
        self.identifiers = frozenset(syntax.names_in(self._condition))
        self.matches = compile_condition(self._condition)

    def evaluate(self, message: Message, is_redelivered: bool = False) -> bool | None:
        """The same in three values; None is "unknown". For those who explain, not for dispatch."""
        if self.matches(message, is_redelivered):
            return True
        if self._denial is None:
            self._denial = compile_condition(syntax.Not(self._condition))
        return False if self._denial(message, is_redelivered) else None

    def __repr__(self) -> str:
        return f"<Selector {self.text}>"


def compile_selector(text: str) -> Selector:
    """The selector of this text. Raises SelectorError when it is none, also for an empty text:
    that JMS takes it for "no selector" is for the caller to know."""
    return _kept_selector(text) if len(text) <= SELECTOR_KEPT_CHARS else Selector(text)


_kept_selector: Final = lru_cache(SELECTORS_KEPT)(Selector)
