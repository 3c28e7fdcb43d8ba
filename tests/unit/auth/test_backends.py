"""Backends are asked in order, the first that accepts decides, and each login gets one answer."""

from __future__ import annotations

import pytest

from hareline.auth.backends import (
    Answer,
    AuthBackend,
    AuthChain,
    Credentials,
    Done,
    InternalBackend,
    Refusal,
)
from hareline.auth.login_limits import LoginLimits
from hareline.auth.passwords import hash_password
from hareline.auth.peer import Peer
from hareline.auth.users import User, UserRegistry
from tests.support.login_work import AtOnce
from tests.support.slow_backend import SlowBackend

HERE, ELSEWHERE = Peer("127.0.0.1", is_loopback=True), Peer("192.0.2.7", is_loopback=False)
ANN = User("ann", hash_password("secret"))
GUEST = User("guest", hash_password("guest"))


class Stand:
    """A chain of the internal users and two backends that answer when told to."""

    def __init__(self) -> None:
        users = UserRegistry([ANN, GUEST])
        self.first, self.last = SlowBackend("ldap"), SlowBackend("http")
        self.chain = AuthChain([self.first, InternalBackend(users, AtOnce()), self.last], users)
        self.answers: list[Answer] = []

    def log_in(self, name: str, password: str | None, peer: Peer = ELSEWHERE) -> None:
        self.chain.begin(Credentials(name, password), peer, self.answers.append)


def test_the_first_backend_that_accepts_decides() -> None:
    stand = Stand()
    stand.log_in("ann", "anything")
    assert stand.answers == []
    assert stand.first.asked == [(Credentials("ann", "anything"), ELSEWHERE)]
    ann = User("ann", "", backend="ldap")
    stand.first.answer(ann)
    assert stand.answers == [ann]
    assert stand.last.asked == []


def test_the_next_backend_is_asked_after_a_refusal() -> None:
    stand = Stand()
    stand.log_in("ann", "secret")
    stand.first.answer(Refusal())
    assert stand.answers == [ANN]
    assert stand.last.asked == []


def test_a_login_that_all_refuse_has_the_reasons_of_those_that_gave_one() -> None:
    stand = Stand()
    stand.log_in("ann", "wrong")
    stand.first.answer(Refusal("no answer from the server"))
    assert stand.answers == []
    stand.last.answer(Refusal("deny"))
    assert stand.answers == [Refusal("ldap: no answer from the server; http: deny")]


def test_logins_that_wait_do_not_meet() -> None:
    stand = Stand()
    stand.log_in("ann", "secret")
    stand.log_in("bob", "b")
    stand.first.answer(Refusal())
    stand.first.answer(Refusal())
    bob = User("bob", "", backend="http")
    stand.last.answer(bob)
    assert stand.answers == [ANN, bob]


def test_without_backends_nobody_logs_in() -> None:
    stand = Stand()
    stand.chain.backends = ()
    stand.log_in("ann", "secret")
    assert stand.answers == [Refusal()]


@pytest.mark.parametrize("backend", ["ldap", "internal"])
def test_a_loopback_user_comes_from_this_machine_whoever_knows_it(backend: str) -> None:
    stand = Stand()
    guest = User("guest", "", backend=backend)
    stand.log_in("guest", "guest", ELSEWHERE)
    stand.first.answer(guest)
    assert stand.answers == [Refusal("user 'guest' may only connect from this machine")]
    stand.log_in("guest", "guest", HERE)
    stand.first.answer(guest)
    assert stand.answers[1:] == [guest]


def test_a_password_is_not_shown() -> None:
    assert repr(Credentials("ann", "secret")) == "<Credentials of 'ann'>"


class LockStand(Stand):
    """The same with one backend, and two logins as one user that may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        users = UserRegistry([ANN, GUEST])
        limits = LoginLimits(lambda: 2, lambda: self.now_s)
        self.chain = AuthChain([self.first], users, limits)


def test_after_too_many_failures_no_backend_is_asked() -> None:
    stand = LockStand()
    for _ in range(2):
        stand.log_in("ann", "wrong")
        stand.first.answer(Refusal())
    stand.log_in("ann", "secret")
    assert stand.first.asked == []
    assert stand.answers[2:] == [
        Refusal("too many logins have failed; try again in 60 s", wait_s=60)
    ]
    stand.log_in("ann", "secret", HERE)  # another address
    stand.first.answer(ANN)
    assert stand.answers[3:] == [ANN]
    stand.now_s += 60
    stand.log_in("ann", "secret")
    stand.first.answer(ANN)
    assert stand.answers[4:] == [ANN]


def test_of_many_guesses_at_once_those_after_the_lockout_are_refused_right_or_wrong() -> None:
    stand = LockStand()
    for _ in range(3):
        stand.log_in("ann", "guess")
    for answer in (Refusal(), Refusal(), ANN):
        stand.first.answer(answer)
    last = stand.answers[2]
    assert isinstance(last, Refusal)
    assert last.wait_s == 60


def test_a_token_of_another_user_forgives_no_failure() -> None:
    stand = LockStand()
    for name in ("ann", ""):
        stand.log_in("ann", "wrong")
        stand.first.answer(Refusal())
        stand.log_in(name, "a token")
        stand.first.answer(User("bob", "", backend="ldap"))
    stand.log_in("ann", "secret")
    assert stand.first.asked == []
    assert isinstance(stand.answers[-1], Refusal)


def test_a_server_that_does_not_answer_locks_nobody_out() -> None:
    stand = LockStand()
    for _ in range(5):
        stand.log_in("ann", "secret")
        stand.first.answer(Refusal("no answer", is_guess=False))
    stand.log_in("ann", "secret")
    stand.first.answer(ANN)
    assert stand.answers[5:] == [ANN]


def test_a_login_that_one_backend_could_not_decide_is_no_guess() -> None:
    stand = Stand()
    stand.log_in("ann", "wrong")
    stand.first.answer(Refusal("no answer", is_guess=False))
    stand.last.answer(Refusal())
    assert stand.answers == [Refusal("ldap: no answer", is_guess=False)]


def test_another_spelling_of_a_name_is_locked_out_too() -> None:
    stand = LockStand()
    for name in ("bob", "BOB", " b\u00adob "):
        stand.chain.settle(name, Refusal(), ELSEWHERE)
    last = stand.chain.settle("Bob", User("Bob", "", backend="ldap"), ELSEWHERE)
    assert isinstance(last, Refusal)


def test_the_login_of_a_namesake_forgives_no_guesses() -> None:
    stand = LockStand()
    for name in ("Ann", "ann"):
        stand.chain.settle("ann", Refusal(), ELSEWHERE)
        stand.chain.settle(name, User(name, "", backend="oauth2"), ELSEWHERE)
    last = stand.chain.settle("ann", ANN, ELSEWHERE)
    assert isinstance(last, Refusal)


def test_who_has_left_may_have_guessed() -> None:
    """A client can close its end alone, and read the answer."""
    stand = LockStand()
    for _ in range(2):
        gone = ELSEWHERE._replace(is_gone=lambda: True)
        stand.chain.settle("ann", Refusal("too many wait", is_guess=False), gone)
    assert isinstance(stand.chain.settle("ann", ANN, ELSEWHERE), Refusal)


def test_a_user_of_this_machine_who_tries_from_elsewhere_counts_as_a_failure() -> None:
    stand = LockStand()
    for _ in range(3):
        stand.chain.settle("guest", GUEST, ELSEWHERE)
    last = stand.chain.settle("guest", GUEST, ELSEWHERE)
    assert isinstance(last, Refusal)
    assert last.wait_s == 60


class TestTokens:
    """A token may come without a name, and be renewed while a connection is open."""

    class Tokens(AuthBackend):
        takes_bearer = True
        name = "tokens"

        def begin(self, credentials: Credentials, peer: Peer, done: Done) -> None:
            name = (credentials.password or "").removeprefix("token of ")
            done(User(name, "", backend="tokens") if name else Refusal("none"))

    def chain(self) -> AuthChain:
        users = UserRegistry([ANN])
        return AuthChain([InternalBackend(users, AtOnce()), self.Tokens()], users)

    def answer(self, chain: AuthChain, token: str) -> Answer:
        answers: list[Answer] = []
        chain.begin_bearer(token, HERE, answers.append)
        return answers[0]

    def test_only_backends_that_take_a_token_are_asked(self) -> None:
        answer = self.answer(self.chain(), "token of bob")
        assert isinstance(answer, User)
        assert answer.name == "bob"
        assert self.answer(self.chain(), "") == Refusal("tokens: none")
        users = UserRegistry()
        internal = AuthChain([InternalBackend(users, AtOnce())], users)
        assert not internal.takes_bearer
        assert self.answer(internal, "token of bob") == Refusal("")

    def test_tokens_without_a_name_count_as_failures_too(self) -> None:
        stand = LockStand()
        stand.chain.backends = (self.Tokens(),)
        answers = [self.answer(stand.chain, "") for _ in range(4)]
        assert [isinstance(each, Refusal) and each.wait_s for each in answers] == [0, 0, 60, 60]

    def renewed(self, secret: str) -> Answer:
        answers: list[Answer] = []
        user = User("bob", "", backend="tokens")
        self.chain().renew(user, secret, HERE, answers.append)
        return answers[0]

    def test_a_secret_is_renewed_by_the_backend_that_let_the_user_in(self) -> None:
        assert self.renewed("token of bob") == User("bob", "", backend="tokens")
        assert self.renewed("pw") == Refusal("it is of another user, 'pw'")
        assert self.renewed("token of ann") == Refusal("it is of another user, 'ann'")
