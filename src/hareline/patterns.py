"""Regular expressions that users write: checked before they are taken, matched in bounded time.

Those of permissions, access rules, policies and names in certificates. They meet names that any
client may choose, and some regular expressions would run for hours on some names. So a pattern has
a limit of length, is tried on names made of what stands in it, and a match has a limit of time.

Invariant: no search takes longer than ``MATCH_S`` of processor time, and no check than ``TRIAL_S``
and one search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import thread_time
from typing import Final

import regex

PATTERN_MAX: Final = 1_024  # characters
COST_MAX: Final = 10_000  # characters written out; compiling that many takes 10 to 20 ms
NAME_MAX: Final = 255  # octets of the names that are tried
MATCH_S: Final = 0.005  # for one name, where a microsecond is usual
TRIAL_S: Final = 0.02

_GROUPS_MAX: Final = 32  # within one another
_CHOICES_MAX: Final = 8
_PLACES_MAX: Final = 48
_PUMPED_MAX: Final = 3  # characters in a row that are repeated together
_MISMATCH: Final = "\x01"  # ends the names, so that the whole of a repetition is tried in vain

_TOKEN: Final = re.compile(
    r"(?P<comment>\(\?#[^)]*\))"
    r"|\\(?P<escaped>.)"
    r"|\[(?P<negated>\^?)(?P<set>\]?(?:\\.|[^\]\\])*)\]"
    r"|(?P<open>\((?:\?(?:P?<[^=!>]*>|<?[=!]|[a-zA-Z0-9-]*:|[|>]))?)"
    r"|(?P<close>\))"
    r"|(?P<or>\|)"
    r"|(?P<quantifier>[*+?]|\{[0-9]*,?[0-9]*\})"
    r"|(?P<anchor>[\^$])"
    r"|(?P<character>.)",
    re.DOTALL,
)
_QUANTIFIER: Final = re.compile(
    r"(?:\(\?#[^)]*\))*(?:\*|(?P<plus>\+)|\{(?P<minimum>[0-9]*),?[0-9]*\})"
)
_REPEATED: Final = re.compile(r"[*+?{]")
_IN_BRACES: Final = frozenset("pPNgk")  # \p{L} is a class
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z0-9]*x")
_OF_CLASS: Final = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "h": " ", "n": "a"}
_WITHOUT_WIDTH: Final = frozenset("bBAZzGK")


class Pattern:
    """A pattern ready to search with. ``is_ascii``: its classes (``\\w``) are those of ASCII.

    Raises ValueError with what is wrong: ``missing ) at position 1``.
    """

    __slots__ = ("_compiled", "_has_timeout", "text")

    def __init__(self, text: str, *, is_ascii: bool = False) -> None:
        self.text = text
        try:
            self._compiled = regex.compile(_exact(text), regex.ASCII if is_ascii else 0)
        except (regex.error, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from None
        self._has_timeout = _may_be_slow(text)

    def is_in(self, name: str) -> bool:
        """True if it is found in the name. Raises TimeoutError."""
        if self._has_timeout:
            return self._compiled.search(name, timeout=MATCH_S) is not None
        return self._compiled.search(name) is not None

    def match_of(self, name: str) -> regex.Match[str] | None:
        """Match of the whole name; None if it does not. Raises TimeoutError."""
        return self._compiled.fullmatch(name, timeout=MATCH_S)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self._compiled == other._compiled

    def __hash__(self) -> int:
        return hash(self._compiled)

    def __repr__(self) -> str:
        return f"<Pattern {self.text!r}>"


def check_pattern(text: str) -> None:
    """Raises ValueError with what is wrong: the pattern is invalid, too long or too slow."""
    if len(text) > PATTERN_MAX:
        raise ValueError(f"has {len(text)} characters, more than {PATTERN_MAX}")
    problem = too_costly(text)
    if problem:
        raise ValueError(problem)
    try:
        pattern = Pattern(text)
    except ValueError as error:
        raise ValueError(f"is invalid: {error}") from None
    slow_name = _slow_name(pattern) if _may_be_slow(text) else None
    if slow_name is not None:
        raise ValueError(
            f"takes more than {MATCH_S * 1000:.0f} ms for some names, such as "
            f"'{_shortened(slow_name)}'; avoid repetitions within repetitions"
        )


def _may_be_slow(text: str) -> bool:
    """False for a plain text with one repetition at most, where a timeout would cost more."""
    return "(" in text or "|" in text or len(_REPEATED.findall(text)) > 1


def _exact(text: str) -> str:
    """The pattern with each brace escaped that repeats nothing, which ``regex`` takes for a way to
    match approximately: ``x{e<2}``.
    """
    parts: list[str] = []
    escaped = None
    for token in _TOKEN.finditer(text):
        is_brace = token["character"] == "{" and escaped not in _IN_BRACES
        parts.append("\\{" if is_brace else token.group())
        escaped = token["escaped"]
    return "".join(parts)


def check_template(text: str, template: str) -> None:
    """Raises ValueError if the template quotes a group (``\\1``) that the pattern does not have."""
    found = Pattern(f"(?:{text})|").match_of("")
    assert found is not None
    try:
        found.expand(template)
    except (regex.error, IndexError) as error:
        raise ValueError(str(error)) from None


def too_costly(pattern: str) -> str:
    """Reason why compiling this pattern would take long, or nothing.

    ``regex`` writes out what has to be there several times, and looks at it several times for each
    repetition around it, so the cost is a product.
    """
    if _VERBOSE.search(pattern):
        return "has the flag x, with which it could hide what is repeated"
    costs = [0]  # so far, of the whole and of each open group
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            costs.append(1)
            if len(costs) > _GROUPS_MAX:
                return f"has more than {_GROUPS_MAX} groups within one another"
        elif token["close"] and len(costs) > 1:
            cost = costs.pop() * _repetition(pattern, token.end())
            costs[-1] += cost
        elif token["character"] or token["escaped"] or token["set"] is not None:
            costs[-1] += _repetition(pattern, token.end())
    if sum(costs) > COST_MAX:
        return "repeats too much within repetitions, or too often"
    return ""


def _repetition(pattern: str, end: int) -> int:
    """By how much a quantifier behind this place multiplies the cost of what is before it."""
    found = _QUANTIFIER.match(pattern, end)
    if found is None:
        return 1
    minimum = 1 if found["plus"] else int(found["minimum"] or 0)
    return 2 + 2 * minimum


def _slow_name(pattern: Pattern) -> str | None:
    """A name of those tried that takes too long; None: there is none."""
    end_s = thread_time() + TRIAL_S
    for name in trial_names(pattern.text):
        try:
            pattern.is_in(name)
        except TimeoutError:
            return name
        if thread_time() > end_s:
            return None
    return None


def trial_names(pattern: str) -> Iterator[str]:
    """Names for which the repetitions in this pattern may take long.

    For each place of the pattern one that matches until there, and then repeats what stands there
    up to the length of a name, in vain.
    """
    for sample in _samples(pattern):
        for width in range(1, _PUMPED_MAX + 1):
            for place in range(len(sample) - width + 1):
                head, pumped = sample[:place], sample[place : place + width]
                if width == 1 or len(set(pumped)) > 1:
                    room = NAME_MAX - len(head) - len(_MISMATCH)
                    yield head + (pumped * room)[:room] + _MISMATCH


def _samples(pattern: str) -> list[str]:
    """Texts that have a character for each thing in the pattern, each for other alternatives.

    A rough reading: what it makes of rare syntax is only a worse name to try.
    """
    tokens = list(_TOKEN.finditer(pattern))
    counts = _alternatives(tokens)
    samples = [_sample(tokens, counts, choice) for choice in range(_CHOICES_MAX)]
    return list(dict.fromkeys(samples))


def _alternatives(tokens: list[re.Match[str]]) -> list[int]:
    """Numbers of alternatives: in the whole pattern, then in each group of it."""
    counts, open_groups = [1], [0]
    for token in tokens:
        if token["open"]:
            open_groups.append(len(counts))
            counts.append(1)
        elif token["close"] and len(open_groups) > 1:
            open_groups.pop()
        elif token["or"]:
            counts[open_groups[-1]] += 1
    return counts


def _sample(tokens: list[re.Match[str]], counts: list[int], choice: int) -> str:
    """The text of this alternative, counted from 0, of each group, or of its last one."""
    sample: list[str] = []
    group = 0
    left = [min(choice, counts[0] - 1)]  # alternatives to pass over in each open group
    for token in tokens:
        if token["open"]:
            group += 1
            left.append(min(choice, counts[group] - 1))
        elif token["close"] and len(left) > 1:
            left.pop()
        elif token["or"]:
            left[-1] -= 1
        elif not any(left):
            sample.append(_character(token))
    return "".join(sample)[:_PLACES_MAX]


def _character(token: re.Match[str]) -> str:
    """A character that one thing in a pattern matches; nothing for what has no width."""
    if token["character"]:
        return "a" if token["character"] == "." else token["character"]
    escaped = token["escaped"]
    if escaped:
        return "" if escaped in _WITHOUT_WIDTH else _OF_CLASS.get(escaped, escaped)
    chosen = token["set"]
    if chosen is None:
        return ""
    if token["negated"]:
        return next((each for each in "a0-_" if each not in chosen), "~")
    if chosen.startswith("\\"):
        return _OF_CLASS.get(chosen[1], chosen[1])
    return chosen[:1]


def _shortened(name: str) -> str:
    shown = name.removesuffix(_MISMATCH)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
