"""A table of cases as one test that reports every case that fails.

Used where a table has dozens of quick cases: as tests of their own they cost more than they test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def hold_each(rows: Iterable[tuple[Any, ...]], check: Callable[..., None]) -> None:
    """Call ``check`` with each row; fail with a line for each row that it raised for.

    No row at all is a failure, too.
    """
    count = 0
    wrong = []
    for row in rows:
        count += 1
        try:
            check(*row)
        except (Exception, pytest.fail.Exception) as problem:
            wrong.append(f"{row!r}: {type(problem).__name__}: {problem}")
    if wrong or not count:
        pytest.fail("\n".join([f"{len(wrong)} of {count} rows", *wrong]), pytrace=False)
