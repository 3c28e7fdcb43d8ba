"""One broker, SOAK_CONNECTIONS connections with names of their own: its memory reaches a plateau.

`make acceptance` makes a few hundred. With 100000 (five to ten minutes) the numbers are those of
docs/architecture.md, "Memory".
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.churn import Churn

CONNECTIONS = int(os.environ.get("SOAK_CONNECTIONS", "400"))
#: Where memory is looked at, as shares of the whole.
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
#: Until the caches have what they keep of names that never come again.
GROWTH_LIMIT_BYTES = 10 * 1024 * 1024
#: After a quarter of 100,000 connections they do.
FULL_FROM = 20_000
LATE_GROWTH_LIMIT_BYTES = 1024 * 1024

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]


def test_connections_with_names_of_their_own_take_no_memory_for_ever(
    daemon: BrokerProcess,
) -> None:
    churn = Churn((daemon.host, daemon.port))
    first = daemon.resident_bytes
    print(f"\n{0:>8} connections: {first / 1e6:.1f} MB")
    samples: list[tuple[int, int]] = []
    for share in SHARES:
        churn.run(round(CONNECTIONS * share) - churn.count)
        samples.append((churn.count, daemon.resident_bytes))
        print(f"{churn.count:>8} connections: {samples[-1][1] / 1e6:.1f} MB")
    assert samples[-1][1] - first < GROWTH_LIMIT_BYTES, samples
    late = [size for count, size in samples if count >= FULL_FROM]
    assert not late or max(late) - late[0] < LATE_GROWTH_LIMIT_BYTES, samples
