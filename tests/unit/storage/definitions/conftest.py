"""A file of definitions, and what another process would find in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
