"""The load of TLS, against this tree's broker."""

from __future__ import annotations

import sys

import pytest

from benchmarks import tls


@pytest.mark.acceptance
def test_each_figure_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CERTIFICATE", "KEY", "PORT", "MANAGEMENT"):
        monkeypatch.setenv(f"HARELINE_TLS__{name}", "")  # put back at the end
        monkeypatch.delenv(f"HARELINE_TLS__{name}")
    found = tls.measure(["hareline"], rounds=1, seconds=1.0)
    assert found.keys() == {"hareline"}
    assert set(found["hareline"]) == {
        *("handshakes_per_s", "tls_messages_per_s", "plain_messages_per_s")
    }
    assert all(value > 0 for value in found["hareline"].values())


def test_a_wrong_argument_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tls", "--rounds", "x"])
    with pytest.raises(SystemExit) as caught:
        tls.main()
    assert caught.value.code == 2
