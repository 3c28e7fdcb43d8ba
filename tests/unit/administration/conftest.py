"""A broker with an administration in memory, and brokers that follow each other on a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hareline.administration.origins import Origins
from tests.support.administered import Administered

Restart = Callable[..., Administered]


@pytest.fixture
def broker() -> Administered:
    return Administered()


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Restart]:
    """The broker of a file, started anew by each call."""
    started: list[Administered] = []

    def restart(origins: Origins | None = None) -> Administered:
        for former in started:
            former.close()
        started[:] = [Administered(tmp_path, origins)]
        return started[0]

    yield restart
    for former in started:
        former.close()
