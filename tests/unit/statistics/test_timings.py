"""How long something takes that happens again and again."""

from __future__ import annotations

from hareline.statistics.timings import BOUNDS, Timings


def test_each_time_is_in_the_first_bucket_whose_bound_it_does_not_pass() -> None:
    timings = Timings()
    for seconds in (0.0, 0.0005, 0.0006, 3.0):
        timings.add(seconds)
    assert timings.buckets == [2, 1, *[0] * (len(BOUNDS) - 2), 1]
    assert timings.count == 4
    assert (timings.last_s, round(timings.sum_s, 4)) == (3.0, 3.0011)


def test_the_longest_begins_anew_when_it_was_taken() -> None:
    timings = Timings()
    for seconds in (0.2, 0.5, 0.1):
        timings.add(seconds)
    assert timings.take_max() == 0.5
    assert timings.take_max() == 0.0
    timings.add(0.3)
    assert timings.take_max() == 0.3
