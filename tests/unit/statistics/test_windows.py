"""Query parameters that ask for samples."""

from __future__ import annotations

import pytest

from hareline.statistics.windows import Window, WindowError, read_windows


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
