"""What a check of ``hareline doctor`` found: a verdict, a sentence, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    ok = "ok"
    note = "note"
    warning = "warning"
    error = "error"


@dataclass(frozen=True)
class Finding:
    """``remedy``: what to do, empty if nothing is to be done."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ok(check: str, found: str) -> Finding:
    return Finding(check, Verdict.ok, found)


def note(check: str, found: str, remedy: str = "") -> Finding:
    return Finding(check, Verdict.note, found, remedy)


def warning(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.warning, found, remedy)


def error(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.error, found, remedy)
