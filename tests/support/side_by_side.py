"""Which tests `make test` gives to one process together, and which come first.

pytest-xdist runs the suite in several processes, which mostly wait for brokers of their own.
tests/conftest.py calls this. The tests of a file stay together, for they share a broker, a suite in
another language, or what was built for it. Files stay together that share what is dear, as Spark's
session is, or what only one process may have, as Maven's repository is.

Invariant: each test belongs to one group, whatever the order; a group runs in the order of its
files, in one process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

#: What the names of files of a group begin with. The group that takes longest comes first: what
#: begins last keeps all others waiting at the end.
TOGETHER: Final = (
    ("Spark", ("tests/spark/",)),
    (
        "Maven",
        (
            "tests/interop/test_java_client.py",
            "tests/interop/test_java_perf_test.py",
            "tests/interop/test_jms.py",
            "tests/interop/test_tls_clients.py",
            "tests/interop/test_examples.py",
            "tests/benchmarks/test_jms_program.py",
        ),
    ),
)
#: Where files take long, the longest first; all others are short, and come last.
LONG: Final = (
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


def group_of(nodeid: str) -> str:
    """The group of a test: a name of ``TOGETHER``, or its file."""
    file = nodeid.partition("::")[0]
    for name, beginnings in TOGETHER:
        if file.startswith(beginnings):
            return name
    return file


def rank_of(nodeid: str) -> int:
    """How many kinds of groups come before that of a test."""
    group = group_of(nodeid)
    for rank, (name, _) in enumerate(TOGETHER):
        if group == name:
            return rank
    for rank, beginning in enumerate(LONG, len(TOGETHER)):
        if group.startswith(beginning):
            return rank
    return len(TOGETHER) + len(LONG)


def workers() -> int:
    """One process more than there are cores: about a third of the time all wait."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else 2


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc] # of no known type
    """Gives a whole group to the next process that is free, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
