"""Definitions as former builds wrote them, kept as files: they are brought along, once and whole.

``fixtures/definitions/version-N.sqlite`` is a file of that version as its broker left it behind.
They are never made anew.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from hareline.errors import StoreError
from hareline.message import Table
from hareline.storage.administration import UserRecord
from hareline.storage.definitions import schema
from hareline.storage.definitions.schema import FILE_NAME, VERSION
from hareline.storage.definitions.sqlite import (
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    SqliteDefinitions,
)

FIXTURES: Final = Path(__file__).parent / "fixtures" / "definitions"
NO_UTF8: Final = b"caf\xe9".decode("utf-8", "surrogateescape")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A version 1 file where a broker would look for it."""
    shutil.copyfile(FIXTURES / "version-1.sqlite", tmp_path / FILE_NAME)
    return tmp_path / FILE_NAME


@contextmanager
def opened(path: Path) -> Iterator[SqliteDefinitions]:
    with closing(SqliteDefinitions(path)) as definitions:
        yield definitions


def without_incarnation(queues: list[QueueDefinition]) -> list[QueueDefinition]:
    """The queues, whose incarnations were drawn at random."""
    return [queue._replace(incarnation="") for queue in queues]


def schema_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Each table's columns, as SQLite sees them."""
    with closing(sqlite3.connect(path)) as outside:
        tables = [
            name
            for (name,) in outside.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        return {name: list(outside.execute(f"PRAGMA table_info({name})")) for name in tables}


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as outside:
        (version,) = outside.execute("PRAGMA user_version").fetchone()
        return int(version)


def test_version_1_has_everything_that_it_had(path: Path) -> None:
    with opened(path) as definitions:
        assert definitions.vhosts() == ["/", "shop"]
        assert without_incarnation(definitions.queues("/")) == [
            QueueDefinition(
                2, "tasks", False, Table({"x-max-length": 10, "price": Decimal("1.25")})
            ),
            QueueDefinition(3, NO_UTF8, True, Table()),
        ]
        assert without_incarnation(definitions.queues("shop")) == [
            QueueDefinition(4, "orders", False, Table())
        ]
        assert definitions.exchanges("/") == [
            ExchangeDefinition("events", "topic", False, False, Table())
        ]
        assert definitions.exchanges("shop") == [
            ExchangeDefinition(
                "audit", "fanout", True, True, Table({"alternate-exchange": "events"})
            )
        ]
        assert definitions.bindings("/") == [
            BindingDefinition("events", "queue", "tasks", "task.#", Table({"n": 1}))
        ]
        assert definitions.queue_ids("/", "gone") == [1]
        assert definitions.newest_segment == 7
        assert definitions.host_store.hosts() == []


def test_no_queue_of_version_1_has_an_owner_and_new_ones_can(path: Path) -> None:
    with opened(path) as definitions:
        assert {queue.owner for queue in definitions.queues("/")} == {None}
        queue_id = definitions.add_queue(
            "/", "mine", is_auto_delete=False, arguments={}, owner="client-1"
        )
        definitions.host_store.remember_host("10.0.0.1", 20_000, print)
    assert queue_id == 5
    with opened(path) as definitions:
        (mine,) = without_incarnation(definitions.queues("/")[-1:])
        assert mine == QueueDefinition(5, "mine", False, Table(), "client-1")
        assert definitions.host_store.hosts() == [("10.0.0.1", 20_000)]


def test_queues_of_version_2_get_incarnations_that_stay(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    shutil.copyfile(FIXTURES / "version-2.sqlite", path)
    with opened(path) as definitions:
        first = [*definitions.queues("/"), *definitions.queues("shop")]
        assert [queue.name for queue in first] == ["log", "mine", "amq.delayed.later", "orders"]
        assert [queue.queue_id for queue in first] == [2, 3, 4, 5]
        assert first[1].owner == "client-1"
        assert definitions.host_store.hosts() == [("10.0.0.1", 20_000)]
        assert definitions.newest_segment == 9
    drawn = [queue.incarnation for queue in first]
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in drawn)
    assert len(set(drawn)) == 4
    with opened(path) as definitions:
        assert [*definitions.queues("/"), *definitions.queues("shop")] == first


def test_readers_and_settings_of_queues_of_later_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    shutil.copyfile(FIXTURES / "version-3.sqlite", path)
    with opened(path) as definitions:
        (log,) = definitions.queues("/")
        assert [each.name for each in definitions.reader_store.readers(log.queue_id)] == ["r"]
        assert definitions.administration.records(UserRecord) == []
    shutil.copyfile(FIXTURES / "version-4.sqlite", path)
    with opened(path) as definitions:
        (orders,) = definitions.queues("shop")
        assert (orders.changes, orders.is_paused) == (Table({"x-max-length": 5}), True)
        definitions.administration.put(UserRecord("ann", "", "sha256", "", (), {}, True))
    with opened(path) as definitions:
        assert [each.name for each in definitions.administration.records(UserRecord)] == ["ann"]


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_file_that_was_brought_along_is_like_a_new_one(version: int, tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    shutil.copyfile(FIXTURES / f"version-{version}.sqlite", path)
    with opened(path), opened(tmp_path / "new.sqlite"):
        pass
    assert version_of(path) == version_of(tmp_path / "new.sqlite") == VERSION
    assert schema_of(path) == schema_of(tmp_path / "new.sqlite")


def test_there_is_a_fixture_of_every_version_that_is_brought_along() -> None:
    for version in range(1, VERSION):
        assert version_of(FIXTURES / f"version-{version}.sqlite") == version


def test_a_step_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = schema_of(path)
    broken = {1: schema.UPGRADES[1] + "CREATE TABLE queues (x);"}
    monkeypatch.setattr(schema, "UPGRADES", broken)
    with pytest.raises(StoreError, match=rf"{FILE_NAME}: table queues already exists"):
        SqliteDefinitions(path)
    assert (version_of(path), schema_of(path)) == (1, before)
    monkeypatch.undo()
    with opened(path) as definitions:
        assert len(definitions.queues("/")) == 2
    assert version_of(path) == VERSION


def test_a_version_that_never_was_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as outside:
        outside.execute("PRAGMA user_version = 0")
    with pytest.raises(StoreError, match=rf"{FILE_NAME}: version 0, which no Hareline has written"):
        SqliteDefinitions(path)
