"""Division of the tests among the processes of pytest-xdist, which mostly wait for brokers.

tests/conftest.py calls this. The tests of a file stay in one process, for they share a broker, a
suite in another language, or what was built for it. The groups of ``TOGETHER`` stay in one process
each; each test of those of ``APART`` goes to whichever is free.

Invariant: each test belongs to one division, whatever the order; a division runs in the order of
its files, in one process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from .groups import group_of

if TYPE_CHECKING:
    from xdist.remote import Producer

#: Groups that share something expensive (Spark's session), or a thing for one process only (Maven's
#: repository).
TOGETHER: Final = frozenset({"spark", "java"})
#: Groups of one long file, whose tests share nothing.
APART: Final = frozenset({"fairness"})
#: Tests that take long, the longest first: a long file that begins last keeps all others waiting.
LONG: Final = (
    "tests/spark/",
    "tests/interop/java/",
    "tests/server/test_restart.py",
    "tests/conformance/test_paged_model.py",
    "tests/crash/",
    "tests/server/",
    "tests/interop/",
    "tests/conformance/",
    "tests/fairness/",
    "tests/soak/",
    "tests/management/",
    "tests/benchmarks/",
)


def division_of(nodeid: str) -> str:
    """Division of a test: its group, itself or its file, as ``TOGETHER`` and ``APART`` say."""
    group = group_of(nodeid)
    if group in TOGETHER:
        return group
    return nodeid if group in APART else nodeid.partition("::")[0]


def rank_of(nodeid: str) -> int:
    """Index of the first entry of ``LONG`` that fits; tests of a lower rank come first."""
    for rank, beginning in enumerate(LONG):
        if nodeid.startswith(beginning):
            return rank
    return len(LONG)


def workers() -> int:
    """One process more than there are cores: about a third of the time all wait."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else 2


class DivisionScheduling(LoadScopeScheduling):  # type: ignore[misc] # of no known type
    """Gives a whole division to the next free process, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return division_of(nodeid)
