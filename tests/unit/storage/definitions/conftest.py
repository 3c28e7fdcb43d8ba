"""A file of definitions, and what another process would find in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.definitions.sqlite import SqliteDefinitions

Open = Callable[[], SqliteDefinitions]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def reopened(path: Path) -> Iterator[Open]:
    """The file as another process would find it: each call closes what the last one gave."""
    given: list[SqliteDefinitions] = []

    def reopen() -> SqliteDefinitions:
        for definitions in given:
            definitions.close()
        given[:] = [SqliteDefinitions(path)]
        return given[0]

    yield reopen
    for definitions in given:
        definitions.close()


@contextmanager
def refusing(path: Path, table: str) -> Iterator[None]:
    """SQLite refuses each insertion into this table."""
    with closing(sqlite3.connect(path, isolation_level=None)) as outside:
        outside.execute(
            f"CREATE TRIGGER refuse BEFORE INSERT ON {table}"
            " BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
        try:
            yield
        finally:
            outside.execute("DROP TRIGGER refuse")
