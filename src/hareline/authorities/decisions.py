"""Answers of an authority, remembered for some seconds, and questions that are under way.

``authorities.http`` asks here before it asks the network: one question at a time, however many
connections wait for its answer. A refusal is kept only until those who wait have read it, unless
the settings say otherwise. The oldest of ``capacity`` answers go first.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

Answer = TypeVar("Answer")

#: How long an answer is there for those who waited for it.
HANDOVER_S: Final = 1.0
CAPACITY: Final = 65_536


class LoginQuestions:
    """Keys of remembered logins, with the password as a digest by a key of this run."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def question(self, name: str, password: str | None) -> tuple[str, str, str]:
        """The question whether this user may log in."""
        if password is None:
            return "login", name, ""
        octets = password.encode("utf-8", "surrogateescape")
        return "login", name, hmac.new(self._key, octets, hashlib.sha256).hexdigest()


class Decisions(Generic[Answer]):
    """``now_s``: the monotonic time. ``keep_s`` says how long an answer may be used."""

    def __init__(
        self,
        now_s: Callable[[], float],
        keep_s: Callable[[Answer], float],
        capacity: int = CAPACITY,
    ) -> None:
        self._now_s = now_s
        self._keep_s = keep_s
        self._capacity = capacity
        self._answers: OrderedDict[Hashable, tuple[float, Answer]] = OrderedDict()
        self._waiting: dict[Hashable, list[Callable[[], None]]] = {}

    def find(self, question: Hashable) -> Answer | None:
        """The answer that is remembered, or None."""
        found = self._answers.get(question)
        if found is None:
            return None
        until_s, answer = found
        if until_s <= self._now_s():
            del self._answers[question]
            return None
        return answer

    def wait(self, question: Hashable, callback: Callable[[], None]) -> bool:
        """Call back when the question is answered; True if it has to be asked now."""
        is_new = question not in self._waiting
        self._waiting.setdefault(question, []).append(callback)
        return is_new

    def put(self, question: Hashable, answer: Answer) -> None:
        """Remember an answer, and call those who wait for it."""
        until_s = self._now_s() + max(HANDOVER_S, self._keep_s(answer))
        self._answers[question] = until_s, answer
        self._answers.move_to_end(question)
        while len(self._answers) > self._capacity:
            self._answers.popitem(last=False)
        call_all(self._waiting.pop(question, ()))

    def forget_all(self) -> None:
        """Ask again from now on; the settings have changed."""
        self._answers.clear()

    def __len__(self) -> int:
        return len(self._answers)


def call_all(callbacks: Iterable[Callable[[], None]]) -> None:
    """Call each of them, whatever the others do; then raise the first exception that one raised."""
    failure: Exception | None = None
    for callback in callbacks:
        try:
            callback()
        except Exception as error:  # a bug, which must not keep others waiting
            failure = failure or error
    if failure is not None:
        raise failure
