"""Each error of the Spark side has a code of its own, and shows it."""

from __future__ import annotations

from hareline.spark import errors
from hareline.spark.errors import OffsetGone, SparkSideError


def test_the_text_begins_with_the_code() -> None:
    assert (
        str(OffsetGone("queue 'q' begins at 7", first=7)) == "[OFFSET_GONE] queue 'q' begins at 7"
    )


def test_no_two_errors_have_the_same_code() -> None:
    classes = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, SparkSideError)
    ]
    assert len({each.code for each in classes}) == len(classes) > 10
