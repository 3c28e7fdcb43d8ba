"""Logins with a token of OAuth 2 as the password, or as the bearer of an HTTP request.

``auth.backends`` asks it. The name that the client gives does not matter; the token names the user
and says what it may do (``auth.tokens``). What is no token is another backend's business.

Invariant: a token that names an unknown key is decided after the keys were read once more, and
never before.
"""

from __future__ import annotations

from collections.abc import Callable

from hareline.auth.backends import Answer, AuthBackend, Credentials, Done, Refusal
from hareline.auth.peer import Peer
from hareline.auth.tokens import (
    BACKEND,
    KeyUnknown,
    TokenRefused,
    TokenRules,
    looks_like_a_token,
    read_token,
)
from hareline.authorities.keys import TokenKeys


class OAuthBackend(AuthBackend):
    """``now_ms``: wall time in epoch milliseconds."""

    takes_bearer = True

    def __init__(self, keys: TokenKeys, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms

    @property
    def name(self) -> str:
        return BACKEND

    def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
        token = credentials.password
        if token is None or not looks_like_a_token(token):
            done(Refusal())
            return
        try:
            done(self._answer(token))
        except KeyUnknown:
            self._keys.renew(lambda: done(self._final_answer(token)))

    def _final_answer(self, token: str) -> Answer:
        try:
            return self._answer(token)
        except KeyUnknown as problem:
            return Refusal(f"token: {problem}", is_guess=bool(self._keys.current))

    def _answer(self, token: str) -> Answer:
        """The user or the refusal. Raises KeyUnknown if other keys might help."""
        keys = self._keys.current
        if not keys:
            raise KeyUnknown("no keys could be read")
        try:
            return read_token(token, keys, self._rules, self._now_ms())
        except KeyUnknown:
            raise
        except TokenRefused as problem:
            return Refusal(f"token: {problem}", is_guess=problem.is_guess)
