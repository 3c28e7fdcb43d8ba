"""Patterns of policies: checked before they are taken, compiled, matched in bounded time.

Called by ``administration.policy_matching`` and ``administration.policies``. A pattern is a
policymaker's and the names that it meets are any client's, and some regular expressions would run
for hours on some names. So a pattern has a limit of length, is tried on names made of what stands
in it, and a match has a limit of time.

Invariant: no search takes longer than ``MATCH_S`` of processor time, and no check than ``TRIAL_S``
and one search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from time import thread_time
from typing import Final

import regex

from hareline.administration.checks import NAME_MAX_OCTETS, invalid, is_unicode
from hareline.administration.terms import term

PATTERN_MAX: Final = 1_024  # characters
COST_MAX: Final = 10_000  # characters written out; compiling that many takes 10 to 20 ms
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
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z0-9]*x")
_OF_CLASS: Final = {"d": "0", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "h": " ", "n": "a"}
_WITHOUT_WIDTH: Final = frozenset("bBAZzGK")


def check_pattern(pattern: object) -> str:
    """The pattern. Raises AdministrationError for one that is no text, too long, or too slow."""
    if not isinstance(pattern, str):
        raise invalid(f"pattern should be a binary but was {term(pattern)}")
    if not is_unicode(pattern):
        raise invalid("pattern should be regular expression but is not Unicode")
    if len(pattern) > PATTERN_MAX:
        raise invalid(
            f"pattern should be regular expression of {PATTERN_MAX} characters at most, but has "
            f"{len(pattern)}; use several policies"
        )
    slow_name = _slow_name(compiled(pattern), pattern)
    if slow_name is not None:
        raise invalid(
            f"pattern should be regular expression but takes more than {MATCH_S * 1000:.0f} ms for "
            f"some names, such as '{_shortened(slow_name)}'; avoid repetitions within repetitions"
        )
    return pattern


def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern, ready for ``search``. Raises AdministrationError if it is not valid."""
    problem = too_costly(pattern)
    if problem:
        raise invalid(f"pattern should be regular expression but {problem}")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise invalid(f"pattern should be regular expression but is invalid: {error}") from None


def too_costly(pattern: str) -> str:
    """Why compiling this pattern would take long, or nothing.

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


def search(pattern: regex.Pattern[str], name: str) -> bool:
    """True if the pattern is found in the name. Raises TimeoutError if that takes too long."""
    return pattern.search(name, timeout=MATCH_S) is not None


def _slow_name(pattern: regex.Pattern[str], text: str) -> str | None:
    """A name of those tried that takes too long; None: there is none."""
    end_s = thread_time() + TRIAL_S
    for name in trial_names(text):
        try:
            search(pattern, name)
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
                    room = NAME_MAX_OCTETS - len(head) - len(_MISMATCH)
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
    """How many alternatives there are: in the whole pattern, then in each group of it."""
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
