"""Backends that decide whether a user may log in, asked one after the other.

``amqp.handshake`` and ``management.authentication`` ask the one ``AuthChain``. A backend answers at
once or later; as in RabbitMQ, the first that accepts decides. Each login gets exactly one answer,
on the thread of the event loop; a locked-out address is refused before any backend is asked.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from hareline.auth.login_limits import LoginLimits
from hareline.auth.passwords import PasswordCheck, ProvenPasswords
from hareline.auth.peer import Peer
from hareline.auth.users import INTERNAL, User, UserRegistry, folded

T = TypeVar("T")


class Workers(metaclass=ABCMeta):
    """Computes beside the event loop, a bounded number of tasks at once."""

    @abstractmethod
    def submit(
        self,
        origin: str,
        work: Callable[[], T],
        done: Callable[[T | None], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Have ``work`` computed in a thread, then ``done`` called with what it returned.

        ``done`` gets None if ``work`` has raised, has waited too long, or was not wanted any more
        when it was its turn. False, and neither is called, if too much waits already: in all, or
        for this ``origin``. Origins are served in turn.
        """


# ----------------------------------------------------------------------------------------- backends


#: What stands for the name of a user of whom only a token is known.
BEARER: Final = "bearer"


class Credentials(NamedTuple):
    """Name and password of a client; octets that are not UTF-8 are surrogates.

    ``password`` None: the mechanism has proved the name by other means.
    """

    name: str
    password: str | None

    def __repr__(self) -> str:
        return f"<Credentials of {self.name!r}>"


class Refusal(NamedTuple):
    """``reason``: for the log, never for the client; empty: unknown user, or wrong password.

    ``is_guess``: the credentials may have been guessed, so it counts towards a lockout; not so if a
    server did not answer. ``wait_s``: for how long logins are not looked at; 0: this one was.
    """

    reason: str = ""
    is_guess: bool = True
    wait_s: int = 0


Answer = User | Refusal
Done = Callable[[Answer], None]


class AuthBackend(metaclass=ABCMeta):
    """One place that knows users.

    ``takes_bearer``: it can tell them by a token alone. ``asks_for_rights``: the rights of its
    users may have to be asked for (``auth.permissions``).
    """

    takes_bearer = False
    asks_for_rights = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in the settings and in log lines."""

    @abstractmethod
    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        """Call ``done`` once with the user or the refusal, now or later, on the loop's thread."""


class AuthChain:
    """``backends`` in the order in which they are asked; a reload may replace them."""

    def __init__(
        self,
        backends: Iterable[AuthBackend],
        users: UserRegistry,
        limits: LoginLimits | None = None,
    ) -> None:
        """``users`` says which names may log in only from this machine, whoever knows them.

        ``limits`` None: any number of logins may fail.
        """
        self.backends: tuple[AuthBackend, ...] = tuple(backends)
        self._users: Final = users
        self._limits: Final = limits

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        """Call ``done`` once with the user or the refusal, now or later, on the loop's thread."""
        self._begin(self.backends, credentials, peer, done)

    @property
    def has_internal(self) -> bool:
        """True if the broker's own users can log in."""
        return any(each.name == INTERNAL for each in self.backends)

    @property
    def is_internal(self) -> bool:
        """True if only the broker's own users can log in."""
        return all(each.name == INTERNAL for each in self.backends)

    def settle(self, name: str, answer: Answer, peer: Peer) -> Answer:
        """Note an answer for the lockout, also that of a mechanism itself; return the final one.

        Of many guesses at once, those decided after the lockout are refused, right or wrong.
        """
        locked = self._locked(name, peer)
        if locked is not None:
            return locked
        answer = self._placed(answer, peer)
        limits = self._limits
        if limits is not None:
            place = self._place(name)
            if not isinstance(answer, Refusal):
                # neither a token of another user, nor a namesake, forgives the guesses at a user
                is_same = folded(answer.name) == folded(name)
                if is_same and (answer.backend == INTERNAL or place not in self._users):
                    limits.on_success(peer.host, place)
            elif answer.is_guess or peer.is_gone():  # who has left may have guessed all the same
                limits.on_failure(peer.host, place)
        return answer

    def _place(self, name: str) -> str:
        """Name that failures count for: any spelling that a directory may take for it."""
        return name if name in self._users else folded(name)

    def _locked(self, name: str, peer: Peer) -> Refusal | None:
        wait_s = 0 if self._limits is None else self._limits.wait_s(peer.host, self._place(name))
        if not wait_s:
            return None
        return Refusal(f"too many logins have failed; try again in {wait_s} s", wait_s=wait_s)

    def begin_bearer(self, token: str, peer: Peer, done: Done) -> None:
        """As ``begin``, for a token without a name; only backends that take one are asked."""
        backends = tuple(each for each in self.backends if each.takes_bearer)
        self._begin(backends, Credentials(BEARER, token), peer, done)

    def _begin(
        self, backends: tuple[AuthBackend, ...], credentials: Credentials, peer: Peer, done: Done
    ) -> None:
        name = credentials.name
        locked = self._locked(name, peer)
        if locked is not None:
            done(locked)
            return
        _Login(backends, credentials, peer, lambda answer: done(self.settle(name, answer, peer)))

    def renew(self, user: User, secret: str, peer: Peer, done: Done) -> None:
        """As ``begin``, for another secret of a user, of the backend that has let it in."""
        credentials = Credentials(user.name, secret)

        def on_answer(answer: Answer) -> None:
            if not isinstance(answer, Refusal) and answer.name != user.name:
                answer = Refusal(f"it is of another user, '{answer.name}'")
            done(self._placed(answer, peer))

        backends = tuple(each for each in self.backends if each.name == user.backend)
        _Login(backends, credentials, peer, on_answer)

    @property
    def takes_bearer(self) -> bool:
        """True if one of the backends can tell a user by a token alone."""
        return any(backend.takes_bearer for backend in self.backends)

    def _placed(self, answer: Answer, peer: Peer) -> Answer:
        """The answer, or a refusal of a user that may not log in from there."""
        if isinstance(answer, Refusal) or peer.is_loopback:
            return answer
        if self._users.is_loopback_only(answer.name):
            return Refusal(f"user '{answer.name}' may only connect from this machine")
        return answer


class _Login:
    """One login on its way along the backends."""

    __slots__ = ("_backends", "_credentials", "_done", "_is_guess", "_peer", "_reasons")

    def __init__(
        self, backends: tuple[AuthBackend, ...], credentials: Credentials, peer: Peer, done: Done
    ) -> None:
        self._backends = iter(backends)
        self._credentials = credentials
        self._peer = peer
        self._done = done
        self._reasons: list[str] = []
        self._is_guess = True
        self._ask_next()

    def _ask_next(self) -> None:
        backend = next(self._backends, None)
        if backend is None:
            self._done(Refusal("; ".join(self._reasons), self._is_guess))
            return
        backend.begin(
            self._credentials, self._peer, lambda answer: self._on_answer(backend.name, answer)
        )

    def _on_answer(self, backend: str, answer: Answer) -> None:
        if not isinstance(answer, Refusal):
            self._done(answer)
            return
        self._is_guess = self._is_guess and answer.is_guess
        if answer.reason:
            self._reasons.append(f"{backend}: {answer.reason}")
        self._ask_next()


# --------------------------------------------------------------------------- the broker's own users


TOO_MANY: Final = "too many logins wait for their password to be compared"


class InternalBackend(AuthBackend):
    """``on_proven``: told of each user whose password was compared and right, with the password."""

    def __init__(
        self,
        users: UserRegistry,
        workers: Workers,
        on_proven: Callable[[User, str], None] | None = None,
    ) -> None:
        self._users = users
        self._workers = workers
        self._proven = ProvenPasswords()
        self.on_proven = on_proven

    @property
    def name(self) -> str:
        return INTERNAL

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        name, password = credentials
        if password is None:
            done(self._users.admit(name, peer.is_loopback) or Refusal())
            return
        check = self._users.check_of(name, password)
        if not check.is_slow:
            done(self._answer(check, peer, is_right=check.is_right()))
            return
        if check in self._proven:
            done(self._answer(check, peer, is_right=True))
            return
        proven = self._proven

        def is_right() -> bool:
            # of many logins with one password that wait, only the first ones compute it
            return check in proven or check.is_right()

        if not self._workers.submit(
            peer.network,
            is_right,
            lambda is_right: done(self._decided(check, peer, is_right)),
            lambda: not peer.is_gone(),
        ):
            done(Refusal(TOO_MANY, is_guess=False))

    def _decided(self, check: PasswordCheck, peer: Peer, is_right: bool | None) -> Answer:
        """The answer to a check that a thread has made, or, with None, has not."""
        if is_right is None:
            return Refusal(TOO_MANY, is_guess=False)
        return self._answer(check, peer, is_right=is_right)

    def _answer(self, check: PasswordCheck, peer: Peer, *, is_right: bool) -> Answer:
        if not is_right or check.own is None:
            return Refusal()
        if check.own.is_slow:
            self._proven.add(check)
        user = self._users.lookup(check.name)
        if user is None or user.password_hash != check.own.text:  # changed meanwhile
            return Refusal()
        if self.on_proven is not None:
            self.on_proven(user, check.password)
        return self._users.admit(user.name, peer.is_loopback) or Refusal()
