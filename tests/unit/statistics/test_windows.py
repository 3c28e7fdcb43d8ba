"""Durations and rates over a window of time."""

from __future__ import annotations

import pytest

from hareline.statistics.timings import BOUNDS, Timings
from hareline.statistics.windows import Window, WindowError, read_windows

# ----------------------------------------------------------------------------------------- timings


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


# ----------------------------------------------------------------------------------------- windows


def test_both_parameters_of_a_pair_make_a_window() -> None:
    asked = {"lengths_age": "60", "lengths_incr": "5", "data_rates_age": "60", "page": "1"}
    assert read_windows(asked) == {"lengths": Window(60, 5)}


def test_each_group_has_its_own() -> None:
    asked = {
        f"{group}_{part}": number
        for group in ("msg_rates", "node_stats")
        for part, number in (("age", "600"), ("incr", "60"))
    }
    assert read_windows(asked) == {"msg_rates": Window(600, 60), "node_stats": Window(600, 60)}


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "0", "1.5", "x", "٣", "99999999999999999999"),
        *("0" * 11 + "1" * 9, "0" * 11 + "1" * 5_000),  # small by their first digits alone
    ],
)
def test_what_is_no_number_of_seconds_is_refused_by_name(text: str) -> None:
    with pytest.raises(WindowError, match="lengths_age must be a number of seconds"):
        read_windows({"lengths_age": text, "lengths_incr": "5"})


def test_a_window_with_too_many_samples_is_refused() -> None:
    assert read_windows({"lengths_age": "499", "lengths_incr": "1"})
    with pytest.raises(WindowError, match="more than 500 samples"):
        read_windows({"lengths_age": "500", "lengths_incr": "1"})
