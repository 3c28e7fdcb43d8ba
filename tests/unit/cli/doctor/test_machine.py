"""Checks of the doctor."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from hareline.cli import doctor
from hareline.cli.doctor import Finding, Verdict


def verdicts(found: list[Finding]) -> dict[str, Verdict]:
    return {each.check: each.verdict for each in found}


def test_this_python_is_good_enough() -> None:
    found = verdicts(list(doctor.check_python()))
    assert found["python"] is Verdict.ok
    assert found["uvloop"] in {Verdict.ok, Verdict.note}


def test_a_missing_uvloop_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda _: None)
    monkeypatch.setattr("platform.python_implementation", lambda: "CPython")
    assert verdicts(list(doctor.check_python()))["uvloop"] is Verdict.warning


def test_few_open_files_are_a_warning_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    somaxconn = tmp_path / "somaxconn"
    somaxconn.write_text("128\n")
    monkeypatch.setattr(doctor, "_SOMAXCONN", somaxconn)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    files, backlog = doctor.check_limits(1024)
    assert (files.verdict, backlog.verdict) == (Verdict.warning, Verdict.note)
    assert "LimitNOFILE" in files.remedy
    assert "1024" in backlog.remedy
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    somaxconn.write_text("4096\n")
    assert [each.verdict for each in doctor.check_limits(1024)] == [Verdict.ok]


def test_a_clock_that_was_set_back_is_noticed() -> None:
    now = time.time()
    for newest, broker, verdict in (
        (None, None, Verdict.ok),
        (now - 5, now + 5, Verdict.ok),
        (now + 600, None, Verdict.warning),
        (None, now - 600, Verdict.warning),
    ):
        (found,) = doctor.check_clock(newest, broker)
        assert found.verdict is verdict


def test_a_clock_of_1970_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    (found,) = doctor.check_clock(None, None)
    assert found.verdict is Verdict.warning
