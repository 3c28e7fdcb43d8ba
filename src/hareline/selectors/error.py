"""Reasons to refuse a selector; raised by every stage of the compilation, never by a match."""

from __future__ import annotations

from typing import Final

from hareline.errors import HarelineError

_EXCERPT_CHARS: Final = 24


class SelectorError(HarelineError):
    """A text that is not a valid selector.

    ``selector`` is the whole text, ``position`` the index of the character with the problem
    (its length: at the end), ``problem`` says what is wrong or what was expected there. ``str`` of
    it quotes only a few characters and so fits into an AMQP reply text, which has 255 octets.
    """

    def __init__(self, problem: str, selector: str, position: int) -> None:
        if position >= len(selector):
            place = "at the end"
        else:
            place = f"at character {position + 1}, near {excerpt(selector[position:])}"
        super().__init__(f"invalid selector: {problem}, {place}")
        self.problem = problem
        self.selector = selector
        self.position = position


def excerpt(text: str) -> str:
    """The beginning of a text, in back quotes because selectors contain the other quotes."""
    if len(text) > _EXCERPT_CHARS:
        text = text[: _EXCERPT_CHARS - 3] + "..."
    return f"`{text}`"
