"""The error of an administrative act that is not done.

Raised by every part of ``hareline.administration``; ``management.api`` makes an answer of it, and
the import of definitions a line of its report.
"""

from __future__ import annotations

from typing import Literal

from hareline.errors import HarelineError

#: ``conflict``: it is set elsewhere. ``protected``: it may not be deleted.
Kind = Literal["bad_request", "not_found", "conflict", "protected"]


class AdministrationError(HarelineError):
    """Nothing has changed; ``reason`` says what was wrong and what to do."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind: Kind = kind
        self.reason = reason


def bad_request(reason: str) -> AdministrationError:
    """The error for something that is not valid."""
    return AdministrationError("bad_request", reason)
