"""The broker's own users: quick hashes at once, slow ones in a thread and only once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hareline.auth.backends import TOO_MANY, Answer, Credentials, InternalBackend, Refusal
from hareline.auth.passwords import hash_password
from hareline.auth.peer import Peer
from hareline.auth.users import User, UserRegistry
from tests.support.login_work import ByHand

HERE, ELSEWHERE = Peer("127.0.0.1", is_loopback=True), Peer("192.0.2.7", is_loopback=False)
ANN = User("ann", hash_password("secret"))
GUEST = User("guest", hash_password("guest"))
SLOW = User("sam", hash_password("secret", "argon2id"), "argon2id")


class Stand:
    def __init__(self, *users: User) -> None:
        self.users = UserRegistry(users)
        self.workers = ByHand()
        self.proven: list[tuple[str, str]] = []
        self.backend = InternalBackend(
            self.users,
            self.workers,
            lambda user, password: self.proven.append((user.name, password)),
        )
        self.answers: list[Answer] = []

    def log_in(self, name: str, password: str | None, peer: Peer = ELSEWHERE) -> None:
        self.backend.begin(Credentials(name, password), peer, self.answers.append)


@pytest.mark.parametrize(
    ("name", "password", "peer", "answer"),
    [
        ("ann", "secret", ELSEWHERE, ANN),
        ("ann", "wrong", ELSEWHERE, Refusal()),
        ("ann", "", ELSEWHERE, Refusal()),
        ("nobody", "secret", ELSEWHERE, Refusal()),
        ("guest", "guest", HERE, GUEST),
        ("guest", "guest", ELSEWHERE, Refusal()),
        ("ann", None, ELSEWHERE, ANN),  # the mechanism has proved the name
        ("nobody", None, ELSEWHERE, Refusal()),
        ("guest", None, ELSEWHERE, Refusal()),
    ],
)
def test_quick_hashes_are_compared_at_once(
    name: str, password: str | None, peer: Peer, answer: Answer
) -> None:
    stand = Stand(ANN, GUEST)
    stand.log_in(name, password, peer)
    assert stand.answers == [answer]
    assert stand.workers.origins == []
    assert stand.backend.name == "internal"


@pytest.mark.parametrize(
    ("name", "password", "answer"),
    [
        ("sam", "secret", SLOW),
        ("sam", "wrong", Refusal()),
        ("sam", "", Refusal()),
        ("ann", "wrong", Refusal()),
        ("nobody", "secret", Refusal()),
    ],
)
def test_a_slow_hash_is_compared_in_a_thread(name: str, password: str, answer: Answer) -> None:
    stand = Stand(ANN, SLOW)
    stand.log_in(name, password)
    assert stand.answers == []
    assert stand.workers.origins == ["192.0.2.7"]
    stand.workers.run()
    assert stand.answers == [answer]


def test_a_password_that_was_right_takes_no_thread_again() -> None:
    stand = Stand(SLOW)
    stand.log_in("sam", "secret")
    stand.workers.run()
    stand.log_in("sam", "secret")
    assert stand.answers == [SLOW, SLOW]
    stand.log_in("sam", "wrong")
    assert len(stand.workers.origins) == 1


def test_a_change_of_the_password_holds_for_the_next_login() -> None:
    stand = Stand(SLOW)
    stand.log_in("sam", "secret")
    stand.workers.run()
    stand.users.add(replace(SLOW, password_hash=hash_password("other", "argon2id")))
    stand.log_in("sam", "secret")
    stand.workers.run()
    assert stand.answers == [SLOW, Refusal()]


@pytest.mark.parametrize("change", ["deleted", "changed"])
def test_a_user_that_changes_while_the_hash_is_computed_does_not_get_in(change: str) -> None:
    stand = Stand(SLOW)
    stand.log_in("sam", "secret")
    if change == "deleted":
        stand.users.remove("sam")
    else:
        stand.users.add(replace(SLOW, password_hash=hash_password("other", "argon2id")))
    stand.workers.run()
    assert stand.answers == [Refusal()]
    assert stand.proven == []


def test_new_rights_of_the_user_are_those_of_the_answer() -> None:
    stand = Stand(SLOW)
    stand.log_in("sam", "secret")
    changed = replace(SLOW, tags=frozenset({"monitoring"}))
    stand.users.add(changed)
    stand.workers.run()
    assert stand.answers == [changed]


def test_a_login_that_finds_the_line_full_is_refused_with_the_reason() -> None:
    stand = Stand(SLOW)
    stand.workers.is_full = True
    stand.log_in("sam", "secret")
    assert stand.answers == [Refusal(TOO_MANY, is_guess=False)]


def test_a_login_that_waits_too_long_is_refused_and_is_no_guess() -> None:
    stand = Stand(SLOW)
    stand.log_in("sam", "secret")
    stand.workers.is_late = True
    stand.workers.run()
    assert stand.answers == [Refusal(TOO_MANY, is_guess=False)]
    assert stand.proven == []


def test_nothing_is_computed_for_a_client_that_has_left() -> None:
    stand = Stand(SLOW)
    stand.log_in("sam", "secret", ELSEWHERE._replace(is_gone=lambda: True))
    stand.workers.run()
    assert stand.answers == [Refusal(TOO_MANY, is_guess=False)]
    assert stand.proven == []


def test_right_passwords_are_told_and_wrong_ones_are_not() -> None:
    stand = Stand(ANN, SLOW)
    for name, password in (("ann", "secret"), ("ann", "wrong"), ("sam", "secret")):
        stand.log_in(name, password)
        if stand.workers.origins:
            stand.workers.run()
    assert stand.proven == [("ann", "secret"), ("sam", "secret")]
