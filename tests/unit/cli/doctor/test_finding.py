"""Findings are plain data."""

from __future__ import annotations

from hareline.cli.doctor import Verdict, error, note, ok, warning


def test_findings_have_their_verdicts() -> None:
    found = [ok("a", "b"), note("a", "b"), warning("a", "b", "c"), error("a", "b", "c")]
    assert [each.verdict for each in found] == list(Verdict)
    assert found[3].as_dict() == {"check": "a", "verdict": "error", "found": "b", "remedy": "c"}
