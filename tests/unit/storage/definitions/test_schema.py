"""A file of ours is opened, made or refused, and never spoiled; a change is whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.storage.definitions.schema import FILE_NAME, VERSION, DefinitionsMissing
from hareline.storage.definitions.sqlite import SqliteDefinitions

Open = Callable[[], SqliteDefinitions]


def test_what_was_told_is_there_without_an_orderly_end(path: Path) -> None:
    definitions = SqliteDefinitions(path)
    definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    second = SqliteDefinitions(path)  # the first one is still open, as after a crash
    assert [queue.name for queue in second.queues("/")] == ["q"]
    second.close()
    definitions.close()


def test_a_change_that_fails_leaves_nothing_behind(path: Path, reopened: Open) -> None:
    definitions = reopened()
    definitions.add_queue("/", "q", is_auto_delete=False, arguments={})
    definitions.bind("/", "x", "queue", "q", "", {})
    outside = sqlite3.connect(path, isolation_level=None)
    outside.execute(
        "CREATE TRIGGER refuse BEFORE DELETE ON bindings BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    with pytest.raises(StoreError, match=rf"{FILE_NAME}: no room"):
        definitions.delete_queue("/", "q")
    outside.execute("DROP TRIGGER refuse")
    outside.close()
    assert len(definitions.queues("/")) == 1
    definitions.delete_queue("/", "q")  # the connection is as good as before
    assert reopened().queues("/") == []


class TestFilesThatAreNotOurs:
    @pytest.mark.parametrize("version", [0, VERSION - 1, 99])
    def test_another_version_is_refused_by_its_number(self, version: int, path: Path) -> None:
        SqliteDefinitions(path).close()
        outside = sqlite3.connect(path)
        outside.execute(f"PRAGMA user_version = {version}")
        outside.close()
        text = rf"{FILE_NAME}: version {version}; this Hareline reads version {VERSION} only"
        with pytest.raises(StoreError, match=text):
            SqliteDefinitions(path)

    def test_no_database_at_all_is_told(self, path: Path) -> None:
        path.write_bytes(b"definitions of another kind, and long enough to be looked at " * 20)
        with pytest.raises(StoreError, match=rf"{FILE_NAME}: file is not a database"):
            SqliteDefinitions(path)

    def test_the_database_of_another_program_is_left_alone(self, path: Path) -> None:
        outside = sqlite3.connect(path)
        outside.execute("CREATE TABLE theirs (x)")
        outside.close()
        with pytest.raises(StoreError, match="of another program"):
            SqliteDefinitions(path)

    @pytest.mark.parametrize("pragma", ["user_version = 1", "application_id = 7"])
    def test_nor_is_one_without_tables_filled(self, path: Path, pragma: str) -> None:
        outside = sqlite3.connect(path)
        outside.execute(f"PRAGMA {pragma}")
        outside.close()
        with pytest.raises(StoreError, match="of another program"):
            SqliteDefinitions(path)

    def test_an_empty_file_is_filled_unless_that_is_forbidden(self, path: Path) -> None:
        """What a broker leaves that was killed before it had made its tables."""
        path.touch()
        with pytest.raises(DefinitionsMissing, match=rf"{FILE_NAME}: empty"):
            SqliteDefinitions(path, may_create=False)
        assert path.read_bytes() == b""
        SqliteDefinitions(path).close()
        SqliteDefinitions(path, may_create=False).close()
        path.unlink()
        with pytest.raises(DefinitionsMissing, match=rf"{FILE_NAME}: missing"):
            SqliteDefinitions(path, may_create=False)
        assert not path.exists()

    @pytest.mark.parametrize(
        ("statement", "text"),
        [
            ("DROP TABLE queues", "damaged, there is no table 'queues'"),
            ("DROP TABLE deleted_queues", "damaged, there is no table 'deleted_queues'"),
            ("ALTER TABLE queues DROP COLUMN owner", "the table 'queues' has no column 'owner'"),
            ("DELETE FROM journal", "damaged, the table 'journal' has no newest segment"),
            ("UPDATE journal SET newest_segment = 'x'", "'journal' has no newest segment"),
        ],
    )
    def test_what_lacks_a_table_or_a_part_of_one_is_told(
        self, path: Path, statement: str, text: str
    ) -> None:
        SqliteDefinitions(path).close()
        outside = sqlite3.connect(path, isolation_level=None)
        outside.execute(statement)
        outside.close()

        def newest() -> int:
            with closing(SqliteDefinitions(path)) as definitions:
                return definitions.newest_segment

        with pytest.raises(StoreError, match=rf"{FILE_NAME}: .*{text}"):
            newest()

    def test_a_missing_directory_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match=r"nowhere/definitions\.sqlite: No such file"):
            SqliteDefinitions(tmp_path / "nowhere" / FILE_NAME)

    def test_arguments_that_are_damaged_name_their_queue(self, path: Path, reopened: Open) -> None:
        reopened().add_queue("/", "q", is_auto_delete=False, arguments={"a": 1})
        outside = sqlite3.connect(path, isolation_level=None)
        outside.execute("UPDATE queues SET arguments = x'0161'")
        outside.close()
        with pytest.raises(StoreError, match=r"arguments of queue 'q': .*field table"):
            reopened().queues("/")


def test_an_empty_file_is_refused_before_sqlite_removes_its_log(tmp_path: Path) -> None:
    path = tmp_path / "definitions.sqlite"
    log = tmp_path / "definitions.sqlite-wal"
    path.touch()
    log.write_bytes(b"all that is left")
    with pytest.raises(DefinitionsMissing, match="empty"):
        SqliteDefinitions(path, may_create=False)
    assert log.read_bytes() == b"all that is left"
