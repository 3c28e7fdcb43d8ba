"""The benchmark of the command line runs, and has a figure for each command."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import cli_start


def test_each_command_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cli_start", "--repetitions", "1"])
    cli_start.main()
    found = json.loads(capsys.readouterr().out)
    assert found["commands"].keys() == {"python", *cli_start.COMMANDS}
    for each in found["commands"].values():
        assert 0 < each["wall_min_ms"] <= each["wall_median_ms"]
        assert 0 < each["cpu_min_ms"] <= each["cpu_median_ms"]


@pytest.mark.acceptance
def test_no_command_needs_twice_the_limit_of_processor_time() -> None:
    """The time of a processor hardly depends on what else runs, as that on the wall does."""
    found = cli_start.measure(3)
    slow = {name: each["cpu_min_ms"] for name, each in found.items()}
    assert {name for name, cpu_ms in slow.items() if cpu_ms > 2 * cli_start.LIMIT_MS} == set(), slow


def test_a_command_that_fails_is_named() -> None:
    with pytest.raises(SystemExit, match="ended with 3"):
        cli_start.run(("-c", "raise SystemExit(3)"), "http://127.0.0.1:1")


def test_a_wrong_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["cli_start", "--repetitions", "0"])
    with pytest.raises(SystemExit):
        cli_start.main()
