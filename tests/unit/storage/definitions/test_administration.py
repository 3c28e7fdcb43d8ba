"""Records of what is administered come back as they were, and go with their virtual host."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.storage.administration import (
    GlobalParameterRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    Record,
    RemovedDefault,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from hareline.storage.definitions.sqlite import SqliteDefinitions
from hareline.storage.journal.syncer import InlineSyncer

from .conftest import refusing

Open = Callable[[], SqliteDefinitions]

NO_UTF8 = b"caf\xe9".decode("utf-8", "surrogateescape")


def records(vhost: str) -> list[Record]:
    return [
        UserRecord(f"u {vhost}", "hash", "sha256", "", ("a", "b"), {"max-channels": -1}, True),
        VhostRecord(vhost, "text", ("t",), "quorum", True, False, {"max-queues": 0}, False),
        PermissionRecord("u", vhost, ".*", "", "^ü"),
        TopicPermissionRecord("u", vhost, "amq.topic", "a", NO_UTF8),
        PolicyRecord(vhost, False, "p", "^q", "queues", -5, {"max-length": 1 << 62}),
        PolicyRecord(vhost, True, "p", "", "queues", 0, {"expires": 1}),
        ParameterRecord("shovel", vhost, "s", {"list": [1.5, None, NO_UTF8]}),
        GlobalParameterRecord(f"g {vhost}", "value"),
        RemovedDefault("vhost", vhost),
    ]


def all_records(definitions: SqliteDefinitions) -> list[Record]:
    kinds = dict.fromkeys(type(each) for each in records("/"))
    return [each for kind in kinds for each in definitions.administration.records(kind)]


def test_records_come_back_as_they_were_put_last(reopened: Open) -> None:
    store = reopened().administration
    store.put(*records(NO_UTF8))
    store.put(UserRecord("u", "old", "md5", "", (), {}, False))
    store.put(UserRecord("u", "new", "sha512", "keys", (), {}, True))
    found = all_records(reopened())
    assert [each for each in found if each in records(NO_UTF8)] == records(NO_UTF8)
    assert [each for each in found if each not in records(NO_UTF8)] == [
        UserRecord("u", "new", "sha512", "keys", (), {}, True)
    ]


def test_deleting_takes_the_key_alone(reopened: Open) -> None:
    store = reopened().administration
    store.put(*records("/"))
    store.delete(*(each for each in records("/") if not isinstance(each, PolicyRecord)))
    store.delete(PolicyRecord("/", True, "p", "other", "all", 9, {}), RemovedDefault("user", "x"))
    assert all_records(reopened()) == [records("/")[4]]


def test_a_virtual_host_goes_with_everything_in_it(reopened: Open) -> None:
    definitions = reopened()
    for vhost in ("gone", "kept"):
        definitions.administration.put(*records(vhost))
        definitions.add_queue(vhost, "q", is_auto_delete=False, arguments={})
        definitions.set_queue_settings(vhost, "q", is_paused=True, changes={})
        definitions.add_exchange(
            vhost, "e", "direct", is_auto_delete=False, is_internal=False, arguments={}
        )
        definitions.bind(vhost, "e", "queue", "q", "", {})
    definitions.administration.delete_vhost("gone")
    definitions = reopened()
    assert not definitions.administration.has_definitions("gone")
    assert definitions.administration.has_definitions("kept")
    assert definitions.vhosts() == ["kept"]
    assert definitions.bindings("gone") == []
    assert len(definitions.bindings("kept")) == 1
    assert [queue.is_paused for queue in definitions.queues("kept")] == [True]
    # users, global parameters and what was removed belong to no virtual host
    assert len(all_records(definitions)) == len(records("kept")) + 3


def test_a_queue_declared_later_has_nothing_of_a_deleted_one(reopened: Open) -> None:
    definitions = reopened()
    first = definitions.add_queue("v", "q", is_auto_delete=False, arguments={})
    definitions.administration.delete_vhost("v")
    assert definitions.add_queue("v", "q", is_auto_delete=False, arguments={}) != first


def test_who_waits_is_told_what_was_lost(reopened: Open, path: Path) -> None:
    definitions, disk = reopened(), InlineSyncer()
    store = definitions.administration
    told: list[StoreError | None] = []
    definitions.file.gather(disk, lambda: None)
    assert not store.when_settled(told.append), "nothing has gathered"
    store.put(records("/")[0], GlobalParameterRecord("g", 1))
    assert store.when_settled(told.append)
    definitions.file.commit()
    with refusing(path, "global_parameters"):
        disk.step()
    assert ["no room" in str(each) for each in told] == [True]
    assert all_records(reopened()) == []


def test_damaged_json_is_an_error_that_names_the_column(reopened: Open, path: Path) -> None:
    reopened().administration.put(GlobalParameterRecord("g", 1))
    definitions = reopened()
    with closing(sqlite3.connect(path)) as outside, outside:
        outside.execute("UPDATE global_parameters SET value = '{'")
    with pytest.raises(StoreError, match="column 'value' of the table 'global_parameters'"):
        definitions.administration.records(GlobalParameterRecord)
