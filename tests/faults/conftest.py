"""What fails: the disk's sync, which can be made to hang, and the wall clock, which can be set."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline import clock
from hareline.management.api import nodes
from hareline.settings import Settings, Storage
from hareline.storage.journal.files import Files
from tests.support.hanging import hanging_while_cleared


class ShiftedTime:
    """The module ``time`` as the broker sees it; ``shift_s`` is what was set."""

    def __init__(self) -> None:
        self.shift_s = 0.0

    def time(self) -> float:
        return time.time() + self.shift_s

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> ShiftedTime:
    """The wall clock of brokers of this process."""
    shifted = ShiftedTime()
    for module in (clock, nodes):
        monkeypatch.setattr(module, "time", shifted)
    return shifted


@pytest.fixture
def disk_answers() -> Iterator[threading.Event]:
    """While it is cleared, each sync of the journal hangs."""
    with hanging_while_cleared(Files, "sync") as answers:
        yield answers


@pytest.fixture
def durable(tmp_path: Path) -> Settings:
    """With a journal."""
    return Settings(data_dir=tmp_path / "data", storage=Storage(kind="journal"))
