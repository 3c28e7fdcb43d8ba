"""The nearest-rank percentile."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 < share <= 1) of the values do not exceed.

    :raises ValueError: no values, or a share outside its range.
    """
    if not ascending:
        raise ValueError("no values, so no percentile")
    if not 0 < share <= 1:
        raise ValueError(f"a share lies above 0 and up to 1, not at {share}")
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]
