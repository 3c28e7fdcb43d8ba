"""Nothing happens before it is durable, and a batch is durable at its end."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration.changes import Changes
from hareline.errors import StoreError
from hareline.storage.administration import (
    AdministrationStore,
    GlobalParameterRecord,
    MemoryAdministration,
)
from tests.support.administered import Administered

RECORD = GlobalParameterRecord("n", 1)


class Counting(MemoryAdministration):
    """Counts commits, each of which may fail."""

    def __init__(self) -> None:
        self.commits = 0
        self.problem = ""

    def commit(self) -> None:
        self.commits += 1
        if self.problem:
            raise StoreError(self.problem)


def test_a_change_is_committed_at_once_and_a_batch_once() -> None:
    store = Counting()
    changes = Changes(store)
    changes.put(RECORD)
    assert store.commits == 1
    with changes.batch():
        changes.put(RECORD)
        with changes.batch():
            changes.delete(RECORD)
        changes.delete_vhost("/")
    assert store.commits == 2


def test_an_error_in_a_batch_is_not_hidden() -> None:
    store = Counting()
    changes = Changes(store)
    with pytest.raises(ValueError, match="mine"), changes.batch():
        raise ValueError("mine")
    changes.put(RECORD)
    assert store.commits == 1


def test_listeners_hear_who_did_what() -> None:
    changes = Changes(MemoryAdministration())
    told: list[Any] = []
    changes.on_event.append(lambda event, fields: told.append((event, dict(fields))))
    changes.tell("user.created", "ann", name="bob")
    assert told == [("user.created", {"name": "bob", "user_who_performed_action": "ann"})]


def test_what_cannot_be_written_does_not_happen(
    broker: Administered, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: AdministrationStore = broker.administration.changes.store

    def fail() -> None:
        raise StoreError("disk full")

    monkeypatch.setattr(type(store), "commit", lambda _self: fail())
    administration = broker.administration
    for call in (
        lambda: administration.users.put("ann", password="p"),
        lambda: administration.vhosts.put("shop"),
        lambda: administration.users.delete("guest"),
        lambda: administration.vhosts.delete("/"),
        lambda: administration.policies.put("/", "p", pattern="", definition={"expires": 9}),
    ):
        with pytest.raises(StoreError, match="disk full"):
            call()
    assert [user.name for user in broker.users] == ["guest"]
    assert list(broker.context.vhosts) == ["/"]
    assert list(administration.policies.all(is_operator=False)) == []
    assert broker.events() == []
