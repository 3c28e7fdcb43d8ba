"""Who decides whether a user may log in: backends, asked one after the other.

``amqp.handshake`` and ``management.authentication`` ask the one ``AuthChain`` of the broker. A
backend may answer at once, or later: when a thread has computed a hash, or another server has
answered. As in RabbitMQ, the first backend that accepts a login decides; a refused login was
refused by all of them.

Invariant: each login gets exactly one answer, on the thread of the event loop.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from hareline.auth.peer import Peer
from hareline.auth.users import User, UserRegistry


class Credentials(NamedTuple):
    """What a client says of itself; octets that are not UTF-8 are surrogates, as in ``passwords``.

    ``password`` None: the mechanism has proved the name by other means.
    """

    name: str
    password: str | None

    def __repr__(self) -> str:
        return f"<Credentials of {self.name!r}>"


class Refusal(NamedTuple):
    """``reason``: for the log, never for the client; empty: unknown user, or wrong password."""

    reason: str = ""


Answer = User | Refusal
Done = Callable[[Answer], None]


class AuthBackend(metaclass=ABCMeta):
    """One place that knows users."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What settings and log lines call it."""

    @abstractmethod
    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        """Call ``done`` once with the user or the refusal, now or later, on the loop's thread."""


class AuthChain:
    """``backends`` in the order in which they are asked; a reload may replace them."""

    def __init__(self, backends: Iterable[AuthBackend], users: UserRegistry) -> None:
        """``users`` says which names may log in only from this machine, whoever knows them."""
        self.backends: tuple[AuthBackend, ...] = tuple(backends)
        self._users: Final = users

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        """Call ``done`` once with the user or the refusal, now or later, on the loop's thread."""
        _Login(self.backends, credentials, peer, lambda answer: done(self._placed(answer, peer)))

    def _placed(self, answer: Answer, peer: Peer) -> Answer:
        """The answer, or a refusal of a user that may not log in from there."""
        if isinstance(answer, Refusal) or peer.is_loopback:
            return answer
        if self._users.is_loopback_only(answer.name):
            return Refusal(f"user '{answer.name}' may only connect from this machine")
        return answer


class _Login:
    """One login on its way along the backends."""

    __slots__ = ("_backends", "_credentials", "_done", "_peer", "_reasons")

    def __init__(
        self, backends: tuple[AuthBackend, ...], credentials: Credentials, peer: Peer, done: Done
    ) -> None:
        self._backends = iter(backends)
        self._credentials = credentials
        self._peer = peer
        self._done = done
        self._reasons: list[str] = []
        self._ask_next()

    def _ask_next(self) -> None:
        backend = next(self._backends, None)
        if backend is None:
            self._done(Refusal("; ".join(self._reasons)))
            return
        backend.begin(
            self._credentials, self._peer, lambda answer: self._on_answer(backend.name, answer)
        )

    def _on_answer(self, backend: str, answer: Answer) -> None:
        if not isinstance(answer, Refusal):
            self._done(answer)
            return
        if answer.reason:
            self._reasons.append(f"{backend}: {answer.reason}")
        self._ask_next()
