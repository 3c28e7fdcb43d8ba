"""A quick hash becomes a slow one at the next login, durably, and only for users of run time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline import events
from hareline.administration.origins import Origins
from hareline.administration.users import PasswordUpgrades
from hareline.auth.passwords import hash_password, verify_password
from hareline.auth.users import User
from tests.support.administered import Administered
from tests.support.login_work import ByHand


class Stand:
    def __init__(self, directory: Path | None = None, origins: Origins | None = None) -> None:
        self.broker = Administered(directory, origins)
        self.workers = ByHand()
        self.algorithm = "argon2id"
        self.upgrades = PasswordUpgrades(
            self.broker.administration.users,
            self.workers,
            lambda: self.algorithm,
            self.broker.context.report,
        )
        self.put("secret")

    def put(self, password: str) -> None:
        self.broker.administration.users.put(
            "ann", password_hash=hash_password(password), tags=["monitoring"]
        )

    @property
    def ann(self) -> User:
        return self.broker.administration.users.lookup("ann")

    def prove(self, password: str = "secret") -> None:
        self.upgrades.on_proven(self.ann, password)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    stand = Stand(tmp_path)
    yield stand
    stand.broker.close()


def test_the_next_login_replaces_the_hash_durably(stand: Stand, tmp_path: Path) -> None:
    stand.prove()
    assert stand.ann.hashing == "sha256"  # the login does not wait for it
    stand.workers.run()
    assert stand.ann.hashing == "argon2id"
    assert verify_password("secret", stand.ann.password_hash, "argon2id")
    assert stand.ann.tags == ("monitoring",)
    assert stand.broker.reported(events.PASSWORD_REHASHED) == [{"user": "ann", "before": "sha256"}]
    stand.broker.close()
    again = Administered(tmp_path)
    ann = again.administration.users.lookup("ann")
    again.close()
    assert (ann.hashing, ann.password_hash) == ("argon2id", stand.ann.password_hash)


def test_a_wave_of_logins_hashes_once(stand: Stand) -> None:
    for _ in range(3):
        stand.prove()
    assert len(stand.workers.origins) == 1
    stand.workers.run()
    stand.prove()
    assert stand.workers.origins == []


def test_a_password_that_changes_meanwhile_stays(stand: Stand) -> None:
    stand.prove()
    stand.put("other")
    changed = stand.ann
    stand.workers.run()
    assert stand.ann == changed
    assert stand.broker.reported(events.PASSWORD_REHASHED) == []


def test_a_user_that_is_deleted_meanwhile_stays_deleted(stand: Stand) -> None:
    stand.prove()
    stand.broker.administration.users.delete("ann")
    stand.workers.run()
    assert "ann" not in stand.broker.users


def test_a_line_that_is_full_leaves_it_to_the_next_login(stand: Stand) -> None:
    stand.workers.is_full = True
    stand.prove()
    stand.workers.is_full = False
    stand.prove()
    stand.workers.run()
    assert stand.ann.hashing == "argon2id"


def test_hashes_for_rabbitmq_are_kept_where_the_settings_say_so(stand: Stand) -> None:
    stand.algorithm = "sha256"
    stand.prove()
    assert stand.workers.origins == []


def test_users_of_the_settings_keep_what_is_written_there() -> None:
    guest = User("guest", hash_password("guest"))
    stand = Stand(origins=Origins(users={"guest": guest}))
    stand.upgrades.on_proven(guest, "guest")
    assert stand.workers.origins == []
