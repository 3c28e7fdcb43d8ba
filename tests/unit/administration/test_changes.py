"""Nothing happens before it is durable, and a batch is settled at its end."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hareline.administration.changes import Changes
from hareline.administration.definitions_import import Import
from hareline.errors import StoreError
from hareline.storage.administration import (
    AdministrationStore,
    GlobalParameterRecord,
)
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.journal.syncer import InlineSyncer
from tests.support.administered import Administered
from tests.unit.storage.definitions.conftest import refusing

RECORD = GlobalParameterRecord("n", 1)


class Slow(Administered):
    """A broker whose definitions are written by ``write``."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.disk = InlineSyncer()
        self.path = directory / FILE_NAME
        self.settled: list[StoreError | None] = []
        assert self.sqlite is not None
        self.definitions: SqliteDefinitions = self.sqlite
        administration = self.administration
        administration.users.put("ann", password="p", tags=["monitoring"])
        administration.vhosts.put("shop")
        administration.users.put_permission("ann", "shop", "a", "b", "c")
        administration.users.put_topic_permission("ann", "shop", "amq.topic", "a", "b")
        administration.users.set_limit("ann", "max-channels", 7)
        administration.vhosts.set_limit("shop", "max-queues", 7)
        administration.policies.put("shop", "p", pattern="", definition={"expires": 9})
        administration.parameters.put("federation-upstream", "shop", "up", {"uri": "amqp://"})
        administration.parameters.put_global("g", 1)
        self.told.clear()
        self.definitions.file.gather(self.disk, lambda: None)

    def write(self) -> None:
        self.definitions.file.commit()
        while self.disk.step():
            self.definitions.file.commit()

    def state(self) -> tuple[object, ...]:
        return state_of(self)


def state_of(broker: Administered) -> tuple[object, ...]:
    """What is in force, as one value."""
    administration = broker.administration
    users = [
        (
            repr(replace(user, permissions={}, topic_permissions={})),
            dict(user.permissions),
            dict(user.topic_permissions),
            administration.users.limits(user.name),
        )
        for user in sorted(broker.users, key=lambda user: user.name)
    ]
    return (
        users,
        [administration.vhosts.record(name) for name in sorted(broker.context.vhosts)],
        list(administration.policies.all(is_operator=False)),
        administration.parameters.all(),
        administration.parameters.all_global(),
    )


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    broker = Slow(tmp_path)
    yield broker
    broker.write()
    broker.close()


CHANGES: dict[str, Callable[[Slow], object]] = {
    "a new user": lambda b: b.administration.users.put("bob", password="p"),
    "a changed user": lambda b: b.administration.users.put("ann", tags=["administrator"]),
    "no user": lambda b: b.administration.users.delete("ann"),
    "no default user": lambda b: b.administration.users.delete("guest"),
    "a permission": lambda b: b.administration.users.put_permission("ann", "/", "x", "y", "z"),
    "no permission": lambda b: b.administration.users.delete_permission("ann", "shop"),
    "no permission of the default user": lambda b: b.administration.users.delete_permission(
        "guest", "/"
    ),
    "a topic permission": lambda b: b.administration.users.put_topic_permission(
        "ann", "shop", "amq.topic", "x", "y"
    ),
    "no topic permission": lambda b: b.administration.users.delete_topic_permissions("ann", "shop"),
    "a limit": lambda b: b.administration.users.set_limit("ann", "max-channels", 1),
    "no limit": lambda b: b.administration.users.clear_limit("ann", "max-channels"),
    "a virtual host": lambda b: b.administration.vhosts.put("new"),
    "a traced virtual host": lambda b: b.administration.vhosts.put("shop", tracing=True),
    "a limited virtual host": lambda b: b.administration.vhosts.set_limit("shop", "max-queues", 1),
    "an unlimited virtual host": lambda b: b.administration.vhosts.clear_limit(
        "shop", "max-queues"
    ),
    "no virtual host": lambda b: b.administration.vhosts.delete("shop"),
    "a policy": lambda b: b.administration.policies.put(
        "shop", "p", pattern="^x", definition={"expires": 1}
    ),
    "no policy": lambda b: b.administration.policies.delete("shop", "p", is_operator=False),
    "a parameter": lambda b: b.administration.parameters.put(
        "federation-upstream", "shop", "up", {"uri": "amqp://other"}
    ),
    "no parameter": lambda b: b.administration.parameters.delete(
        "federation-upstream", "shop", "up"
    ),
    "a global parameter": lambda b: b.administration.parameters.put_global("g", 2),
    "no global parameter": lambda b: b.administration.parameters.delete_global("g"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_in_force_when_it_is_durable_and_not_before(slow: Slow, name: str) -> None:
    before = slow.state()
    CHANGES[name](slow)
    slow.definitions.file.commit()
    assert (slow.state(), slow.events()) == (before, [])
    assert slow.administration.changes.when_settled(slow.settled.append)
    slow.write()
    assert not slow.administration.changes.when_settled(slow.settled.append)
    assert slow.settled == [None]
    after = slow.state()
    assert after != before
    assert slow.events()
    slow.close()
    started = Administered(slow.path.parent)
    assert state_of(started) == after
    started.close()


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be_written_does_not_happen(slow: Slow, name: str) -> None:
    before = slow.state()
    slow.administration.parameters.put_global("poison", 1)
    CHANGES[name](slow)
    slow.administration.changes.when_settled(slow.settled.append)
    with refusing(slow.path, "global_parameters"):
        slow.write()
    assert ["no room" in str(each) for each in slow.settled] == [True]
    assert (slow.state(), slow.events()) == (before, [])
    slow.settled.clear()
    CHANGES[name](slow)
    slow.administration.changes.when_settled(slow.settled.append)
    slow.write()
    assert slow.settled == [None], "the next one is not about the loss"
    assert slow.state() != before


def test_who_waits_is_told_when_the_last_is_settled(slow: Slow) -> None:
    changes = slow.administration.changes
    assert not changes.when_settled(slow.settled.append)
    slow.administration.parameters.put_global("a", 1)
    slow.definitions.file.commit()
    slow.administration.parameters.put_global("b", 1)
    changes.when_settled(slow.settled.append)
    slow.disk.step()
    assert slow.settled == []
    slow.write()
    assert slow.settled == [None]


def test_a_listener_hears_of_it_in_the_context_of_who_asked(slow: Slow) -> None:
    caller: ContextVar[str] = ContextVar("caller", default="nobody")
    heard: list[str] = []
    slow.administration.on_event.append(lambda *_: heard.append(caller.get()))
    token = caller.set("ann")
    slow.administration.parameters.put_global("a", 1)
    caller.reset(token)
    slow.write()
    assert heard == ["ann"]


def test_a_bug_in_a_listener_leaves_nobody_waiting(slow: Slow) -> None:
    def fail(*_: object) -> None:
        raise ValueError("mine")

    bugs: list[str] = []
    slow.disk.on_bug = bugs.append
    slow.administration.on_event.append(fail)
    slow.administration.parameters.put_global("a", 1)
    slow.administration.changes.when_settled(slow.settled.append)
    slow.write()
    slow.administration.on_event.remove(fail)
    assert (slow.settled, "mine" in bugs[0]) == ([None], True)


def test_what_is_declared_while_its_virtual_host_is_being_deleted_goes_too(slow: Slow) -> None:
    slow.administration.vhosts.delete("shop")
    slow.definitions.file.commit()
    slow.definitions.add_queue("shop", "late", is_auto_delete=False, arguments={})
    slow.administration.changes.when_settled(slow.settled.append)
    slow.write()
    assert slow.settled == [None]
    assert slow.definitions.vhosts() == []
    slow.administration.vhosts.put("shop")
    slow.write()
    assert "shop" in slow.context.vhosts


def test_what_was_declared_meanwhile_goes_with_the_next_change_if_need_be(slow: Slow) -> None:
    slow.administration.vhosts.delete("shop")
    slow.definitions.add_queue("shop", "late", is_auto_delete=False, arguments={})
    slow.administration.changes.when_settled(slow.settled.append)
    slow.definitions.file.commit()
    slow.disk.step()
    with closing(sqlite3.connect(slow.path, isolation_level=None)) as outside:
        outside.execute(
            "CREATE TRIGGER refuse BEFORE DELETE ON queues BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        slow.write()
        outside.execute("DROP TRIGGER refuse")
    assert slow.settled == [None], "it is deleted"
    assert slow.definitions.vhosts() == ["shop"]
    slow.administration.parameters.put_global("a", 1)
    slow.write()
    assert slow.definitions.vhosts() == []


def test_users_are_deleted_together_and_not_at_all_if_that_is_lost(slow: Slow) -> None:
    steps = slow.administration.users.delete_all(["ann", "guest", "nobody"])
    before = slow.state()
    next(steps)
    slow.administration.parameters.put_global("poison", 1)
    with refusing(slow.path, "global_parameters"):
        slow.write()
    assert slow.state() == before
    list(slow.administration.users.delete_all(["ann", "guest", "nobody"]))
    slow.write()
    assert len(slow.users) == 0


def test_an_import_is_in_force_at_once_and_settled_step_by_step(slow: Slow) -> None:
    given = {
        "users": [{"name": "bob", "password_hash": "", "tags": "", "limits": {"max-channels": 1}}],
        "vhosts": [{"name": "new"}],
        "permissions": [
            {"user": "bob", "vhost": "new", "configure": "", "write": "", "read": ""},
        ],
        "queues": [{"name": "q", "vhost": "new", "durable": False, "arguments": {}}],
    }
    importing = Import(slow.context, slow.administration, given)
    steps = importing.steps()
    next(steps)
    assert importing.left_out == []
    assert slow.administration.users.lookup("bob").enters("new")
    assert slow.administration.changes.when_settled(slow.settled.append)
    with refusing(slow.path, "users"):
        slow.write()
    assert "no room" in str(slow.settled)


def test_a_batch_is_settled_as_one_and_an_error_in_it_is_not_hidden(slow: Slow) -> None:
    changes = slow.administration.changes
    with changes.batch():
        slow.administration.parameters.put_global("a", 1)
        with changes.batch():
            slow.administration.users.delete("ann")
    assert changes.when_settled(slow.settled.append)
    slow.write()
    assert slow.settled == [None]
    with pytest.raises(ValueError, match="mine"), changes.batch():
        raise ValueError("mine")
    slow.administration.parameters.put_global("b", 1)
    assert changes.is_pending


def test_a_store_that_writes_at_once_leaves_nothing_to_wait_for() -> None:
    changes = Changes(AdministrationStore())
    applied: list[str] = []
    changes.write(lambda: applied.append("it"), put=[RECORD])
    assert applied == ["it"]
    assert not changes.when_settled(lambda _: None)


def test_listeners_hear_who_did_what() -> None:
    changes = Changes(AdministrationStore())
    told: list[Any] = []
    changes.on_event.append(lambda event, fields: told.append((event, dict(fields))))
    changes.tell("user.created", "ann", name="bob")
    assert told == [("user.created", {"name": "bob", "user_who_performed_action": "ann"})]
