"""What is measured of the journal."""

from __future__ import annotations

import pytest

from hareline.metrics.source import JournalMeter


def test_a_batch_that_is_not_synced_has_no_sync() -> None:
    journal = JournalMeter()
    journal.on_batch(100, 0.001, None)
    journal.on_batch(50, 0.003, 0.002)
    assert (journal.writes.count, journal.syncs.count) == (2, 1)
    assert journal.octets == 150
    assert journal.writes.sum_s == pytest.approx(0.004)
