"""A story that the gate runs for what it does, and `make acceptance` for how long it takes too."""

from __future__ import annotations

from typing import Final

import pytest

#: Gives a test ``is_timed``: whether it judges by the clock, which no test of the gate may do.
judged: Final = pytest.mark.parametrize(
    "is_timed",
    [False, pytest.param(True, marks=pytest.mark.acceptance)],
    ids=["done", "in time"],
)
