"""The backend of the broker's own users: those of the settings, and those made at run time.

``server`` puts it into the ``AuthChain``. Quick hashes are compared at once; slow ones in a thread,
and a password that was right is remembered (``auth.password_check``), so that the next login with
it takes no thread.

Invariant: a login is decided by the user as it is when the answer is given, not as it was when the
thread began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.auth.backends import Answer, AuthBackend, Credentials, Done, Refusal
from hareline.auth.password_check import PasswordCheck, ProvenPasswords
from hareline.auth.peer import Peer
from hareline.auth.users import INTERNAL, User, UserRegistry
from hareline.auth.work import Workers

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
