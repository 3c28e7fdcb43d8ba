"""The benchmark of bulk reads, at its smallest: it measures both rates and all rows are read."""

from __future__ import annotations

import sys

import pytest

from benchmarks import stream_ranges


@pytest.mark.acceptance
def test_it_measures_both_rates_with_and_without_a_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("bench")
    with stream_ranges.running_broker(directory) as (url, port):
        stream_ranges.fill(url, 500)
        found = stream_ranges.measure(port, url, 500, windows=1, seconds=1.0)
    for name in ("steady", "full"):
        for label in ("without", "with"):
            figures = found[name][label]
            assert figures["msg_per_s"] > 0
            assert 0 < figures["p50_ms"] <= figures["p99_ms"]
        assert found[name]["read_rows_per_s"] > 0
    assert found["alone"]["read_rows_per_s"] > 0
    monkeypatch.setattr(sys, "argv", ["stream_ranges", "--rows", "x"])
    with pytest.raises(SystemExit):
        stream_ranges.main()
