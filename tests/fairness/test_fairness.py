"""No load of one client makes another wait for longer than `LONGEST_WAIT_S`.

`make acceptance` runs the catalogue in small, at a hundredth; `make fairness` in full, and prints
the longest wait of each load. What is held against the bound is processor time, so that it does not
depend on what else the machine does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.fairness.http_loads import catalogue
from tests.fairness.stand import Waits, standing

SCALE: Final = float(os.environ.get("FAIRNESS_SCALE", "0.01"))
LONGEST_WAIT_S: Final = 0.25
CATALOGUE: Final = catalogue()

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.fairness,
    pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs Linux's /proc"),
]


@pytest.mark.parametrize("name", CATALOGUE)
def test_others_wait_for_no_longer_than_the_bound(name: str, tmp_path: Path) -> None:
    load = CATALOGUE[name]
    with standing(tmp_path, load.store, SCALE) as stand:
        waits = stand.measure(load.act(stand))
    print(f"\n{_row(name, waits)}")
    assert waits.questions > 1
    assert waits.loop < LONGEST_WAIT_S, _row(name, waits)
    assert waits.asked < LONGEST_WAIT_S, _row(name, waits)


def _row(name: str, waits: Waits) -> str:
    """A line of the table in docs/benchmarks-fairness.md, in milliseconds."""
    figures = (waits.loop, waits.asked, waits.clock, waits.collection)
    return f"| {name} | {' | '.join(f'{1_000 * each:.0f}' for each in figures)} |"
