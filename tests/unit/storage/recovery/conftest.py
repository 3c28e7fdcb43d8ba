"""A journal on disk to recover, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.journals import JournalBuilder
from tests.support.recoveries import KeepingListener


@pytest.fixture
def listener() -> KeepingListener:
    return KeepingListener()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalBuilder]:
    builder = JournalBuilder(tmp_path / "journal", 1 << 16)
    builder.begin(1)
    yield builder
    builder.close()
