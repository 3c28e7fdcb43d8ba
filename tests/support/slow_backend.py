"""A backend that answers a login when the test says so."""

from __future__ import annotations

from hareline.auth.backends import Answer, AuthBackend, Credentials, Done
from hareline.auth.peer import Peer


class SlowBackend(AuthBackend):
    """``asked``: the logins that wait, with where they come from."""

    def __init__(self, name: str = "slow") -> None:
        self._name = name
        self._waiting: list[Done] = []
        self.asked: list[tuple[Credentials, Peer]] = []

    @property
    def name(self) -> str:
        return self._name

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        self.asked.append((credentials, peer))
        self._waiting.append(done)

    def answer(self, answer: Answer) -> None:
        """Decide the login that has waited longest."""
        self.asked.pop(0)
        self._waiting.pop(0)(answer)
