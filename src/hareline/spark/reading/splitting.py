"""How much of each stream a micro-batch reads, and how ranges are split over tasks.

Pure arithmetic; ``following`` and ``batch`` call it. Invariant: what is split is covered exactly,
without gap or overlap, and what is shared out is never more than the limit and never nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

#: Unless minPartitions is given, a range is not split into pieces of fewer rows than this.
SMALL_RANGE_ROWS: Final = 10_000


class Range(NamedTuple):
    """The messages ``start`` to ``end`` - 1 of a stream in one of its lives."""

    queue: str
    incarnation: str
    start: int
    end: int

    @property
    def rows(self) -> int:
        """How many messages that is."""
        return self.end - self.start


class Backlog(NamedTuple):
    """What there is to read of a stream; ``octets``: about how many its bodies have."""

    rows: int
    octets: int


def share_out(
    backlogs: Mapping[str, Backlog], max_rows: int | None, max_octets: int | None
) -> dict[str, int]:
    """How many rows to read of each stream with a backlog, in proportion to the backlogs.

    Each gets one row at least; if there are more streams than rows, the longest backlogs do. None:
    no such limit. Octets are estimates, so the limit of octets is kept only about.
    """
    waiting = {queue: each for queue, each in backlogs.items() if each.rows > 0}
    total = sum(each.rows for each in waiting.values())
    budget = total if max_rows is None else min(total, max_rows)
    octets = sum(each.octets for each in waiting.values())
    if max_octets is not None and octets > max_octets:
        budget = min(budget, max(1, total * max_octets // octets))
    if budget >= total:
        return {queue: each.rows for queue, each in waiting.items()}
    by_rows = sorted(waiting, key=lambda queue: (-waiting[queue].rows, queue))
    if budget <= len(by_rows):
        return dict.fromkeys(by_rows[:budget], 1)
    # One row for each, and of the rest its part; what rounding leaves goes to the longest.
    spare = budget - len(by_rows)
    more = total - len(by_rows)
    shares = {queue: 1 + (waiting[queue].rows - 1) * spare // more for queue in by_rows}
    left = budget - sum(shares.values())
    for queue in by_rows:
        if left > 0 and shares[queue] < waiting[queue].rows:
            shares[queue] += 1
            left -= 1
    return shares


def split(
    ranges: Sequence[Range], max_rows: int, min_parts: int | None, default_parts: int
) -> list[Range]:
    """The same messages in ranges of at most ``max_rows``, and in ``min_parts`` ranges or more.

    A range that ends before it begins has none. Where there are fewer messages than that, each is
    a range. If ``min_parts`` is None, ``default_parts`` is aimed at, but not with pieces of fewer
    than `SMALL_RANGE_ROWS`.
    """
    whole = [each for each in ranges if each.rows > 0]
    total = sum(each.rows for each in whole)
    if min_parts is None:
        min_parts = max(1, min(default_parts, total // SMALL_RANGE_ROWS))
    pieces = []
    for each in whole:
        count = max(-(-each.rows // max_rows), -(-each.rows * min_parts // total))
        count = min(count, each.rows)
        bounds = [each.start + each.rows * number // count for number in range(count + 1)]
        pieces += [each._replace(start=start, end=end) for start, end in pairwise(bounds)]
    return pieces
